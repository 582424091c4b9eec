"""More rules for instantiation parameters: NBI's look-ups, and the types of values.

NBI accepts every value in `additionalParams`. A wrong value appears only an hour later, as a failed
primitive. These rules know the packages, so they compare the value with the charm's action first.
"""

import ipaddress
import re
import unicodedata
from collections.abc import Iterator
from typing import Any

from builder import documents
from builder.documents import NICS, links_of, nics_at, placeholder, walk
from builder.parameters.agreement import technology
from builder.validate.charm_files import Charm, charm_of
from builder.validate.cloudinit_rules import files_of, variables
from builder.validate.context import Document, day12_of, numbered
from builder.validate.pool_rules import profiles
from builder.validate.primitive_rules import (
    BUILT_IN,
    LOOPBACK,
    NO_LOOPBACK,
    PARAM_KEY,
    misfit,
)
from builder.validate.problem import Problem
from builder.validate.request import Request
from builder.validate.schema import shown

TEXT = "allowed: text, in quotes"
SECRET = re.compile("pass|secret|key|token", re.IGNORECASE)
"""Names of parameters whose values no message shows."""
NULLS = ("None", "null", "Null", "NULL", "~")
LOOK_ALIKE = {"Zs", "Zl", "Zp", "Cc", "Cf", "Pd", "Pi", "Pf"}
"""Unicode categories: blanks, control and format characters, dashes, typographic quotes."""
BESIDE = ("inner-address", "ue-pool", "inner-pool", "dns", "second-dns")
"""Parameters with addresses that are on none of the VDU's own networks."""
ADDRESS = re.compile(r"[0-9]+(\.[0-9]+){3}[0-9\s/]*")


def resources(request: Request) -> Iterator[Problem]:
    """A VDU's flavor is named once, and its NICs must exist where NBI looks them up."""
    for at, vdu, (entry, _) in walk(request.document, "vnf[]/vdu[]"):
        index = entry["member-vnf-index"]
        vdus = {vdu["id"]: vdu for vdu in request.vnfds.get(index, {}).get("vdu") or ()}
        if vdu.get("vim-flavor-id") and vdu.get("vim-flavor-name"):
            yield request.tell("params-flavor", at)
        if vdu["id"] in vdus:
            yield from _interfaces(request, at, index, vdu, vdus[vdu["id"]])


def _interfaces(
    request: Request, place: str, index: str, given: Document, vdu: Document
) -> Iterator[Problem]:
    known = {nic["name"] for _, nic, _ in walk(vdu, NICS)}
    for number, (at, nic) in enumerate(numbered(f"{place}/interface", given.get("interface"))):
        if nic["name"] in known:
            continue
        # NBI ends its check at the first name that it knows.
        code = "params-interface-ignored" if number else "params-interface"
        yield request.tell(code, f"{at}/name", index=index, nic=nic, vdu=vdu, may=known)


def addresses(request: Request) -> Iterator[Problem]:
    """Fixed addresses must be in the subnet of their link, and must not repeat."""
    for place, link in numbered("vld", request.document.get("vld")):
        profile = link.get("ip-profile") or {}
        subnet, gateway = profile.get("subnet-address"), profile.get("gateway-address")
        network = _network(subnet) if subnet else None
        if network is not None and subnet != str(network):
            spot = f"{place}/ip-profile/subnet-address"
            yield request.tell("params-address/subnet", spot, subnet=subnet, network=network)
        if network is not None and gateway and not _inside(gateway, network):
            spot = f"{place}/ip-profile/gateway-address"
            yield request.tell("params-address/gateway", spot, gateway=gateway, subnet=subnet)
        seen = {gateway: "the gateway"} if gateway else {}
        key = "vnfd-connection-point-ref"
        for at, point in numbered(f"{place}/{key}", link.get(key)):
            address = point.get("ip-address")
            if not address:
                continue
            spot, words = f"{at}/ip-address", {"address": address, "link": link, "subnet": subnet}
            if network is not None and not _inside(address, network):
                yield request.tell("params-address/outside", spot, **words)
            elif network is not None and _reserved(address, network):
                yield request.tell("params-address/reserved", spot, **words)
            if address in seen:
                yield request.tell("params-address/taken", spot, owner=seen[address], **words)
            seen.setdefault(address, point["member-vnf-index-ref"])


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:  # 010.0.0.0/8 passes NBI's pattern
        return None


def _inside(address: str, network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> bool:
    try:
        return ipaddress.ip_address(address) in network
    except ValueError:
        return False


def _reserved(address: str, network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> bool:
    """Tell whether an address is that of the network, or its broadcast address."""
    ends = (network.network_address, network.broadcast_address)
    return network.version == 4 and network.prefixlen < 31 and ipaddress.ip_address(address) in ends


def service(request: Request) -> Iterator[Problem]:
    """additionalParamsForNs must have valid keys and all values for the service's own charm."""
    given = request.document.get("additionalParamsForNs") or {}
    for name in given:
        if not PARAM_KEY.fullmatch(name):
            yield wrong_key(request, "additionalParamsForNs", "additionalParamsForNs", name)
    config = request.nsd.get("ns-configuration") or {}
    for primitive in config.get("initial-config-primitive") or ():
        yield from _values(request, "additionalParamsForNs", given, primitive, None)
        for parameter in primitive.get("parameter") or ():
            name = placeholder(parameter.get("value"))
            if name and name not in (*BUILT_IN, "ns_config_info", "VDU_SCALE_INFO", *given):
                words = {"primitive": primitive["name"], "name": name, "descriptor": request.nsd}
                yield request.tell("params-ns-missing", "additionalParamsForNs", **words)


def wrong_key(request: Request, place: str, whose: str, name: str) -> Problem:
    """Return the problem of a key of additionalParams that is no Jinja2 name."""
    return request.tell("params-key", place, value=shown(name), whose=whose, name=name)


def values(request: Request) -> Iterator[Problem]:
    """The value that replaces a <parameter> must fit the charm's action or option."""
    given = request.members()
    for index, vnfd in request.vnfds.items():
        package = request.catalog.package(str(vnfd.get("id")))
        if not vnfd or index not in given:
            continue
        at, entry = given[index]
        for _, configured in day12_of("", vnfd["df"][0]):
            place, params = _params_of(at, entry, str(configured["id"]))
            own = _networks(request, index, configured["id"])
            for primitive in configured.get("initial-config-primitive") or ():
                name = documents.charm_of(configured, primitive)
                charm = charm_of(package, name) if name and package else None
                yield from _values(request, place, params, primitive, charm)
                yield from _captured(request, place, params, primitive, own)
        day_0 = files_of(package, vnfd) if package else {}
        for vdu, text in day_0.items():
            place, params = _params_of(at, entry, vdu)
            for name in sorted(variables(text) & params.keys()):
                if params[name] is None:
                    yield request.tell(
                        "params-value/none", f"{place}/{name}", index=index, vdu=vdu, text=TEXT
                    )


def _params_of(at: str, entry: Document, target: str) -> tuple[str, Document]:
    """Return (place, additionalParams) for a day1-2 entry: a VDU's own, else the VNF's."""
    key = "additionalParamsForVdu"
    for inner, vdu in numbered(f"{at}/{key}", entry.get(key)):
        if vdu["vdu_id"] == target and vdu.get("additionalParams"):
            return f"{inner}/additionalParams", vdu["additionalParams"]
    return f"{at}/additionalParams", entry.get("additionalParams") or {}


def _values(
    request: Request, place: str, params: Document, primitive: Document, charm: Charm | None
) -> Iterator[Problem]:
    for parameter in primitive.get("parameter") or ():
        name = placeholder(parameter.get("value"))
        if not name or name not in params or name in BUILT_IN:
            continue
        reason = _unfit(name, params[name], parameter, primitive, charm)
        if reason:
            words = {"parameter": parameter, "primitive": primitive, "reason": reason}
            yield request.tell("params-value/unfit", f"{place}/{name}", **words)
    yield from _covered(request, place, params, primitive)


def _covered(
    request: Request, place: str, params: Document, primitive: Document
) -> Iterator[Problem]:
    """Prefixes that a link takes from peers must leave out its own inner address."""
    names, values = _filled(params, primitive)
    try:
        own = ipaddress.ip_interface(values["inner-address"]).ip
        texts = values["accept-prefixes"].split(",")
        prefixes = [ipaddress.ip_network(text.strip(" ")) for text in texts]
    except (KeyError, ValueError):
        return  # Not a link's, switched off, or of another form, which has its own problem.
    spot = placeholder(names["accept-prefixes"]) or placeholder(names["inner-address"])
    for prefix in prefixes:
        if own in prefix:
            yield request.tell("params-value/covers", f"{place}/{spot}", prefix=prefix, own=own)


def _filled(params: Document, primitive: Document) -> tuple[Document, dict[str, str]]:
    """Return the values of a primitive's parameters as the descriptor has them, and filled in."""
    names = {each["name"]: each.get("value") for each in primitive.get("parameter") or ()}
    return names, {key: str(params.get(placeholder(value), value)) for key, value in names.items()}


def _captured(
    request: Request,
    place: str,
    params: Document,
    primitive: Document,
    own: list[tuple[str, ipaddress.IPv4Network | ipaddress.IPv6Network]],
) -> Iterator[Problem]:
    """What is inside of tunnels must leave out the networks on which the VDU is."""
    names, values = _filled(params, primitive)
    word = technology({"vpn_technology": values.get("technology", "")}, values.get("link", ""))
    outer = word == "none" or "same-address" in values.get("ipsec-options", "")
    for key in BESIDE[outer:]:
        network = _network(values.get(key, ""))
        for link, subnet in own:
            if network and network.version == subnet.version and network.overlaps(subnet):
                spot = f"{place}/{placeholder(names[key]) or key}"
                words = {"value": values[key], "subnet": subnet, "link": link}
                yield request.tell("params-value/captures", spot, key=key, **words)


def _networks(
    request: Request, index: str, target: str
) -> list[tuple[str, ipaddress.IPv4Network | ipaddress.IPv6Network]]:
    """Return the links on which the VDU of a day1-2 entry is, with their subnets if known."""
    vnfd, given = request.vnfds[index], request.links()
    managed = [vdu for vdu, _ in nics_at(vnfd, [vnfd.get("mgmt-cp")])]
    own = managed if target == vnfd["id"] else [target]
    found = []
    for member, connection, name in links_of(request.nsd):
        listed = connection.get("constituent-cpd-id") or ()
        points = [each.get("constituent-cpd-id") for each in listed]
        if member != index or not any(vdu in own for vdu, _ in nics_at(vnfd, points)):
            continue
        link = given.get(name, ("", {}))[1]
        if not (link.get("vim-network-name") or link.get("vim-network-id")):
            profile = link.get("ip-profile") or profiles(request.nsd["df"][0]).get(name) or {}
            network = _network(str(profile.get("subnet-address") or ""))
            found += [(name, network)] if network else []
    return found


def _unfit(
    name: str, value: Any, parameter: Document, primitive: Document, charm: Charm | None
) -> str:
    """Return the reason why a primitive cannot use a value, "" if it can."""
    kind = parameter.get("data-type", "STRING")
    quoted = "the value" if SECRET.search(name) else shown(value)
    if value is None:
        return f"it is empty (null); {TEXT if kind == 'STRING' else f'allowed: {kind}'}"
    if isinstance(value, (dict, list)):
        # LCM sends one line of YAML, whatever the data-type.
        return (
            f"{quoted} becomes a line of YAML; {TEXT if kind == 'STRING' else f'allowed: {kind}'}"
        )
    if kind == "STRING" and not isinstance(value, str):
        # LCM does not convert a value of type STRING: a number stays a number.
        return f"{quoted} stays a number or boolean; {TEXT}"
    if kind == "BOOLEAN" and str(value).lower() not in ("true", "false"):
        return f"{quoted} is true for OSM, as is all but 'false'; allowed: true, false"
    if isinstance(value, str):
        reason = odd_text(value)
        if reason:
            return f"{quoted} {reason}"
    if (parameter["name"], value) == LOOPBACK:
        return NO_LOOPBACK
    schema = _schema(parameter["name"], primitive, charm)
    hidden = "the value" if SECRET.search(name) else ""
    return misfit(value, kind, schema, hidden) if schema is not None else ""


def _schema(parameter: str, primitive: Document, charm: Charm | None) -> Document | None:
    """Return the schema of a parameter of an action, or the form of a charm's option."""
    if primitive["name"] == "config":
        option = charm.config.options.get(parameter) if charm and charm.config else None
        return {"x-form": option.form, "default": ""} if option else None
    name = primitive.get("execution-environment-primitive") or primitive["name"]
    action = (charm.actions or {}).get(name) if charm else None
    return action.params.get(parameter) if action else None


def odd_text(value: str) -> str:
    """Return what is wrong with a text that nobody types on purpose, "" if nothing is.

    Copying from documents brings characters that look like others; a charm refuses them after all
    machines are up.
    """
    if value in NULLS:
        return f"is a word, and YAML's null is no value either; {TEXT}"
    for character in value:
        category = unicodedata.category(character)
        if character not in " -\n\t" and category in LOOK_ALIKE:
            what = unicodedata.name(character, "a control character").lower()
            return f"has {what} (U+{ord(character):04X}); allowed: characters of a keyboard"
    if value.strip(" \t") != value or (value.count("\n") == 1 and value.endswith("\n")):
        return "begins or ends with a blank or a line end; allowed: without"
    for part in map(str.strip, value.split(",")):
        if ADDRESS.fullmatch(part) and _network(part) is None:
            return "looks like an IPv4 address but is not one; allowed: such as 192.0.2.1/24"
    return ""
