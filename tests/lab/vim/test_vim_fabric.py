"""The rules of ports, as text and as nft takes them."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from lab.vim.fabric import port_rules
from lab.vim.model import Port


def port(device: str, ip: str, security: bool = True) -> Port:
    return Port("id", "net", "ens3", device, ip, "fa:16:3e:00:00:01", security)


def test_rules_name_guarded_ports_only() -> None:
    text = port_rules([port("pa", "10.0.0.2"), port("pb", "10.0.0.3", security=False)])
    assert '"pa" . 10.0.0.2' in text
    assert "pb" not in text


def test_rules_of_ipv6_allow_the_link_local_address() -> None:
    text = port_rules([port("pa", "fd00::2")])
    assert '"pa" . fd00::2' in text
    assert '"pa" . fe80::f816:3eff:fe00:1' in text
    assert "10." not in text


@pytest.mark.lab
@pytest.mark.usefixtures("lab_machine")
@pytest.mark.parametrize("ports", [[], [port("pa", "10.0.0.2"), port("pc", "fd00::2")]])
def test_nft_takes_the_rules_twice(ports: list[Port]) -> None:
    nft = shutil.which("nft")
    assert nft
    text = port_rules(ports)
    done = subprocess.run(
        ["unshare", "--net", "sh", "-c", f"{nft} -f /dev/stdin && {nft} list ruleset"],
        input=text + text,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("chain from_port") == 1
