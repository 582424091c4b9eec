"""Join a link of two network services. OSM cannot do so: it relates only charms of one service.

Each end gets the other's public key with the primitive ``add-peer``, and the data of the other
network function with ``add-function``. A relation would carry the same data. The VDUs generate the
keys, so this is possible only after both services run.
"""

import hashlib
import ipaddress
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from operate.client import Instance, OperateError, understood
from operate.osm import Driver

_END = re.compile(
    r"(?P<ns>[^/]+)/(?P<vnf>[^/:]+)(/(?P<vdu>[^/:]+)/(?P<count>[0-9]+))?"
    r":(?P<link>[a-z][a-z0-9-]*)(@(?P<address>.+))?"
)
_FORM = "NS/VNF:LINK or NS/VNF/VDU/COUNT:LINK, with @ADDRESS where it can be reached"
_MAX_NAME = 32  # characters in the name of a manual peer


@dataclass(frozen=True)
class End:
    """One end of a link."""

    ns: str  # Name of its service.
    vnf: str  # Its member-vnf-index.
    link: str  # Name of its link.
    # Underlay address at which the other end reaches it, None if it cannot.
    address: str | None = None
    prefixes: tuple[str, ...] = ()  # Prefixes behind it.
    # Its VDU and count index, if each instance has its own charm.
    instance: Instance = None
    id: str = ""  # Id of its service, "" where unknown: another service may get the name later.

    @classmethod
    def parse(cls, text: str, prefixes: str = "") -> "End":
        """Read ``NS/VNF[/VDU/COUNT]:LINK[@ADDRESS]``, and prefixes separated by commas."""
        match = _END.fullmatch(text)
        if match is None:
            by_id = "; NS is the service's id where its name has '/'"
            raise OperateError(f"'{text}' is no end; allowed: {_FORM}{by_id}")
        address = match["address"]
        if address is not None:
            try:
                address = str(ipaddress.ip_address(address))
            except ValueError:
                raise OperateError(f"'{address}' in '{text}' is no IP address") from None
        behind = tuple(_prefix(word) for word in prefixes.split(",") if word)
        instance = None if match["vdu"] is None else (match["vdu"], int(match["count"]))
        return cls(match["ns"], match["vnf"], match["link"], address, behind, instance)

    @property
    def name(self) -> str:
        """Name of this end as a manual peer: 1 to 32 of a-z, 0-9 and '-', with a digest if cut."""
        words = [self.ns, self.vnf, *map(str, self.instance or ())]
        text = re.sub(r"[^a-z0-9]+", "-", "-".join(words).lower()).strip("-")
        if len(text) > _MAX_NAME:
            digest = hashlib.sha256("/".join(words).encode()).hexdigest()[:8]
            text = f"{text[9 - _MAX_NAME :].strip('-')}-{digest}"
        return text

    @property
    def service(self) -> str:
        """What names its service to OSM: the id, where known."""
        return self.id or self.ns

    def __str__(self) -> str:
        """Return the end in the form that `parse` reads, without the address."""
        of_vdu = "" if self.instance is None else "/{}/{}".format(*self.instance)
        return f"{self.ns}/{self.vnf}{of_vdu}:{self.link}"


def _prefix(text: str) -> str:
    try:
        return str(ipaddress.ip_network(text.strip()))
    except ValueError:
        raise OperateError(f"'{text}' is no prefix; allowed: one like 10.81.0.0/16") from None


@dataclass(frozen=True)
class State:
    """Data of an end; `function` is its network function, or None."""

    public_key: str
    inner_address: str
    listen_port: int
    function: dict[str, str] | None = None


def status_of(client: Driver, end: End) -> Mapping[str, Any]:
    """Return the status of an end's VNF: of all its links, and of its network function."""
    return client.action(
        end.service, end.vnf, "show-status", {"link": "all"}, instance=end.instance
    )


def state_of(end: End, status: Mapping[str, Any]) -> State:
    """Return an end's key, inner address, port and network function, from its VNF's status."""
    shown = status.get(end.link)
    if not isinstance(shown, dict) or "public-key" not in shown:
        state = shown.get("state") if isinstance(shown, dict) else "unknown"
        raise OperateError(f"{end} has no WireGuard key, its state is {state}")
    with understood(str(end)):
        inner = str(ipaddress.ip_interface(shown["inner-address"]).ip)
        function = status.get("network-function", {}).get("functions", {}).get(end.link)
        if function is not None:
            function = {str(key): str(value) for key, value in function.items()}
        return State(str(shown["public-key"]), inner, int(shown["listen-port"]), function)


def join(client: Driver, one: End, other: End) -> list[str]:
    """Make each end a peer of the other; return a line for each. May be repeated."""
    if one.address is None and other.address is None:
        raise OperateError(f"one end needs an address the other can reach: {_FORM}")
    states = [state_of(end, status_of(client, end)) for end in (one, other)]
    return introduce(client, (one, other), (states[0], states[1]))


def introduce(
    client: Driver,
    ends: tuple[End, End],
    known: tuple[State, State],
    before: tuple[State, State] | None = None,
) -> list[str]:
    """Send each of two ends the data of the other; return a line for each primitive.

    Args:
        before: Their states at the last call, None at the first. Primitives that would be the
            same as then are not repeated.
    """
    done = _orders(ends, before) if before else []
    lines = []
    for order in _orders(ends, known):
        if order in done:
            continue
        here, there, primitive, params = order
        answer = client.action(here.service, here.vnf, primitive, params, instance=here.instance)
        if primitive == "add-peer":
            lines.append(f"{here}: peer {there.name} {params['public-key']}")
            continue
        with understood(str(here)):
            kind = json.loads(params["function"])["nf-kind"]
            reason = f" ({answer['reason']})" if answer.get("reason") else ""
            lines.append(f"{here}: {kind} of {there.ns}, {answer['state']}{reason}")
    return lines


def _orders(
    ends: tuple[End, End], known: tuple[State, State]
) -> list[tuple[End, End, str, dict[str, Any]]]:
    """Return the primitives to run: (end, other end, primitive, parameters) each."""
    one, other = ends
    states = dict(zip(ends, known, strict=True))
    # Who calls comes last, and finds the other end ready.
    pairs = sorted(((one, other), (other, one)), key=lambda pair: pair[1].address is not None)
    orders = [(here, there, "add-peer", _peer(here, there, states[there])) for here, there in pairs]
    for here, there in pairs:
        function = states[there].function
        if states[here].function is not None and function is not None:
            given = {"link": here.link, "name": there.name, "function": json.dumps(function)}
            orders.append((here, there, "add-function", given))
    return orders


def _peer(here: End, there: End, state: State) -> dict[str, Any]:
    bits = ipaddress.ip_address(state.inner_address).max_prefixlen
    peer: dict[str, Any] = {
        "link": here.link,
        "name": there.name,
        "public-key": state.public_key,
        "allowed-prefixes": ",".join([f"{state.inner_address}/{bits}", *there.prefixes]),
    }
    if there.address is not None:
        host = f"[{there.address}]" if ":" in there.address else there.address
        peer["endpoint"] = f"{host}:{state.listen_port}"
        peer["keepalive"] = -1
    return peer


def part(client: Driver, one: End, other: End) -> list[str]:
    """Remove each end from the peers of the other; return a line for each."""
    return [forget(client, one, other), forget(client, other, one)]


def forget(client: Driver, here: End, there: End) -> str:
    """Remove the end `there` from the peers of `here`; return a line."""
    params = {"link": here.link, "name": there.name}
    status = status_of(client, here)
    with understood(str(here)):
        added = there.name in status.get("network-function", {}).get("added", {}).get(here.link, ())
    if added:
        client.action(here.service, here.vnf, "delete-function", params, instance=here.instance)
    client.action(here.service, here.vnf, "delete-peer", params, instance=here.instance)
    return f"{here}: no peer {there.name} any more"
