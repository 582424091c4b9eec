"""Hook tools on a unit's addresses."""

from __future__ import annotations

from collections.abc import Mapping

from lab.vca.context import HookContext, ToolError
from lab.vca.relationtools import RELATION, addressed
from lab.vca.toolcall import OUTPUT, Answer, Arguments, Request, Tool, UsageError, show


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


TOOLS: Mapping[str, Tool] = {
    "network-get": _network_get,
}
