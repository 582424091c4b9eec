"""Devices that enrol to an access VNF: what the operator asks for, and the file a device gets.

A device makes its key itself. Its file has only a placeholder for it, so nothing here is secret.
"""

import calendar
import re
import time
import zlib
from typing import List, Optional, Tuple

import attr

from vpnaas.base import fields
from vpnaas.base.declared import Declared, choice_field, switch_field, text_field
from vpnaas.base.errors import InputError
from vpnaas.base.links import KEEPALIVE, WIREGUARD
from vpnaas.params.intent import LATEST, Intent, LinkParams, ManualPeer

LINK = "access"
"""The link whose peers are devices."""
NEVER = "never"
SOONEST = 60
"""Shortest time in seconds until the end of an enrolment."""
BY_DESTINATION = "by-destination"
BY_SOURCE = "by-source"
ROUTING = (BY_DESTINATION, BY_SOURCE)
_UNITS = {"m": 60, "h": 3600, "d": 86400}
MOST_ENDED = 200
"""Expired devices that are kept."""
_DURATION = re.compile(r"([1-9][0-9]{0,5})([mhd])\Z")
_DATE = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:T([0-9]{2}:[0-9]{2}))?Z?\Z")
_ALLOWED = "never, a duration such as 90m, 12h or 30d, or a date in UTC such as 2026-12-31T18:00"


def _end(where: str, text: str) -> Tuple[int, bool]:
    if text == NEVER:
        return 0, False
    duration = _DURATION.match(text)
    if duration:
        return int(duration.group(1)) * _UNITS[duration.group(2)], True
    date = _DATE.match(text)
    if date:
        try:
            form = "{}T{}".format(date.group(1), date.group(2) or "00:00")
            # 0 would mean never.
            return calendar.timegm(time.strptime(form, "%Y-%m-%dT%H:%M")) or 1, False
        except ValueError:
            pass  # Not a real date, such as 2026-02-30.
    raise InputError(where, "{} is no time".format(fields.shown(text)), _ALLOWED)


@attr.frozen
class AccessParams(Declared):
    """Parameters of `configure-access`."""

    action = "configure-access"
    # VDU interface to the slice's data network, "" before `configure-access`.
    interface: str = text_field(fields.network_interface, key="data-interface")
    # Whether devices appear there with the VDU's own address.
    nat: bool = switch_field(True, key="data-nat")


@attr.frozen
class Enrolling(Declared):
    """Parameters of `enrol-device`."""

    action = "enrol-device"
    # End of the enrolment, seconds since the epoch or from now, and which of both; 0 for never.
    end: Tuple[int, bool] = text_field(_end, (0, False), key="expires", given=NEVER)
    name: str = text_field(fields.name)
    public_key: str = text_field(fields.wireguard_key)
    # How the device is to choose this slice.
    routing: str = choice_field(ROUTING)

    def expires(self, now: int) -> int:
        """Return the end of the enrolment in seconds since the epoch, 0 for never."""
        end, relative = self.end
        if not end:
            return 0
        end += now if relative else 0
        if not now + SOONEST <= end <= LATEST:
            raise InputError(
                "enrol-device: expires",
                "{} is not ahead of the VDU's clock, {}".format(show_time(end), show_time(now))
                if end < now + SOONEST
                else "{} is too far ahead".format(show_time(end)),
                "at least {} s ahead, in the year 2199 at the latest".format(SOONEST),
            )
        return end


def show_time(seconds: int) -> str:
    """Return a time in the form of ISO 8601, in UTC; "never" for 0."""
    if not seconds:
        return NEVER
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(min(seconds, LATEST)))


def enrolled(intent: Intent, asked: Enrolling, now: int) -> Tuple[Intent, ManualPeer]:
    """Return the intent with one more device, and the device as a peer.

    A device that is enrolled already keeps its address, unless the link has another subnet now.
    Expired devices keep theirs too, because the VDU's clock may be wrong. If no address is free, or
    if there are more than MOST_ENDED of them, those that ended first are removed.
    """
    params = intent.links.get(LINK)
    if params is None or params.technology != WIREGUARD:
        raise InputError(
            "enrol-device", "link {} is not configured with WireGuard".format(LINK), "configure it"
        )
    if not networks(params):
        raise InputError(
            "enrol-device",
            "link {} leads to no IPv{} network".format(LINK, params.inner_address.version),
            "the networks of the slice as its allowed-prefixes",
        )
    intent.check_key(LINK, asked.public_key, "enrol-device: public-key")
    current = intent.at(now)
    before = current.peers.get((LINK, asked.name))
    if before is not None and before.public_key != asked.public_key:
        raise InputError(
            "enrol-device: name",
            "{} is enrolled with another key".format(asked.name),
            "its key, or revoke-device first",
        )
    for other in current.manual(LINK):
        if other.name != asked.name and other.public_key == asked.public_key:
            raise InputError(
                "enrol-device: public-key",
                "it is the key of {}".format(other.name),
                "a key of the device's own",
            )
    # An expired device with this name or key is the same one, or gives way to this one.
    ended = [peer for peer in intent.manual(LINK) if (LINK, peer.name) not in current.peers]
    for other in ended:
        if (other.name, other.public_key) == (asked.name, asked.public_key):
            before = other
        elif other.name == asked.name or other.public_key == asked.public_key:
            intent = intent.without_peer(LINK, other.name)
    own = params.inner_address
    if before and all(
        own.ip not in p and fields.covers(own.network, p) for p in before.allowed_prefixes
    ):
        prefixes = before.allowed_prefixes
    else:
        intent, address = _with_room(params, intent, now)
        prefixes = (address,)
    device = ManualPeer(LINK, asked.name, asked.public_key, prefixes, expires=asked.expires(now))
    return intent.with_peer(device), device


def _with_room(params: LinkParams, intent: Intent, now: int) -> Tuple[Intent, fields.IPNetwork]:
    """Return the intent without those expired devices that have to go, and a free address."""
    ended = [peer for peer in intent.manual(LINK) if 0 < peer.expires <= now]
    ended.sort(key=lambda peer: peer.expires)
    address = _free(params, intent)
    while ended and (address is None or len(ended) > MOST_ENDED):
        intent = intent.without_peer(LINK, ended.pop(0).name)
        address = address or _free(params, intent)
    if address is None:
        raise InputError(
            "enrol-device",
            "all addresses of {} are in use".format(params.inner_address.network),
            "revoke a device, or configure {} with a wider subnet".format(LINK),
        )
    return intent, address


def revoked(intent: Intent, name: str) -> Intent:
    device = intent.peers.get((LINK, fields.name("revoke-device: name", name)))
    if device is None:
        return intent
    return intent.without_peer(LINK, name).with_revoked(LINK, [device.public_key])


def networks(link: LinkParams) -> Tuple[fields.IPNetwork, ...]:
    """Return the networks that devices may reach: those of the pool's IP version."""
    version = link.inner_address.version
    return tuple(prefix for prefix in link.allowed_prefixes if prefix.version == version)


def _free(params: LinkParams, intent: Intent) -> Optional[fields.IPNetwork]:
    """Return the first free address of the link's inner subnet, as a prefix, or None."""
    subnet, own = params.inner_address.network, params.inner_address.ip
    used = {prefix for peer in intent.manual(LINK) for prefix in peer.allowed_prefixes}
    hosts = subnet.num_addresses - (2 if subnet.version == 4 else 1)
    for index in range(1, min(hosts, len(used) + 2) + 1):
        address = subnet[index]
        prefix = fields.host_network(address)
        if address != own and not any(fields.overlaps(prefix, other) for other in used):
            return prefix
    return None


def render(
    device: ManualPeer,
    public_key: str,
    endpoint: Tuple[fields.IPAddress, int],
    networks: Tuple[fields.IPNetwork, ...],
    mtu: int,
    routing: str = BY_DESTINATION,
) -> str:
    """Return the wg-quick(8) file of a device or another manual peer, without its private key.

    `public_key` and `endpoint` are those of the VNF. Without a single address among its
    prefixes, the peer gets a placeholder. With `BY_SOURCE`, the slice has a routing table of
    its own, for packets from the device's address in the slice, which gives the table its
    number.
    """
    own = [each for each in device.allowed_prefixes if each.prefixlen == each.max_prefixlen]
    lines = [
        "[Interface]",
        "PrivateKey = PRIVATE-KEY-OF-" + device.name.upper(),
        "Address = " + (fields.show_networks(own) or "ADDRESS-OF-" + device.name.upper()),
        "MTU = {}".format(mtu),
    ]
    if device.endpoint is not None:
        lines.append("ListenPort = {}".format(device.endpoint[1]))
    if routing == BY_SOURCE:
        lines += _rules(device.allowed_prefixes[0].network_address)
    lines += [
        "",
        "[Peer]",
        "PublicKey = " + public_key,
        "Endpoint = " + fields.show_endpoint(*endpoint),
        "AllowedIPs = " + ", ".join(str(network) for network in networks),
        # Most devices are behind NAT, and packets from the network must reach them too.
        "PersistentKeepalive = {}".format(KEEPALIVE),
    ]
    return "\n".join(lines) + "\n"


def _table(address: fields.IPAddress) -> int:
    """Return the number of a table, 32 bits: not one of 0 to 255, which Linux itself uses."""
    if address.version == 4:
        return int(address)  # `fields.address` refuses 0.0.0.0/8.
    # Addresses of two subnets often have the same last bits, and those are few.
    return zlib.crc32(address.packed) | 1 << 31


def _rules(address: fields.IPAddress) -> List[str]:
    table = _table(address)
    rule = "ip -{} rule {{}} from {} lookup {}".format(address.version, address, table)
    return [
        "Table = {}".format(table),
        "PostUp = " + rule.format("add"),
        "PreDown = " + rule.format("del"),
    ]
