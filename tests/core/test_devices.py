"""Devices of an access VNF: what is asked for, which address they get, and when they end."""

from __future__ import annotations

import base64
import ipaddress
import os
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.juju import Juju
from vpnaas.base.errors import InputError
from vpnaas.base.links import KEEPALIVE
from vpnaas.features import access
from vpnaas.params import devices
from vpnaas.params.devices import AccessParams, Enrolling
from vpnaas.params.intent import Intent, link_params, manual_peer
from vpnaas.peers.inputs import CharmState
from vpnaas.vdu.programs import expire, source
from vpnaas.vdu.steps import Results, program

NOW = 1_800_000_000  # 2027-01-15T08:00:00Z
INNER = "172.16.61.1/24"
LINK = {"link": "access", "inner-address": INNER, "allowed-prefixes": "10.254.2.0/24"}


def key(index: int) -> str:
    return "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA{}E=".format("ABCDEFGHIJKLMNOP"[index])


def asking(name="phone", index=1, **more) -> Enrolling:
    return Enrolling.parse({"name": name, "public-key": key(index), **more})


def intent(**link) -> Intent:
    return Intent().with_link(link_params({**LINK, **link}))


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("never", "never"),
        ("90m", "2027-01-15T09:30:00Z"),
        ("12h", "2027-01-15T20:00:00Z"),
        ("30d", "2027-02-14T08:00:00Z"),
        ("2027-03-01", "2027-03-01T00:00:00Z"),
        ("2027-03-01T18:30", "2027-03-01T18:30:00Z"),
        ("2027-03-01T18:30Z", "2027-03-01T18:30:00Z"),
    ],
)
def test_an_end_is_a_duration_or_a_date(text, end):
    assert devices.show_time(asking(expires=text).expires(NOW)) == end


@pytest.mark.parametrize("text", ["2027-01-15T08:00", "2001-01-01", "2199-12-31T23:59", "999999d"])
def test_an_end_is_ahead_and_a_date_that_a_vdu_can_tell(text):
    if text.startswith("2199"):
        assert asking(expires=text).expires(NOW) > NOW
        return
    with pytest.raises(InputError, match="enrol-device: expires: "):
        asking(expires=text).expires(NOW)


@given(st.text(max_size=30))
def test_any_other_end_is_refused_with_a_sentence(text):
    try:
        end = asking(expires=text).expires(NOW)
    except InputError as error:
        assert len(str(error).splitlines()) == 1
    else:
        assert end == 0 or end >= NOW + devices.SOONEST


@pytest.mark.parametrize(
    "name", ["", "$(reboot)", "a b", "a;b", "a\nb", "-a", "A", "x" * 33, "../x"]
)
def test_a_name_for_a_shell_is_none(name):
    with pytest.raises(InputError, match="enrol-device: name: "):
        asking(name=name)


def test_a_device_keeps_its_address_and_gets_another_end():
    first, phone = devices.enrolled(intent(), asking(), NOW)
    assert [str(p) for p in phone.allowed_prefixes] == ["172.16.61.2/32"]
    second, laptop = devices.enrolled(first, asking("laptop", 2, expires="1h"), NOW)
    assert [str(p) for p in laptop.allowed_prefixes] == ["172.16.61.3/32"]
    again, phone = devices.enrolled(second, asking(expires="2h"), NOW)
    assert [str(p) for p in phone.allowed_prefixes] == ["172.16.61.2/32"]
    assert {peer.name: peer.expires for peer in again.manual("access")} == {
        "laptop": NOW + 3600,
        "phone": NOW + 7200,
    }
    assert Intent.from_json(again.to_json()) == again
    # An hour later the laptop is expired. It keeps its address, as the clock may be wrong.
    later, guest = devices.enrolled(again, asking("guest", 3), NOW + 3600)
    assert [str(p) for p in guest.allowed_prefixes] == ["172.16.61.4/32"]
    assert later.peers["access", "laptop"] == laptop
    assert ("access", "laptop") not in later.at(NOW + 3600).peers
    back, laptop = devices.enrolled(later, asking("laptop", 2), NOW + 3600)
    assert [str(p) for p in laptop.allowed_prefixes] == ["172.16.61.3/32"]
    assert len(back.peers) == 3


def test_a_clock_that_is_ahead_for_a_while_removes_no_device():
    state, phone = devices.enrolled(intent(), asking(expires="30d"), NOW)
    ahead, laptop = devices.enrolled(state, asking("laptop", 2), NOW + 40 * 86400)
    assert {peer.name for peer in ahead.at(NOW + 60).manual("access")} == {"phone", "laptop"}
    assert phone.allowed_prefixes != laptop.allowed_prefixes


def test_an_expired_device_makes_room_if_no_address_is_free():
    state = intent(**{"inner-address": "172.16.61.1/29"})
    for index, end in ((1, "never"), (2, "3h"), (3, "1h"), (4, "2h"), (5, "never")):
        state, _ = devices.enrolled(state, asking(f"d{index}", index, expires=end), NOW)
    with pytest.raises(InputError, match="all addresses of 172.16.61.0/29 are in use"):
        devices.enrolled(state, asking("new", 6), NOW)
    state, new = devices.enrolled(state, asking("new", 6), NOW + 3 * 3600)
    assert [str(p) for p in new.allowed_prefixes] == ["172.16.61.4/32"]
    assert {peer.name for peer in state.manual("access")} == {"d1", "d2", "d4", "d5", "new"}
    assert {peer.name for peer in state.at(NOW).manual("access")} == {"d1", "d2", "d4", "d5", "new"}


@pytest.mark.parametrize(("name", "index"), [("guest", 3), ("visitor", 2)])
def test_an_expired_device_gives_its_name_and_its_key_away(name, index):
    state, _ = devices.enrolled(intent(), asking("guest", 2, expires="1h"), NOW)
    with pytest.raises(InputError, match="enrol-device: (name|public-key): "):
        devices.enrolled(state, asking(name, index), NOW)
    state, _ = devices.enrolled(state, asking(name, index), NOW + 3600)
    (peer,) = state.manual("access")
    assert (peer.name, peer.public_key) == (name, key(index))


def test_expired_devices_do_not_pile_up():
    state = intent(**{"inner-address": "172.16.0.1/16"})
    for index in range(devices.MOST_ENDED + 5):
        peer = {"link": "access", "name": f"d{index}", "expires": NOW + index}
        peer["public-key"] = base64.b64encode((index + 1000).to_bytes(32, "big")).decode()
        peer["allowed-prefixes"] = f"172.16.7.{index + 1}/32"
        state = state.with_peer(manual_peer(peer))
    state, _ = devices.enrolled(state, asking(), NOW + 3600)
    left = [peer.name for peer in state.manual("access")]
    assert len(left) == devices.MOST_ENDED + 1
    assert not {f"d{index}" for index in range(5)} & set(left)


def test_no_two_devices_have_one_key_and_a_revoked_one_stays_out():
    first, _ = devices.enrolled(intent(), asking(), NOW)
    for asked, reason in (
        (asking("laptop", 1), "it is the key of phone"),
        (asking("phone", 2), "phone is enrolled with another key"),
    ):
        with pytest.raises(InputError, match=reason):
            devices.enrolled(first, asked, NOW)
    gone = devices.revoked(first, "phone")
    assert gone.manual("access") == ()
    assert devices.revoked(gone, "phone") is gone
    with pytest.raises(InputError, match="it was revoked"):
        devices.enrolled(gone, asking(), NOW)
    with pytest.raises(InputError, match="it was revoked"):
        devices.enrolled(Intent.from_json(gone.to_json()), asking("other"), NOW)
    assert devices.enrolled(gone, asking("phone", 2), NOW)[1].public_key == key(2)


@pytest.mark.parametrize(
    ("inner", "room"), [("172.16.61.1/30", 1), ("172.16.61.6/29", 5), ("fd00:61::1/126", 2)]
)
def test_a_pool_ends(inner, room):
    state = intent(**{"inner-address": inner, "allowed-prefixes": "10.0.0.0/24,fd01::/64"})
    given = set()
    for index in range(room):
        state, device = devices.enrolled(state, asking(f"d{index}", index), NOW)
        given.update(device.allowed_prefixes)
    assert len(given) == room
    own = ipaddress.ip_interface(inner)
    assert all(p.network_address in own.network and own.ip not in p for p in given)
    with pytest.raises(InputError, match="are in use"):
        devices.enrolled(state, asking("last", 9), NOW)


def test_a_link_without_wireguard_or_a_network_takes_no_device():
    for state in (Intent(), intent(technology="ipsec"), intent(**{"allowed-prefixes": "none"})):
        with pytest.raises(InputError, match="enrol-device: link access"):
            devices.enrolled(state, asking(), NOW)


@pytest.mark.parametrize("routing", devices.ROUTING)
def test_the_file_of_a_device_has_no_key_and_leads_to_the_slice_only(routing):
    _, phone = devices.enrolled(intent(), asking(), NOW)
    networks = access.networks(link_params(LINK))
    endpoint = (ipaddress.ip_address("192.0.2.7"), 51830)
    text = devices.render(phone, key(5), endpoint, networks, 1420, routing)
    table = str(int(ipaddress.ip_address("172.16.61.2")))
    rule = f"rule {{}} from 172.16.61.2 lookup {table}\n"
    policy = (
        f"Table = {table}\nPostUp = ip -4 {rule.format('add')}PreDown = ip -4 {rule.format('del')}"
    )
    assert text == (
        "[Interface]\nPrivateKey = PRIVATE-KEY-OF-PHONE\nAddress = 172.16.61.2/32\nMTU = 1420\n"
        + (policy if routing == "by-source" else "")
        + f"\n[Peer]\nPublicKey = {key(5)}\nEndpoint = 192.0.2.7:51830\n"
        f"AllowedIPs = 10.254.2.0/24\nPersistentKeepalive = {KEEPALIVE}\n"
    )


@pytest.mark.parametrize("inner", ["172.16.{}.1/24", "fd00:{}::1/64"])
def test_each_slice_of_a_device_has_a_table_of_its_own(inner):
    endpoint, tables = (ipaddress.ip_address("192.0.2.7"), 51830), set()
    for subnet in (61, 62):
        prefixes = "10.254.2.0/24,fd01::/64"
        state = intent(**{"inner-address": inner.format(subnet), "allowed-prefixes": prefixes})
        _, phone = devices.enrolled(state, asking(), NOW)
        networks = phone.allowed_prefixes
        text = devices.render(phone, key(5), endpoint, networks, 1420, devices.BY_SOURCE)
        (table,) = re.findall("^Table = ([0-9]+)$", text, re.M)
        assert text.count(f"lookup {table}\n") == 2
        tables.add(int(table))
    # Linux has tables of its own up to 255: default, main and local are the last of these.
    assert len([table for table in tables if 255 < table < 1 << 32]) == 2


@pytest.mark.parametrize("last", [253, 254, 255])
def test_no_device_uses_a_table_of_linux(last):
    assert devices._table(ipaddress.ip_address(f"fd00:61::{last:x}")) > 255
    with pytest.raises(InputError, match="cannot be the address of a host"):
        link_params({**LINK, "inner-address": f"0.0.0.{last}/24"})


def test_the_firewall_lets_devices_reach_the_networks_of_the_slice_only():
    link = link_params(
        {**LINK, "allowed-prefixes": "10.254.2.0/24,10.9.0.0/16,10.9.1.0/24,fd00::/64"}
    )
    text = access.firewall(link, AccessParams("ens5"))
    networks = "{ 10.9.0.0/16, 10.254.2.0/24 }"
    forward = text.partition("chain forward {")[2].partition("    }")[0]
    assert [line.strip() for line in forward.splitlines()][2:] == [
        f'iifname "wg-access" oifname "ens5" ip saddr 172.16.61.0/24 ip daddr {networks} accept',
        f'iifname "ens5" oifname "wg-access" ip saddr {networks} ip daddr 172.16.61.0/24 accept',
        "counter drop",
    ]
    own = "ip daddr { 10.9.0.0/16, 10.254.2.0/24, 172.16.61.1/32 } meta l4proto { 1, 58 } accept"
    assert own in text
    assert 'ip saddr 172.16.61.0/24 oifname "ens5" masquerade' in text
    assert "masquerade" not in access.firewall(link, AccessParams("ens5", nat=False))
    # Before `configure-access` nothing passes.
    closed = access.firewall(link, AccessParams())
    forward = closed.partition("chain forward {")[2].partition("    }")[0]
    assert [line.strip() for line in forward.splitlines()][2:] == ["counter drop"]
    assert AccessParams.parse(AccessParams("ens5", nat=False).to_params()).nat is False


def steps(intent: Intent, seen: Results):
    return access.expiry(intent.manual("access"), seen)


def test_a_timer_stands_for_the_ends_and_goes_with_the_last():
    blank = Results({})
    assert not [step for step in steps(intent(), blank) if step.id.startswith("expiry")]
    ending, _ = devices.enrolled(intent(), asking(expires="2027-03-01T18:30"), NOW)
    made = steps(ending, blank)
    program(made)
    written = {s.body["path"]: s.body["text"] for s in made if s.body["do"] == "write"}
    assert "OnCalendar=2027-03-01 18:30:00 UTC\n" in written[access.TIMER_FILE]
    assert written[access.DATES] == f"1803925800 {key(1)}\n"
    # What is as it should be is left alone.
    there = {"expiry" + path: {"text": text} for path, text in written.items()}
    there["expiry/enabled"] = {"code": 0, "out": "enabled\nenabled\n"}
    there["expiry/active"] = {"code": 0, "out": "active\n"}
    after = Results(there)
    assert not [step for step in steps(ending, after) if step.id.startswith("expiry")]
    stopped = Results({**there, "expiry/active": {"code": 3, "out": "inactive\n"}})
    assert "expiry/restart" in [step.id for step in steps(ending, stopped)]
    # An earlier reconcile ended before systemd read the files.
    unread = Results({**there, "expiry/pending": {"code": 0, "out": ""}})
    again = [step.id for step in steps(ending, unread)]
    assert {"expiry/reload", "expiry/restart", "expiry/end"} <= set(again)
    gone = [step.id for step in steps(intent(), after) if step.id.startswith("expiry")]
    assert "expiry/no" + access.TIMER_FILE in gone
    program(steps(intent(), after))
    program(access.Access(AccessParams()).observe(CharmState(intent(), {})))


def reconciled(state: Intent):
    juju = Juju()
    nics = {"ens3": "10.0.0.1/24", "ens4": "192.168.60.1/24", "ens5": "10.254.2.250/24"}
    charm = juju.deploy("access", {"access": "provider"}, nics)
    charm.intent = state
    juju.world.clock = NOW
    charm.reconcile()
    assert charm.error == ""
    return juju, charm


def test_a_reconcile_after_the_end_takes_the_device_off_and_never_brings_it_back():
    state, _ = devices.enrolled(intent(**{"underlay-interface": "ens4"}), asking(), NOW)
    state, _ = devices.enrolled(state, asking("guest", 2, expires="1h"), NOW)
    juju, charm = reconciled(state)
    assert set(charm.interface("access").peers) == {key(1), key(2)}
    juju.world.clock = NOW + 3600
    charm.reconcile()
    assert set(charm.interface("access").peers) == {key(1)}
    charm.reconcile()
    assert set(charm.interface("access").peers) == {key(1)}
    assert key(2) not in charm.vdu.files["/etc/wireguard/wg-access.conf"]


def test_the_program_leaves_the_file_that_a_reconcile_would_write():
    state, _ = devices.enrolled(intent(**{"underlay-interface": "ens4"}), asking(), NOW)
    state, _ = devices.enrolled(state, asking("guest", 2, expires="1h"), NOW)
    state, _ = devices.enrolled(state, asking("x", 3, expires="1h"), NOW)
    path = "/etc/wireguard/wg-access.conf"
    text = reconciled(state)[1].vdu.files[path]
    left = reconciled(state.at(NOW + 3600))[1].vdu.files[path]
    assert expire.without(text, [key(2), key(3)]) == left
    assert expire.without(text, []) == text
    assert expire.without(left, [key(9)]) == left


def test_the_program_takes_off_who_is_over_and_nobody_else(tmp_path):
    for name in ("wg", "expire"):
        tmp_path.joinpath(name).touch(0o755)
    log, file, dates = (tmp_path / name for name in ("log", "wg.conf", "dates"))
    tmp_path.joinpath("wg").write_text(f'#!/bin/sh\necho "$@" >>{log}\n')
    tmp_path.joinpath("expire").write_text(source("expire.py"))
    file.write_text(
        f"# x\n[Interface]\n\n# a\n[Peer]\nPublicKey = {key(1)}\n"
        f"\n# b\n[Peer]\nPublicKey = {key(2)}\n"
    )
    dates.write_text(f"1000000000 {key(1)}\n9999999999 {key(2)}\n")
    words = [sys.executable, tmp_path / "expire", "wg-access", dates, file]
    path = f"{tmp_path}:{os.environ['PATH']}"
    subprocess.run(words, check=True, env={"PATH": path})
    assert log.read_text().splitlines() == ["show wg-access", f"set wg-access peer {key(1)} remove"]
    assert file.read_text() == f"# x\n[Interface]\n\n# b\n[Peer]\nPublicKey = {key(2)}\n"
    assert file.stat().st_mode & 0o777 == 0o600
