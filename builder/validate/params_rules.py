"""More rules for instantiation parameters: NBI's look-ups, and the types of values.

NBI accepts every value in `additionalParams`. A wrong value appears only an hour later, as a failed
primitive. These rules know the packages, so they compare the value with the charm's action first.
"""

import re
import unicodedata
from collections.abc import Iterator
from typing import Any

from builder import documents
from builder.documents import NICS, links_of, placeholder, walk
from builder.validate.charm_files import Charm, charm_of
from builder.validate.cloudinit_rules import files_of, variables
from builder.validate.context import Document, day12_of, ids, numbered
from builder.validate.pool_rules import fixed_on, misplaced, network_of, profile_of
from builder.validate.primitive_rules import BUILT_IN, LOOPBACK, NO_LOOPBACK, PARAM_KEY, misfit
from builder.validate.problem import Problem
from builder.validate.request import Request
from builder.validate.schema import shown

TEXT = "allowed: text, in quotes"
SECRET = re.compile("pass|secret|key|token", re.IGNORECASE)
"""Names of parameters whose values no message shows."""
NULLS = ("None", "null", "Null", "NULL", "~")
LOOK_ALIKE = {"Zs", "Zl", "Zp", "Cc", "Cf", "Pd", "Pi", "Pf"}
"""Unicode categories: blanks, control and format characters, dashes, typographic quotes."""
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
    for index, (at, entry) in request.members().items():
        given = ids(entry.get("affinity-or-anti-affinity-group"))
        used = "df[0]/vdu-profile[]/affinity-or-anti-affinity-group[]/id"
        groups = {group for _, group, _ in walk(request.vnfds.get(index) or {}, used)}
        for group in sorted(groups - given) if given else ():
            yield request.tell("params-affinity/missing", at, group=group, may=groups)


def _interfaces(
    request: Request, place: str, index: str, given: Document, vdu: Document
) -> Iterator[Problem]:
    known = {nic["name"] for _, nic, _ in walk(vdu, NICS)}
    for at, nic in numbered(f"{place}/interface", given.get("interface")):
        # NBI checks up to the first name that it knows, and then fails on others (StopIteration).
        if nic["name"] not in known:
            words = {"index": index, "nic": nic, "vdu": vdu, "may": known}
            yield request.tell("params-interface", f"{at}/name", **words)


def addresses(request: Request) -> Iterator[Problem]:
    """Fixed addresses must be in the subnet of their link, and must not repeat."""
    inner = walk(request.document, "vnf[]/internal-vld[]")
    outer = numbered("vld", request.document.get("vld"))
    for place, link in [*outer, *((place, link) for place, link, _ in inner)]:
        profile = link.get("ip-profile") or {}
        subnet, gateway = profile.get("subnet-address"), profile.get("gateway-address")
        network = network_of(subnet)
        if network is not None and subnet != str(network):
            spot = f"{place}/ip-profile/subnet-address"
            yield request.tell("params-address/subnet", spot, subnet=subnet, network=network)
        if network is not None and gateway and misplaced(gateway, network) == "outside":
            spot = f"{place}/ip-profile/gateway-address"
            yield request.tell("params-address/gateway", spot, gateway=gateway, subnet=subnet)
        version = f"ipv{network.version}" if network is not None else ""
        if version and profile.get("ip-version", version) != version:
            spot = f"{place}/ip-profile/ip-version"
            yield request.tell("params-address/version", spot, subnet=subnet, version=version)
    for described in request.nsd.get("virtual-link-desc") or ():
        yield from _of_link(request, described)


def _of_link(request: Request, described: Document) -> Iterator[Problem]:
    name = described["id"]
    place, link = request.links().get(name, ("vld", {}))
    yield from _elsewhere(request, name, place, link)
    made = name not in request.joined and not any(
        (described.get("mgmt-network"), request.vims(), described.get("vim-network-name"),
         link.get("vim-network-name"), link.get("vim-network-id"))
    )  # fmt: skip
    profile = profile_of(request, name)
    subnet, gateway = profile.get("subnet-address"), profile.get("gateway-address")
    network = network_of(subnet)
    seen = {gateway: "the gateway"} if gateway else {}
    for member, found in fixed_on(request, name):
        for at, address in found:
            spot, words = f"{at}/ip-address", {"address": address, "link": name, "subnet": subnet}
            if case := misplaced(address, network) if network else "unmade" if made else "":
                yield request.tell(f"params-address/{case}", spot, **words)
            if address in seen:
                yield request.tell("params-address/taken", spot, owner=seen[address], **words)
            seen.setdefault(address, member)


def _elsewhere(request: Request, name: str, place: str, link: Document) -> Iterator[Problem]:
    """Connection points that get an address on a link, and are at another one or stand twice."""
    seen = set()
    for at, point, _ in walk(link, "vnfd-connection-point-ref[]", place):
        index, end = point["member-vnf-index-ref"], point["vnfd-connection-point-ref"]
        ends = [
            each["constituent-cpd-id"]
            for member, connection, other in links_of(request.nsd)
            for each in connection.get("constituent-cpd-id") or ()
            if (member, other) == (index, name)
        ]
        known = ids((request.vnfds.get(index) or {}).get("ext-cpd"))
        spot = f"{at}/vnfd-connection-point-ref"
        if end in known and end not in ends:
            yield request.tell("params-cpd/link", spot, end=end, link=name, may=ends)
        elif (index, end) in seen:
            yield request.tell("params-twice", spot, end=end, index=index)
        seen.add((index, end))


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
        for _, configured in day12_of("", vnfd["df"][0]):
            place, params = request.params(index, str(configured["id"]))
            for primitive in configured.get("initial-config-primitive") or ():
                name = documents.charm_of(configured, primitive)
                charm = charm_of(package, name) if name and package else None
                yield from _values(request, place, params, primitive, charm)
        day_0 = files_of(package, vnfd) if package else {}
        for vdu, text in day_0.items():
            place, params = request.params(index, vdu)
            for name in sorted(variables(text) & params.keys()):
                if params[name] is None:
                    yield request.tell(
                        "params-value/none", f"{place}/{name}", index=index, vdu=vdu, text=TEXT
                    )


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


def _unfit(
    name: str, value: Any, parameter: Document, primitive: Document, charm: Charm | None
) -> str:
    """Return the reason why a primitive cannot use a value, "" if it can."""
    kind = parameter.get("data-type", "STRING")
    quoted = "the value" if SECRET.search(name) else shown(value)
    allowed = TEXT if kind == "STRING" else f"allowed: {kind}"
    if value is None:
        return f"it is empty (null); {allowed}"
    if isinstance(value, (dict, list)):
        # LCM sends one line of YAML, whatever the data-type.
        return f"{quoted} becomes a line of YAML; {allowed}"
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
        if ADDRESS.fullmatch(part) and network_of(part) is None:
            return "looks like an IPv4 address but is not one; allowed: such as 192.0.2.1/24"
    return ""
