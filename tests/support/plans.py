"""A record of each step that plans send to VDUs, to compare before and after a change of code.

It plays fixed histories of the worlds of the convergence tests, and pairs with other options:
`PYTHONPATH=.:charms/lib:tests PYTHONHASHSEED=0 python -m support.plans >FILE`. Two records are
equal byte by byte if a change of the library changed no step, offer or status.
"""

import json
import random
import sys
from collections.abc import Iterator

import attr

from support.epc import LINKS, ROLES, Epc
from support.juju import Juju, pair
from support.model import ModelVdu

FAILURES = ("apply", "promote", "genkey", "after")
WORLDS = (
    (False, "wireguard", {}),
    (True, "wireguard", {}),
    (False, "ipsec", {}),
    (True, "ipsec", {}),
    (False, "ipsec", {"credentials": "psk"}),
    (False, "ipsec", {"credentials": "cert-external"}),
)
PAIRS = (
    {"technology": "none"},
    {"technology": "wireguard", "mtu": "1400", "keepalive": "7", "listen-port": "4711"},
    {"technology": "wireguard", "rate-kbps": "1000", "delay-budgets-ms": "10,100"},
    {"technology": "ipsec", "proposal": "aes128-sha256-ecp256"},
    {"technology": "ipsec", "ipsec-options": "key-type=ecdsa-p256,start=trap,child-mbytes=5"},
    {"technology": "ipsec", "credentials": "cmp"},
    {"technology": "ipsec", "credentials": "est"},
)


def history(seed: int, length: int = 20) -> list[tuple]:
    """Return events of a kind each, in an order that a seed decides."""
    choice = random.Random(seed)  # noqa: S311
    name, link = (lambda of=of: choice.choice(sorted(of)) for of in (ROLES, LINKS))
    kinds = (
        *((lambda kind=kind: (kind, name())) for kind in ("event", "configure", "rotate")),
        *((lambda kind=kind: (kind, name())) for kind in ("reboot", "lose", "settle")),
        *((lambda kind=kind: (kind, link())) for kind in ("relate", "unrelate")),
        lambda: ("fail", name(), choice.choice(FAILURES)),
        lambda: ("die", name(), choice.randint(0, 80)),
        lambda: ("later", choice.randint(1, 500)),
    )
    return [choice.choice(kinds)() for _ in range(length)]


def shown(value: object) -> object:
    """Return a step as JSON can hold it."""
    return attr.asdict(value) if attr.has(type(value)) else str(value)


def ends(juju: Juju) -> Iterator[str]:
    """Yield what charms say in the end: offers, states and problems."""
    for name, charm in sorted(juju.charms.items()):
        yield json.dumps([name, charm.error, charm.problems, charm.states()])
    for relation in juju.relations:
        yield json.dumps(relation.ends, sort_keys=True)


def records(histories: int) -> Iterator[str]:
    """Yield a line for each step sent, and those of each world's end."""
    lines: list[str] = []
    execute = ModelVdu.execute

    def recorded(vdu, steps, *rest):
        lines.extend(json.dumps(shown(step), default=shown, sort_keys=True) for step in steps)
        return execute(vdu, steps, *rest)

    ModelVdu.execute = recorded
    try:
        for preshared, technology, more in WORLDS:
            for seed in range(histories):
                epc = Epc(preshared, technology, **more)
                for event in history(seed):
                    epc.play(event)
                epc.finish()
                yield from (f"# {technology} {preshared} {more} {seed}", *lines, *ends(epc.juju))
                lines.clear()
        for options in PAIRS:
            juju = pair(**options)[0]
            yield from (f"# {options}", *lines, *ends(juju))
            lines.clear()
    finally:
        ModelVdu.execute = execute


if __name__ == "__main__":
    sys.stdout.writelines(line + "\n" for line in records(int((sys.argv[1:] or ["25"])[0])))
