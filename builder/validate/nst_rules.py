"""Rules for slice templates."""

from collections.abc import Iterator

from builder.validate.context import Context, choices, ids, rule
from builder.validate.problem import Problem


@rule("nst")
def shared(ctx: Context) -> Iterator[Problem]:
    """Services that several slices use."""
    connected = {
        point["nss-ref"]
        for link in ctx.body.get("netslice-vld") or ()
        for point in link.get("nss-connection-point-ref") or ()
    }
    for place, subnet, _ in ctx.each("netslice-subnet[]"):
        name = subnet["id"]
        if subnet.get("is-shared-nss") and name not in connected:
            sentence = (
                f"LCM counts the users of shared service {name!r} by netslice-vld and ends it with "
                "the first slice; allowed: a netslice-vld with an end in it"
            )
            yield ctx.silent("subnet-shared", place, sentence)


@rule("nst")
def links(ctx: Context) -> Iterator[Problem]:
    """Links between the network services of a slice."""
    known = {s["id"]: s["nsd-ref"] for s in ctx.body.get("netslice-subnet") or ()}
    for place, link, _ in ctx.each("netslice-vld[]"):
        if link.get("name") != link["id"]:
            # LCM reads `name` without a check, so a missing name is a KeyError.
            sentence = f"LCM needs name and id equal; allowed: {link['id']!r}"
            yield ctx.silent("nss-link-name", f"{place}/name", sentence)
    ends = "netslice-vld[]/nss-connection-point-ref[]/nsd-connection-point-ref"
    for place, sap, (_, point) in ctx.each(ends):
        reference = known.get(point["nss-ref"], "")
        nsd = ctx.catalog.nsds.get(reference)
        if nsd is not None and sap not in ids(nsd.get("sapd")):
            sentence = f"{reference} has no sapd {sap!r}; allowed: {choices(ids(nsd.get('sapd')))}"
            yield ctx.silent("nss-sap", place, sentence)
