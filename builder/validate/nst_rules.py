"""Rules for slice templates."""

import re
from collections.abc import Iterator

from builder.validate.context import Context, ids, rule
from builder.validate.params import named_in
from builder.validate.problem import Problem, problem
from builder.validate.schema import shown


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
            yield ctx.tell("subnet-shared", place, name=name)


@rule("nst")
def descriptions(ctx: Context) -> Iterator[Problem]:
    """The description of a subnet becomes that of its service."""
    for place, text, _ in ctx.each("netslice-subnet[]/description?"):
        if not re.fullmatch("[^'\"]{1,255}", text):
            yield ctx.tell("subnet-description", place, value=shown(text))


@rule("nst")
def parameters(ctx: Context) -> Iterator[Problem]:
    """Parameters of services; NBI reads them when it makes a slice."""
    for place, params, (subnet,) in ctx.each("netslice-subnet[]/instantiation-parameters?"):
        nsd = ctx.catalog.nsds.get(subnet["nsd-ref"], {})
        for told in named_in(params, nsd, ctx.at(place), ctx.catalog):
            yield problem(told.path, "nst-parameters", sentence=told.sentence)


@rule("nst")
def links(ctx: Context) -> Iterator[Problem]:
    """Links between the network services of a slice."""
    known = {s["id"]: s["nsd-ref"] for s in ctx.body.get("netslice-subnet") or ()}
    for place, link, _ in ctx.each("netslice-vld[]"):
        if link.get("name") != link["id"]:
            # LCM reads `name` without a check, so a missing name is a KeyError.
            yield ctx.tell("nss-link-name", f"{place}/name", link=link)
    ends = "netslice-vld[]/nss-connection-point-ref[]/nsd-connection-point-ref"
    for place, sap, (_, point) in ctx.each(ends):
        reference = known.get(point["nss-ref"], "")
        nsd = ctx.catalog.nsds.get(reference)
        if nsd is not None and sap not in ids(nsd.get("sapd")):
            yield ctx.tell("nss-sap", place, reference=reference, sap=sap, may=ids(nsd.get("sapd")))
