"""The 5QI of a slice template, and the parameters that make VNFs enforce it."""

from collections.abc import Iterator

from builder.documents import initial_values, placeholder, profiles_of
from builder.validate.context import Catalog, Document, numbered
from builder.validate.problem import Problem, problem

PARAMETER = "five-qi"  # Name of the parameter of a Day-1 primitive that enforces a 5QI.
NONE = ("0", "-1")  # Values that enforce no 5QI.


def _names(vnfd: Document) -> set[str]:
    """Return the instantiation parameters of a VNF that become a 5QI."""
    values = initial_values(vnfd)
    named = {placeholder(v) for _, v, (*_, parameter) in values if parameter["name"] == PARAMETER}
    return named - {""}


def five_qi(
    document: Document, nst: Document, subnets: dict[str, Document], catalog: Catalog, where: str
) -> Iterator[Problem]:
    """Compare the 5QIs in the parameters of a slice's VNFs with the 5QI of its template.

    ``subnets`` are the NSDs of netslice-subnets, as far as they are known.
    """
    five_qi_id = (nst.get("quality-of-service") or {}).get("id")
    could, given = False, False
    for at, subnet in numbered("netslice-subnet", document.get("netslice-subnet")):
        nsd = subnets.get(subnet["id"])
        if nsd is None:
            continue
        members = profiles_of(nsd)
        key = "additionalParamsForVnf"
        for place, entry in numbered(f"{at}/{key}", subnet.get(key)):
            vnfd = catalog.vnfds.get(members.get(entry["member-vnf-index"], {}).get("vnfd-id", ""))
            names = _names(vnfd) if vnfd else set()
            could = could or bool(names)
            values = entry.get("additionalParams") or {}
            for name in sorted(names & set(values)):
                if str(values[name]) in NONE:
                    continue
                given = True
                if five_qi_id is not None and str(values[name]) != str(five_qi_id):
                    spot = f"{where}: {place}/additionalParams/{name}"
                    words = {"value": values[name], "five_qi": five_qi_id, "nst": nst}
                    words["may"] = [str(five_qi_id), "0"]
                    yield problem(spot, "params-five-qi", **words)
    if could and not given and five_qi_id is not None:
        words = {"five_qi": five_qi_id, "nst": nst, "parameter": PARAMETER}
        yield problem(where, "params-five-qi-unused", **words)
