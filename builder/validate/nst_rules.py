"""Rules for slice templates."""

from collections.abc import Iterator

from builder.validate.context import Context, choices, ids, numbered, rule
from builder.validate.problem import Problem


@rule("nst")
def subnets(ctx: Context) -> Iterator[Problem]:
    """Network services of a slice."""
    for place, subnet in numbered("/netslice-subnet", ctx.body.get("netslice-subnet")):
        reference = subnet["nsd-ref"]
        if reference not in ctx.catalog.nsds:
            yield ctx.refused(
                "nsd-unknown",
                f"{place}/nsd-ref",
                f"NSD {reference!r} is not onboarded; allowed: {choices(ctx.catalog.nsds)}",
                f"Descriptor error at 'netslice-subnet':'nsd-ref'='{reference}' references a non "
                "existing nsd",
            )
        if not subnet.get("description"):
            sentence = "NBI demands a description when the slice is made; allowed: with one"
            yield ctx.silent("subnet-description", place, sentence)


@rule("nst")
def shared(ctx: Context) -> Iterator[Problem]:
    """Services that several slices use."""
    connected = {
        point["nss-ref"]
        for link in ctx.body.get("netslice-vld") or ()
        for point in link.get("nss-connection-point-ref") or ()
    }
    for place, subnet in numbered("/netslice-subnet", ctx.body.get("netslice-subnet")):
        name = subnet["id"]
        if subnet.get("is-shared-nss") and name not in connected:
            sentence = (
                f"LCM counts the users of shared service {name!r} by netslice-vld and ends it with "
                "the first slice; allowed: a netslice-vld with an end in it"
            )
            yield ctx.silent("subnet-shared", place, sentence)


@rule("nst")
def termination(ctx: Context) -> Iterator[Problem]:
    """LCM ends the termination of a slice only inside its loop over the slice's links."""
    if not ctx.body.get("netslice-vld"):
        sentence = (
            "without netslice-vld the termination of the slice stays PROCESSING for ever; allowed: "
            "at least one, for example of the management network"
        )
        yield ctx.silent("nst-no-link", "", sentence)


@rule("nst")
def links(ctx: Context) -> Iterator[Problem]:
    """Links between the network services of a slice."""
    known = {s["id"]: s["nsd-ref"] for s in ctx.body.get("netslice-subnet") or ()}
    for place, link in numbered("/netslice-vld", ctx.body.get("netslice-vld")):
        if link.get("name") != link["id"]:
            # LCM reads `name` without a check, so a missing name is a KeyError.
            sentence = f"LCM needs name and id equal; allowed: {link['id']!r}"
            yield ctx.silent("nss-link-name", f"{place}/name", sentence)
        points = numbered(f"{place}/nss-connection-point-ref", link.get("nss-connection-point-ref"))
        if not link.get("nss-connection-point-ref"):
            sentence = "nss-connection-point-ref is missing or empty; allowed: the ends of the link"
            yield ctx.silent("nss-link-ends", place, sentence)
        for at, point in points:
            nss, sap = point["nss-ref"], point["nsd-connection-point-ref"]
            if nss not in known:
                sentence = f"{nss!r} is no netslice-subnet; allowed: {choices(known)}"
                yield ctx.silent("nss-reference", f"{at}/nss-ref", sentence)
                continue
            nsd = ctx.catalog.nsds.get(known[nss])
            if nsd is not None and sap not in ids(nsd.get("sapd")):
                sentence = (
                    f"{known[nss]} has no sapd {sap!r}; allowed: {choices(ids(nsd.get('sapd')))}"
                )
                place_of = f"{at}/nsd-connection-point-ref"
                yield ctx.silent("nss-sap", place_of, sentence)
