"""Rules for descriptors that OSM accepts, but from which it cannot create a service.

NBI builds the records of a service directly from the descriptors. Its lookups fail if an optional
key is missing. The source of all rules is NBI's instance_topics.py.
"""

import ipaddress
from collections.abc import Iterator

import yaml

from builder.documents import FASTEST, Loader, initial_values, misread, placeholder, repeated, walk
from builder.validate.context import Context, body_of, ids, rule
from builder.validate.problem import Problem, problem
from builder.validate.reader import place_of
from builder.validate.schema import shown


@rule("vnfd", "nsd", "nst")
def repeated_keys(ctx: Context) -> Iterator[Problem]:
    """A key must not repeat in one mapping: YAML parsers keep only the last and report nothing."""
    text = ctx.package.text(ctx.package.descriptor_path) or ""
    where = place_of(ctx.package.name, ctx.package.descriptor_path)
    try:
        yield from twice(where, text, yaml.SafeLoader)
    except yaml.YAMLError as error:
        # NBI has this loader too; the reader's one, libyaml, takes a tab before a value.
        yield problem(where, "descriptor-yaml", error=" ".join(str(error).split())[:200])


def twice(where: str, text: str, loader: Loader = FASTEST) -> Iterator[Problem]:
    """Return the problems of keys that repeat in one mapping of a YAML text."""
    for line, name, first in repeated(loader(text).get_single_node()):
        yield problem(f"{where}:{line}", "key-twice/descriptor", name=name, first=first)


def misread_numbers(where: str, text: str) -> Iterator[Problem]:
    """Return the problems of numbers that YAML takes for others than people who read them."""
    for line, value, number in misread(FASTEST(text).get_single_node()):
        yield problem(f"{where}:{line}", "params-value/misread", value=value, number=number)


@rule("vnfd")
def records_of_vdus(ctx: Context) -> Iterator[Problem]:
    """The record of a VDU needs its first disk."""
    for place, disks, _ in ctx.each("vdu[]/virtual-storage-desc"):
        if not disks:
            yield ctx.tell("vdu-no-disk", place, may=ids(ctx.body.get("virtual-storage-desc")))


@rule("vnfd")
def healed_parameters(ctx: Context) -> Iterator[Problem]:
    """Healing runs initial primitives again, but then OSM no longer has additionalParams."""
    values = {value for _, value, _ in initial_values(ctx.body) if placeholder(value)}
    needed = values - {"<rw_mgmt_ip>"}
    for place, _, _ in ctx.each("df[0]/healing-aspect[]/healing-policy[]/day1?"):
        if needed:
            yield ctx.tell("healing-parameter", place, may=needed)


@rule("nsd")
def record_of_service(ctx: Context) -> Iterator[Problem]:
    """The record of a service needs members with a text as index."""
    # pyangbind converts the ids to text, but then NBI restores the original vnf-profiles.
    for place, index, _ in walk(body_of(ctx.package), "df[]/vnf-profile[]/id"):
        if not isinstance(index, str):
            yield ctx.tell("member-number", place, index=index)


@rule("nsd")
def networks(ctx: Context) -> Iterator[Problem]:
    """NBI finds connections by the id of a virtual-link-desc; one link must be management."""
    links = ids(ctx.body.get("virtual-link-desc"))
    described = ctx.body.get("virtual-link-desc") or ()
    if described and not any(link.get("mgmt-network") for link in described):
        yield ctx.tell("mgmt-none", "/virtual-link-desc")
    ends = "df[]/vnf-profile[]/virtual-link-connectivity[]/virtual-link-profile-id"
    for place, link, (flavour, *_) in ctx.each(ends):
        if link in ids(flavour.get("virtual-link-profile")) - links:
            yield ctx.tell("ns-link-profile", place, link=link, may=links)
    for place, _, way in ctx.each(f"{ends.rpartition('/')[0]}/constituent-cpd-id[]/ip-address?"):
        _, profile, connection, _ = way
        for key in (connection["virtual-link-profile-id"], profile["id"]):
            if "." in key:
                yield ctx.tell("cpd-dot", place, key=key)
    points = "virtual-link-connectivity[]/constituent-cpd-id[]/constituent-cpd-id"
    for place, profile, _ in ctx.each("df[]/vnf-profile[]"):
        management = (ctx.catalog.vnfds.get(profile["vnfd-id"]) or {}).get("mgmt-cp")
        if management and management not in {point for _, point, _ in walk(profile, points)}:
            yield ctx.tell("mgmt-link", place, management=management, profile=profile, may=links)


@rule("vnfd", "nsd")
def subnets(ctx: Context) -> Iterator[Problem]:
    """NBI accepts any text as cidr; the VIM does not."""
    layers = "df[]/virtual-link-profile[]/virtual-link-protocol-data/l3-protocol-data"
    for place, layer, _ in ctx.each(layers):
        cidr, gateway = layer.get("cidr"), layer.get("gateway-ip")
        if cidr is None:
            continue
        try:
            network = ipaddress.ip_network(cidr)
        except ValueError:
            yield ctx.tell("link-cidr/cidr", f"{place}/cidr", value=shown(cidr))
            continue
        version = f"ipv{network.version}"
        if layer.get("ip-version", version) != version:
            yield ctx.tell(
                "link-cidr/version", f"{place}/ip-version", layer=layer, cidr=cidr, version=version
            )
        if gateway is not None and ipaddress.ip_address(gateway) not in network:
            yield ctx.tell("link-cidr/gateway", f"{place}/gateway-ip", gateway=gateway, cidr=cidr)
