"""Facts of a VDU: which interface is that of management."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import attr
import pytest
from agent_support import execute
from oai import kinds, params
from oai.kinds import KINDS
from support.functions import GIVEN, GIVEN_5G
from vpnaas.base.errors import InputError, VduError
from vpnaas.vdu import facts
from vpnaas.vdu.ssh import CommandResult, Login, Vdu
from vpnaas.vdu.steps import Results

V4, V6 = ([{"dst": "default", "dev": dev}] for dev in ("ens3", "ens4"))


@pytest.mark.parametrize(
    ("v4", "v6", "name"), [([], V6, "ens4"), (V4, V6, "ens3"), (V4, [], "ens3")]
)
def test_a_default_route_of_ipv6_shows_the_management_interface_too(
    v4: list[Any], v6: list[Any], name: str
) -> None:
    rows = [{"ifname": dev, "mtu": 1500} for dev in ("ens3", "ens4")]
    assert "facts/default6" in {step.id for step in facts.observe()}
    texts = {"addresses": json.dumps(rows), "default": json.dumps(v4), "default6": json.dumps(v6)}
    results = Results({"facts/" + key: {"code": 0, "out": text} for key, text in texts.items()})
    assert facts.parse(results).underlay("", None).name == name


@pytest.mark.parametrize(
    ("name", "words"),
    [("lo", "no peer is reached over lo"), ("ens9", "the VDU has no interface ens9")],
)
def test_the_loopback_is_no_underlay_and_is_not_offered(name: str, words: str) -> None:
    rows = json.dumps([{"ifname": dev, "mtu": 1500} for dev in ("lo", "ens3", "ens4")])
    vdu = facts.parse(Results({"facts/addresses": {"code": 0, "out": rows}}))
    with pytest.raises(InputError) as caught:
        vdu.underlay(name, None)
    assert str(caught.value) == f"configure: underlay-interface: {words}; allowed: ens3, ens4"


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100000,
        '["x"]',
        '[{"ifname": "ens3", "mtu": 1e999}]',
        '[{"ifname": "ens3", "mtu": 1500, "addr_info": ["x"]}]',
    ],
)
def test_addresses_that_are_none_are_an_error(text: str) -> None:
    results = Results({"facts/addresses": {"code": 0, "out": text}})
    with pytest.raises(VduError, match="printed something unexpected"):
        facts.parse(results)


def test_a_default_route_that_is_none_is_an_error() -> None:
    results = Results({"facts/default": {"code": 0, "out": "[5]"}})
    with pytest.raises(VduError, match="printed something unexpected"):
        facts.parse(results)


@pytest.mark.parametrize(
    ("connection", "login"),
    [
        ("172.21.248.20 50412 10.0.0.1 22", "172.21.248.20"),
        ("2001:db8::20 50412 2001:db8::1 22", "2001:db8::20"),
        ("fe80::1%ens3 50412 fe80::2%ens3 22", "None"),
        ("", "None"),
    ],
)
@pytest.mark.parametrize("user", ["ubuntu", "root"])
def test_where_a_login_comes_from_is_known_beyond_sudo(
    connection: str, login: str, user: str, tmp_path: Path
) -> None:
    sudo = tmp_path / "sudo"
    sudo.write_text('#!/bin/sh\n[ "$1" = -n ] && shift && exec env -i "PATH=$PATH" "$@"\n')
    sudo.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SSH_CONNECTION": connection}

    class Local(Vdu):
        """A login shell on this machine."""

        def command(self, command: str, stdin: str = "", seconds: int = 60) -> CommandResult:
            words = ["sh", "-c", command.replace("/usr/bin/sudo", str(sudo))]
            done = subprocess.run(
                words, input=stdin, env=environment, capture_output=True, text=True
            )
            return CommandResult(done.returncode, done.stdout, done.stderr)

    (step,) = (step for step in facts.observe() if step.id == "facts/login")
    vdu = Local(Login("10.0.0.1", user, "", ""))
    assert str(facts.parse(vdu.execute([step], exclusive=False).check()).login) == login


@pytest.mark.parametrize("name", ["ens4", "enp0s4", "br0"])
@pytest.mark.parametrize("tagged", [True, False])
def test_the_bridge_that_has_a_nics_addresses_stands_for_it(name: str, tagged: bool) -> None:
    mac = {"mtu": 1500, "address": "fa:16:3e:00:00:04"}
    address = {"local": "192.0.2.4", "prefixlen": 24, "family": "inet", "scope": "global"}
    rows = [
        {"ifname": "ens4", **mac, "master": "br0", "altnames": ["enp0s4"]},
        {"ifname": "br0", **mac, "addr_info": [address]},
    ]
    vdu = facts.parse(Results({"facts/addresses": {"code": 0, "out": json.dumps(rows)}}))
    vdu = attr.evolve(vdu, tags={"ens4": mac["address"]} if tagged else {})
    assert vdu.underlay(name, None).name == "br0"
    # A port with addresses of its own, as one in a VRF, stays what it is.
    rows[0]["addr_info"] = [address]
    vdu = facts.parse(Results({"facts/addresses": {"code": 0, "out": json.dumps(rows)}}))
    assert vdu.underlay(name, None).name == ("br0" if name == "br0" else "ens4")


@pytest.mark.parametrize("name", ["ens4", "ens5", "bond0"])
def test_the_bond_of_two_nics_stands_for_either(name: str) -> None:
    first, second = ("fa:16:3e:00:00:04", "fa:16:3e:00:00:05")
    address = {"local": "192.0.2.4", "prefixlen": 24, "family": "inet", "scope": "global"}
    port = {"mtu": 1500, "address": first, "master": "bond0"}
    rows = [
        {"ifname": "enp4s0", **port},
        {"ifname": "enp5s0", **port, "permaddr": second},
        {"ifname": "bond0", "mtu": 1500, "address": first, "addr_info": [address]},
    ]
    vdu = facts.parse(Results({"facts/addresses": {"code": 0, "out": json.dumps(rows)}}))
    vdu = attr.evolve(vdu, tags={"ens4": first, "ens5": second})
    assert vdu.underlay(name, None).name == "bond0"


NICS = [
    {"ifname": "enp3s0", "mtu": 1500, "address": "fa:16:3e:00:00:03"},
    {"ifname": "enp4s0", "mtu": 1450, "address": "fa:16:3e:00:00:04"},
]
#: As cloud-init keeps what Nova says (ds.meta_data of DataSourceOpenStack).
DEVICES = [
    {"address": "0000:04:00.0", "bus": "pci", "mac": "FA:16:3E:00:00:04", "tags": ["ens4"]},
    {"address": "0000:03:00.0", "bus": "pci", "mac": "fa:16:3e:00:00:03", "tags": ["ens3"]},
    {"bus": "scsi", "serial": "disk-vol", "tags": ["ens5"], "type": "disk"},
]


def of_metadata(text: str) -> facts.VduFacts:
    (step,) = (step for step in facts.observe() if step.id == "facts/devices")
    picked = "\n".join(re.findall(step.body["pick"], text, re.M))
    texts = {"addresses": json.dumps(NICS), "devices": picked}
    return facts.parse(Results({f"facts/{k}": {"code": 0, "out": v} for k, v in texts.items()}))


@pytest.mark.parametrize("indent", [None, 1])
def test_a_nic_is_found_by_the_name_that_the_descriptor_gives_it(indent: int | None) -> None:
    data = {"v1": {"x": "{"}, "ds": {"meta_data": {"devices": DEVICES, "uuid": "1"}}}
    vdu = of_metadata(json.dumps(data, indent=indent, sort_keys=True))
    assert vdu.underlay("ens4", None).name == "enp4s0"
    assert vdu.underlay("enp3s0", None).name == "enp3s0"
    with pytest.raises(InputError, match="no interface ens5"):
        vdu.underlay("ens5", None)


def test_a_tag_counts_more_than_a_kernels_name_that_is_the_same_by_chance() -> None:
    swapped = [{"mac": "fa:16:3e:00:00:03", "tags": ["enp4s0"]}]
    assert of_metadata(json.dumps({"devices": swapped})).underlay("enp4s0", None).name == "enp3s0"


def test_tags_of_nics_are_known_where_cloud_init_does_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cloud's metadata lies in /run; a link would have no underlay, or another one."""
    metadata = tmp_path / "instance-data.json"
    monkeypatch.setattr(facts, "METADATA", str(metadata))
    monkeypatch.setattr(facts, "KEPT", str(tmp_path / "metadata.json"))

    def tags() -> dict[str, str]:
        return dict(facts.parse(execute(*facts.observe())).tags)

    assert tags() == {}
    metadata.write_text(json.dumps({"devices": DEVICES}, sort_keys=True))
    known = tags()
    assert known["ens4"] == "fa:16:3e:00:00:04"
    metadata.unlink()
    assert tags() == known
    metadata.write_text(json.dumps({"devices": [{"mac": "fa:16:3e:00:00:05", "tags": ["ens4"]}]}))
    assert tags()["ens4"] == "fa:16:3e:00:00:05"


@pytest.mark.parametrize("kind", KINDS)
def test_interfaces_of_network_functions_are_found_by_tag_too(kind: str) -> None:
    given = {**GIVEN, **GIVEN_5G}[kind]
    names = {name for name in given if name.endswith("-interface")}
    seen = of_metadata(json.dumps({"devices": DEVICES}))
    found = params.resolved(kinds.parse(kind, {**given, **dict.fromkeys(names, "ens4")}), seen)
    assert names == {name for name in kinds.to_given(found) if name.endswith("-interface")}
    assert {kinds.to_given(found)[name] for name in names} <= {"enp4s0"}


@pytest.mark.parametrize("text", ["", "{}", "no JSON"])
def test_without_metadata_the_kernels_names_count(text: str) -> None:
    assert of_metadata(text).underlay("enp4s0", None).name == "enp4s0"


def test_behind_a_floating_address_the_login_shows_the_management_interface() -> None:
    rows = [
        dict(nic, addr_info=[{"family": "inet", "local": f"10.0.{n}.2", "prefixlen": 24}])
        for n, nic in enumerate(NICS)
    ]
    login = "172.21.248.20 50412 10.0.1.2 22\n"
    texts = {"addresses": json.dumps(rows), "login": login, "default": json.dumps(V4)}
    results = Results({f"facts/{k}": {"code": 0, "out": v} for k, v in texts.items()})
    assert facts.parse(results).underlay("", None).name == "enp4s0"
