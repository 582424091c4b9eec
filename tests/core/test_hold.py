"""Which of the kernel's messages make the keeper of a link in clear act."""

from __future__ import annotations

import socket
import struct

import pytest
from vpnaas.vdu.programs import hold, ipsec

OTHER = 24
"""RTM_NEWROUTE, which the program causes itself."""


def message(kind: int, address: str = "192.0.2.1", prefixlen: int = 24) -> bytes:
    """Return a message of the kernel about an address (rtnetlink(7))."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    packed = socket.inet_pton(family, address)
    body = struct.pack("=BBBBI", family, prefixlen, 0, 0, 2)
    body += struct.pack("=HH", 4 + len(packed), 1) + packed
    return hold.HEADER.pack(hold.HEADER.size + len(body), kind, 0, 0, 0) + body


@pytest.mark.parametrize(("address", "width"), [("172.16.6.2", 32), ("fd00::2", 128)])
def test_the_addresses_of_links_in_clear_do_not_wake_each_other(address: str, width: int) -> None:
    # `ip address replace` causes such a message each time, also if nothing changes.
    assert not hold.matters(message(hold.NEWADDR, address, width))
    assert hold.matters(message(hold.DELADDR, address, width))


@pytest.mark.parametrize(("address", "length"), [("192.168.8.2", 24), ("2001:db8::2", 64)])
def test_an_underlay_that_comes_back_matters(address: str, length: int) -> None:
    back = message(hold.NEWADDR, address, length)
    assert hold.matters(back)
    assert hold.matters(message(OTHER) + back)
    assert not hold.matters(message(OTHER))
    assert not hold.matters(back[:10])


def rule(kind: int, family: int, priority: int) -> bytes:
    """Return a message of the kernel about a rule that leads to a table."""
    body = struct.pack("=BBBBBBBBI", family, 0, 0, 0, 220, 0, 0, 1, 0)
    body += struct.pack("=HHI", 8, 15, 220) + struct.pack("=HHI", 8, 6, priority)
    return hold.HEADER.pack(hold.HEADER.size + len(body), kind, 0, 0, 0) + body


def test_the_keeper_of_ipsec_notices_that_a_rule_of_charon_goes() -> None:
    gone = rule(ipsec.DELRULE, socket.AF_INET, 220)
    assert ipsec.removed(gone + rule(ipsec.DELRULE, socket.AF_INET6, 220)) == {2, 10}
    assert not ipsec.removed(rule(32, socket.AF_INET, 220))  # RTM_NEWRULE
    assert not ipsec.removed(rule(ipsec.DELRULE, socket.AF_INET, 221))
    assert not ipsec.removed(gone[:20])


def test_it_puts_the_rule_back_as_charon_had_it(monkeypatch, tmp_path) -> None:
    settings, done = tmp_path / "settings", []
    settings.write_text("    kernel-netlink {\n      fwmark = !0x6f73\n    }\n")
    monkeypatch.setattr(ipsec, "SETTINGS", str(settings))
    monkeypatch.setattr(ipsec.subprocess, "call", lambda words, **_: done.append(words))
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    theirs.send(rule(ipsec.DELRULE, socket.AF_INET, 220))
    ipsec.guard_rules(ours, ipsec.time.monotonic() + 0.1)
    words = "ip -4 rule add not fwmark 0x6f73 pref 220 table 220"
    assert [" ".join(each) for each in done[1:]] == [words]
