"""Hook tools on a unit's addresses and ports."""

from __future__ import annotations

import re
from collections.abc import Mapping

from lab.vca.context import HookContext, ToolError
from lab.vca.relationtools import RELATION, addressed
from lab.vca.toolcall import OUTPUT, Answer, Arguments, Request, Tool, UsageError, show

_PORT = re.compile(r"^(?:(?P<low>\d+)(?:-(?P<high>\d+))?(?:/(?P<protocol>[a-z0-9]+))?|icmp)$")


def _network_get(context: HookContext, request: Request) -> Answer:
    switches = ("--primary-address", "--bind-address", "--ingress-address", "--egress-subnets")
    arguments = Arguments(
        request.arguments, {**OUTPUT, **RELATION}, {flag: flag[2:] for flag in switches}
    )
    operands = arguments.take(1)
    if not operands:
        raise UsageError("no arguments specified")
    if arguments.get("relation") is not None:
        addressed(context, arguments)
    if not context.has_binding(operands[0]):
        raise ToolError(f'no network config found for binding "{operands[0]}"')
    address = context.unit.address
    if arguments.on("primary-address"):
        return show(request, arguments, address)
    parts: dict[str, object] = {
        "bind-address": address,
        "egress-subnets": [f"{address}/32"],
        "ingress-address": address,
    }
    asked = {key: value for key, value in parts.items() if arguments.on(key)}
    if asked:
        return show(request, arguments, asked if len(asked) > 1 else next(iter(asked.values())))
    return show(
        request,
        arguments,
        {
            "bind-addresses": [
                {
                    "mac-address": "",
                    "interface-name": "eth0",
                    "addresses": [
                        {
                            "hostname": "",
                            "address": address,
                            "value": address,
                            "cidr": f"{address}/32",
                        }
                    ],
                }
            ],
            "egress-subnets": [f"{address}/32"],
            "ingress-addresses": [address],
        },
    )


def _unit_get(context: HookContext, request: Request) -> Answer:
    arguments = Arguments(request.arguments, OUTPUT)
    operands = arguments.take(1)
    if not operands:
        raise UsageError("no setting specified")
    if operands[0] not in ("private-address", "public-address"):
        raise UsageError(f'unknown setting "{operands[0]}"')
    return show(request, arguments, context.unit.address)


def _change_port(context: HookContext, request: Request, opened: bool) -> Answer:
    arguments = Arguments(request.arguments, {"--format": "format", "--endpoints": "endpoints"})
    operands = arguments.take(1)
    if not operands:
        raise UsageError("no port or range specified")
    text = operands[0].lower()
    match = _PORT.match(text)
    if match is None:
        raise UsageError(
            f'expected <port>[/<protocol>] or <from>-<to>[/<protocol>] or icmp; got "{operands[0]}"'
        )
    if text != "icmp":
        low, high = int(match["low"]), int(match["high"] or match["low"])
        protocol = match["protocol"] or "tcp"
        if protocol not in ("tcp", "udp"):
            raise UsageError(f'protocol must be "tcp", "udp", or "icmp"; got "{protocol}"')
        if not 1 <= low <= 65535 or not 1 <= high <= 65535:
            raise UsageError(f'port must be in the range [1, 65535]; got "{match["low"]}"')
        if low > high:
            raise UsageError(
                f"invalid port range {low}-{high}/{protocol}; expected fromPort <= toPort"
            )
        text = f"{low}/{protocol}" if low == high else f"{low}-{high}/{protocol}"
    context.change_port(text, opened)
    return Answer()


def _open_port(context: HookContext, request: Request) -> Answer:
    return _change_port(context, request, opened=True)


def _close_port(context: HookContext, request: Request) -> Answer:
    return _change_port(context, request, opened=False)


def _opened_ports(context: HookContext, request: Request) -> Answer:
    arguments = Arguments(request.arguments, OUTPUT, {"--endpoints": "endpoints"})
    arguments.take(0)
    ports = sorted(context.unit.opened_ports)
    if arguments.on("endpoints"):
        ports = [f"{port} (*)" for port in ports]
    return show(request, arguments, ports)


TOOLS: Mapping[str, Tool] = {
    "close-port": _close_port,
    "network-get": _network_get,
    "open-port": _open_port,
    "opened-ports": _opened_ports,
    "unit-get": _unit_get,
}
