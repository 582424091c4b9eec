"""Rules for instantiation parameters (`ns-create --config_file`, `nsi-create`)."""

import re
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from builder.documents import (
    DocumentError,
    bounded,
    initial_values,
    links_of,
    no_json,
    placeholder,
    profiles_of,
    walk,
)
from builder.parameters.agreement import disagreements
from builder.validate.cloudinit_rules import files_of, variables
from builder.validate.context import Catalog, Document, numbered
from builder.validate.link_rules import ends, links
from builder.validate.params_models import MODELS, UUID, normalised
from builder.validate.params_rules import addresses, resources, service, values, wrong_key
from builder.validate.pool_rules import fixed, pools
from builder.validate.primitive_rules import BUILT_IN, PARAM_KEY
from builder.validate.problem import Problem, choices, problem
from builder.validate.request import Request
from builder.validate.schema import problems_of, shown
from builder.validate.slice_rules import five_qi
from builder.validate.tables import tabled

UNNAMED = "the default VIM"


def validate_params(kind: str, document: Any, catalog: Catalog, name: str = "") -> list[Problem]:
    """Validate instantiation parameters.

    Args:
        catalog: Contains the NSD or NST. If it contains several, `nsdId` or `nstId` selects one.
            Without a catalog, only the form of the parameters is checked.
    """
    where = name or "parameters"
    if not isinstance(document, dict):
        return [problem(where, "params-form/kind", value=shown(document))]
    try:
        bounded(document)
    except DocumentError as error:
        return [problem(where, "params-form/size", error=error)]
    foreign = {
        Problem(f"{where}: {at}", "refused", "wrong-value", say, say)
        for at, say in no_json(document)
    }
    if foreign:
        return sorted(foreign)
    try:
        checked = normalised(kind, document)
    except ValidationError as error:
        return [
            Problem(
                p.path, p.severity, p.code, p.sentence, f"Format error at {p.path}: {p.sentence}"
            )
            for p in problems_of(error, MODELS[kind], where, "")
        ]
    problems = {problem(where, "params-disagree", sentence=text) for text in disagreements(checked)}
    if kind == "nsi":
        return sorted(problems | set(_nsi(checked, where, catalog)))
    chosen = checked.get("nsdId")
    result = [nsd for nsd in catalog.nsds.values() if chosen in (None, nsd["id"], nsd.get("_id"))]
    if len(result) == 1:
        problems |= _ns(checked, result[0], where, catalog, frozenset())
    return sorted(problems)


def named_in(params: Document, nsd: Document, where: str, catalog: Catalog) -> list[Problem]:
    """Return the problems of keys and references in a part of a service's parameters."""
    try:
        document = normalised("ns", params)
    except ValidationError as error:
        return problems_of(error, MODELS["ns"], where, "")
    request = Request(document, nsd, _vnfds(nsd, catalog), catalog, where)
    return [*_tables(request), *_keys(request)] if nsd else []


def _vnfds(nsd: Document, catalog: Catalog) -> dict[str, Document]:
    profiles = profiles_of(nsd)
    return {name: catalog.vnfds.get(one["vnfd-id"], {}) for name, one in profiles.items()}


def _ns(
    document: Document, nsd: Document, where: str, catalog: Catalog, joined: frozenset[str]
) -> set[Problem]:
    request = Request(document, nsd, _vnfds(nsd, catalog), catalog, where, joined)
    problems: set[Problem] = set()
    ours = (_tables, _several_vims, _subnets_elsewhere, _keys, _supplied)
    for check in (*ours, resources, addresses, pools, service, values):
        problems |= set(check(request))
    # What is no value at all is told once, not also as one that does not fit others.
    wrong = {problem.path for problem in problems if problem.code == "params-value"}
    return problems | {p for rule in (links, ends) for p in rule(request) if p.path not in wrong}


def _tables(request: Request) -> Iterator[Problem]:
    """The rows of the table about a service's parameters."""

    def known(entries: tuple[Document, ...]) -> Document:
        keys = ("member-vnf-index", "member-vnf-index-ref")
        index = next((entry[key] for entry in entries for key in keys if key in entry), "")
        members = [*request.vnfds]
        return {"nsd": request.nsd, "members": members, "vnfd": request.vnfds.get(index)}

    return tabled(request, "ns", request.document, known)


def _nsi(document: Document, where: str, catalog: Catalog) -> Iterator[Problem]:
    chosen = document.get("nstId")
    templates = [
        nst for nst in catalog.nsts.values() if chosen in (None, nst["id"], nst.get("_id"))
    ]
    if len(templates) != 1:
        return
    nst = templates[0]
    subnets = {subnet["id"]: subnet for subnet in nst.get("netslice-subnet") or ()}
    given = {subnet["id"]: subnet for subnet in document.get("netslice-subnet") or ()}
    request = Request(document, {}, {}, catalog, where)
    yield from tabled(request, "nsi", document, lambda _: {"nst": nst})
    for key in document.get("additionalParamsForNsi") or {}:
        if re.search("[.$]", key):
            yield request.tell("params-key/slice", "additionalParamsForNsi", key=key)
    nsds = {
        n: catalog.nsds[s["nsd-ref"]] for n, s in subnets.items() if s["nsd-ref"] in catalog.nsds
    }
    yield from five_qi(document, nst, nsds, catalog, where)
    for name, subnet in subnets.items():
        nsd = nsds.get(name)
        if nsd is None or (subnet.get("is-shared-nss") and name not in given):
            continue  # a shared service may exist already; then it needs no parameters
        own = {key: value for key, value in given.get(name, {}).items() if key != "id"}
        try:
            params = normalised("ns", {**(subnet.get("instantiation-parameters") or {}), **own})
        except ValidationError as error:
            yield from problems_of(error, MODELS["ns"], f"{nst['id']}: {name}", "")
            continue
        place = f"{where}: netslice-subnet {name}"
        connected = _connected(nst, name, nsd)
        yield from _ns(params, nsd, place, catalog, connected)
        # LCM drops parts of `vld` when a service is part of a slice.
        for at, link in numbered("vld", params.get("vld")):
            lost = set(link) & {"ip-profile", "vim-network-name", "vim-network-id", "wimAccountId"}
            if lost and link["name"] not in connected:
                yield problem(f"{place}: {at}", "params-nss-vld", may=lost, link=link)


def _connected(nst: Document, subnet: str, nsd: Document) -> frozenset[str]:
    """Return the links of a service that a slice connects with others."""
    ends = {
        point["nsd-connection-point-ref"]
        for link in nst.get("netslice-vld") or ()
        for point in link.get("nss-connection-point-ref") or ()
        if point["nss-ref"] == subnet
    }
    saps = {sap["id"]: sap.get("virtual-link-desc") for sap in nsd.get("sapd") or ()}
    return frozenset(str(saps.get(end)) for end in ends)


def _several_vims(request: Request) -> Iterator[Problem]:
    """A link that spans VIMs needs a network name per VIM, and no WIM."""
    default = request.document.get("vimAccountId") or UNNAMED
    vims = {index: vim or default for index, vim in request.vims().items()}
    if not vims:
        return
    given = request.links()
    service_wim = {request.document.get(key) for key in ("wimAccountId", "wim_account")}
    for link in request.nsd.get("virtual-link-desc") or ():
        spans = _spans(request, link["id"], vims, default)
        # Each VIM has its own management network; OSM needs no parameter for it.
        if len(spans) < 2 or link.get("mgmt-network"):
            continue
        place, params = given.get(link["id"], ("vld", {}))
        networks = params.get("vim-network-name") or params.get("vim-network-id")
        named = set(networks) if isinstance(networks, dict) else set()
        missing = spans - named
        # A name that no member has can be that of the default VIM.
        if named - spans:
            missing.discard(UNNAMED)
        # It can also be that of a VIM that a member gives by its UUID, or the other way round:
        # clients turn names into UUIDs, also in vim-network-name.
        for by_uuid in (True, False):
            same = {vim for vim in missing if bool(re.fullmatch(UUID, vim)) is by_uuid}
            others = {vim for vim in named - spans if bool(re.fullmatch(UUID, vim)) is not by_uuid}
            if len(same) <= len(others) and (not by_uuid or params.get("vim-network-name")):
                missing -= same
        if missing:
            yield request.tell(
                "params-vim-network", place, link=link, may=spans, missing=choices(missing)
            )
        no_wim = False in service_wim | {params.get("wimAccountId"), params.get("wim_account")}
        if not no_wim:
            yield request.tell("params-wim", place, link=link)


def _spans(request: Request, link: str, vims: dict[str, str], default: str) -> set[str]:
    on = (member for member, _, name in links_of(request.nsd) if name == link)
    return {vims.get(member, default) for member in on}


def _subnets_elsewhere(request: Request) -> Iterator[Problem]:
    """Fixed addresses at a VIM other than the service's need an existing network.

    LCM gives `ip-profile` only to the service's VIM. For a member with another VIM in `vnf`, RO
    gets the name of the network. Without a name it makes a network with any 192.168.x.0/24.
    """
    named = {index: vim for index, vim in request.vims().items() if vim}
    given = request.links()
    managed = {
        link["id"]
        for link in request.nsd.get("virtual-link-desc") or ()
        if link.get("mgmt-network")
    }
    for index, connection, name in links_of(request.nsd):
        vim = named.get(index)
        if vim is None or len(_spans(request, name, named, "")) > 1:
            continue  # params-vim-network says what is missing
        place, link = given.get(name, ("vld", {}))
        networks = link.get("vim-network-name") or link.get("vim-network-id")
        if isinstance(networks, dict):
            # No member names the service's own VIM; OSM copies its network's name to this VIM.
            networks = networks.get(vim) or set(networks) - set(named.values())
        if networks or name in managed:
            continue
        for _, address in fixed(request, index, connection, place, link):
            yield request.tell(
                "params-vim-subnet", place, index=index, vim=vim, name=name, address=address
            )


def _keys(request: Request) -> Iterator[Problem]:
    """Keys of additionalParams are names of Jinja2."""
    for own in ("", "/additionalParamsForVdu[]"):
        path = f"additionalParamsForVnf[]{own}/additionalParams"
        for place, params, (entry, *vdus) in walk(request.document, path):
            whose = f"additionalParamsForVnf[member-vnf-index={entry['member-vnf-index']}]"
            for vdu in vdus:
                whose += f".additionalParamsForVdu[vdu_id={vdu['vdu_id']}]"
            for key in params:
                if not PARAM_KEY.fullmatch(key):
                    yield wrong_key(request, place, whose, key)


def _supplied(request: Request) -> Iterator[Problem]:
    """Every <parameter> of initial primitives and every variable of cloud-init has a value."""
    given = request.members()
    for index, vnfd in request.vnfds.items():
        _, entry = given.get(index, ("", {}))
        of_vnf = set(entry.get("additionalParams") or {})
        # A VDU's parameters replace those of the VNF; OSM does not merge them.
        of_vdu = {
            vdu["vdu_id"]: set(vdu["additionalParams"])
            for vdu in entry.get("additionalParamsForVdu") or ()
            if vdu.get("additionalParams")
        }
        of_kdu = {str(kdu.get("name")): set() for _, kdu in numbered("kdu", vnfd.get("kdu"))} | {
            kdu["kdu_name"]: set(kdu.get("additionalParams") or {})
            for kdu in entry.get("additionalParamsForKdu") or ()
        }
        for target, name, primitive in _needed(vnfd):
            if name not in (of_vdu | of_kdu).get(target, of_vnf):
                words = {"primitive": primitive, "name": name, "descriptor": vnfd}
                place = f"additionalParamsForVnf[{index}]"
                yield request.tell("params-missing", place, index=index, **words)
        package = request.catalog.package(str(vnfd.get("id")))
        for vdu_id, text in (files_of(package, vnfd) if package else {}).items():
            for name in sorted(variables(text) - of_vdu.get(vdu_id, of_vnf)):
                place = f"additionalParamsForVnf[{index}]"
                yield request.tell(
                    "params-cloud-init", place, index=index, vdu_id=vdu_id, name=name
                )


def _needed(vnfd: Document) -> Iterator[tuple[str, str, str]]:
    """Return (day1-2 id, parameter, primitive) of every <parameter> of initial primitives."""
    for _, value, (_, entry, primitive, _) in initial_values(vnfd):
        name = placeholder(value)
        if name and name not in BUILT_IN:
            yield str(entry["id"]), name, primitive["name"]
