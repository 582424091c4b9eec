"""Rules for descriptors that OSM accepts, but from which it cannot create a service.

NBI builds the records of a service directly from the descriptors. Its lookups fail if an optional
key is missing. The source of all rules is NBI's instance_topics.py.
"""

import ipaddress
from collections.abc import Iterator

import yaml

from builder.documents import DAY12, FASTEST, Loader, repeated, walk
from builder.validate.context import Context, body_of, choices, ids, rule
from builder.validate.primitive_rules import WHOLE
from builder.validate.problem import Problem
from builder.validate.schema import shown


@rule("vnfd", "nsd", "nst")
def repeated_keys(ctx: Context) -> Iterator[Problem]:
    """A key must not repeat in one mapping: YAML parsers keep only the last and report nothing."""
    text = ctx.package.text(ctx.package.descriptor_path)
    if text is None:
        return
    where = f"{ctx.package.name}: {ctx.package.descriptor_path}"
    try:
        yield from twice(where, text, yaml.SafeLoader)
    except yaml.YAMLError as error:
        # NBI has this loader too; the reader's one, libyaml, takes a tab before a value.
        sentence = f"not usable as YAML: {' '.join(str(error).split())[:200]}"
        yield Problem(where, "refused", "descriptor-yaml", sentence, "Invalid yaml format")


def twice(where: str, text: str, loader: Loader = FASTEST) -> Iterator[Problem]:
    """Return the problems of keys that repeat in one mapping of a YAML text."""
    for line, name, first in repeated(loader(text).get_single_node()):
        sentence = (
            f"key {name!r} is repeated; YAML ignores its value in line {first}; allowed: once"
        )
        yield Problem(f"{where}:{line}", "silent", "key-twice", sentence)


@rule("vnfd")
def records_of_vdus(ctx: Context) -> Iterator[Problem]:
    """The record of a VDU needs its first disk."""
    for place, disks, _ in ctx.each("vdu[]/virtual-storage-desc"):
        if not disks:
            known = choices(ids(ctx.body.get("virtual-storage-desc")))
            sentence = f"NBI takes the first and fails (IndexError); allowed: one of {known}"
            yield ctx.silent("vdu-no-disk", place, sentence)


@rule("vnfd")
def healed_parameters(ctx: Context) -> Iterator[Problem]:
    """Healing runs initial primitives again, but then OSM no longer has additionalParams."""
    needed = {
        value
        for _, value, _ in ctx.each(f"{DAY12}[]/initial-config-primitive[]/parameter[]/value")
        if isinstance(value, str) and WHOLE.fullmatch(value)
    } - {"<rw_mgmt_ip>"}
    for place, _, _ in ctx.each("df[0]/healing-aspect[]/healing-policy[]/day1?"):
        if needed:
            sentence = (
                f"healing gives the initial primitives no {choices(needed)} and fails; "
                "allowed: day1: false, or primitives that need <rw_mgmt_ip> only"
            )
            yield ctx.silent("healing-parameter", place, sentence)


@rule("nsd")
def record_of_service(ctx: Context) -> Iterator[Problem]:
    """The record of a service needs members with a text as index."""
    # pyangbind converts the ids to text, but then NBI restores the original vnf-profiles.
    for place, index, _ in walk(body_of(ctx.package), "df[]/vnf-profile[]/id"):
        if not isinstance(index, str):
            sentence = (
                f"{index!r} is a number, which NBI cannot make names of (TypeError) and parameters "
                f'never match; allowed: "{index}", in quotes'
            )
            yield ctx.silent("member-number", place, sentence)


@rule("nsd")
def networks(ctx: Context) -> Iterator[Problem]:
    """NBI finds connections by the id of a virtual-link-desc; one link must be management."""
    links = ids(ctx.body.get("virtual-link-desc"))
    described = ctx.body.get("virtual-link-desc") or ()
    if described and not any(link.get("mgmt-network") for link in described):
        sentence = (
            "no virtual-link-desc is mgmt-network, so VNFs get no address that charms reach; "
            "allowed: mgmt-network: true at one"
        )
        yield ctx.silent("mgmt-none", "/virtual-link-desc", sentence)
    ends = "df[]/vnf-profile[]/virtual-link-connectivity[]/virtual-link-profile-id"
    for place, link, (flavour, *_) in ctx.each(ends):
        if link in ids(flavour.get("virtual-link-profile")) - links:
            sentence = (
                f"NBI looks for a virtual-link-desc {link!r} and fails (KeyError): a profile's own "
                f"id does not count; allowed: {choices(links)}"
            )
            yield ctx.silent("ns-link-profile", place, sentence)
    points = "virtual-link-connectivity[]/constituent-cpd-id[]/constituent-cpd-id"
    for place, profile, _ in ctx.each("df[]/vnf-profile[]"):
        management = (ctx.catalog.vnfds.get(profile["vnfd-id"]) or {}).get("mgmt-cp")
        if management and management not in {point for _, point, _ in walk(profile, points)}:
            sentence = (
                f"nothing connects the management point {management!r} of {profile['vnfd-id']}, "
                "so OSM waits for an address that never comes; allowed: a connection to "
                f"{choices(links)}"
            )
            yield ctx.silent("mgmt-link", place, sentence)


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
            sentence = f"{shown(cidr)} is no subnet; allowed: for example 192.168.8.0/24"
            yield ctx.silent("link-cidr", f"{place}/cidr", sentence)
            continue
        version = f"ipv{network.version}"
        if layer.get("ip-version", version) != version:
            sentence = f"{layer['ip-version']} with {cidr}; allowed: {version}"
            yield ctx.silent("link-cidr", f"{place}/ip-version", sentence)
        if gateway is not None and ipaddress.ip_address(gateway) not in network:
            sentence = f"{gateway} is outside of {cidr}; allowed: an address in it"
            yield ctx.silent("link-cidr", f"{place}/gateway-ip", sentence)
