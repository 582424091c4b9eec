"""The rules of ports, as text and as nft takes them; a fabric is made as a whole or again."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from lab import accounts
from lab.errors import VimError
from lab.nbi.engine import Engine
from lab.vim import fabric, host
from lab.vim.account import KINDS, Vim
from lab.vim.fabric import capture, port_rules
from lab.vim.model import Network, Port


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


class Paper:
    """Namespaces and networks that are only written down; making a network may fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
        self.netns: set[str] = set()
        self.networks: list[str] = []
        self.fault: BaseException | None = None
        for name, fake in (
            ("netns_exists", self.netns.__contains__),
            ("make_fabric", self.netns.add),
            ("make_vca", self.netns.add),
            ("delete_netns", self._delete_netns),
            ("delete_device", lambda *_: None),
        ):
            monkeypatch.setattr(fabric, name, fake)
        for name in ("join", "leave"):
            monkeypatch.setattr(host, name, lambda home: None)
        monkeypatch.setattr(Vim, "_make_network", lambda vim, network: self._make(network))
        monkeypatch.setattr(Vim, "_apply_rules", lambda vim, state: None)
        monkeypatch.setattr(Vim, "_hierarchy", lambda vim: path)
        monkeypatch.setitem(KINDS, "namespaces", SimpleNamespace(prepare=lambda *_: None))

    def _delete_netns(self, name: str) -> None:
        self.netns.discard(name)
        self.networks.clear()

    def _make(self, network: Network) -> None:
        if self.fault is not None:
            self.networks.append(f"a part of {network.name}")
            raise self.fault
        self.networks.append(network.name)


@pytest.fixture
def paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paper:
    return Paper(monkeypatch, tmp_path)


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("fault", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_an_account_of_which_nothing_came_can_be_made_again(
    paper: Paper, tmp_path: Path, fault: BaseException
) -> None:
    engine = Engine(tmp_path)
    paper.fault = fault
    with pytest.raises(type(fault)):
        accounts.create(engine, "north", "openstack", {})
    assert Vim.names(tmp_path) == []
    assert paper.netns == set()
    paper.fault = None
    accounts.create(engine, "north", "openstack", {})
    assert (Vim.names(tmp_path), paper.networks) == (["north"], ["mgmtnet"])
    accounts.delete(engine, "north")
    assert paper.netns == set()


def test_an_account_whose_removal_was_interrupted_too_can_be_made_again(
    paper: Paper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine(tmp_path)
    paper.fault = KeyboardInterrupt()
    with monkeypatch.context() as patch:
        patch.setattr(Vim, "_destroy", interrupt)
        with pytest.raises(KeyboardInterrupt):
            accounts.create(engine, "north", "openstack", {})
    assert Vim.names(tmp_path) == []
    paper.fault = None
    accounts.create(engine, "north", "openstack", {})
    # In a new namespace, not in what was left.
    assert paper.networks == ["mgmtnet"]


def test_a_fabric_that_was_half_restored_is_made_again(paper: Paper, tmp_path: Path) -> None:
    vim = Vim.create(tmp_path, "north")
    fabric.delete_netns(vim.fabric)
    paper.fault = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        vim.restore()
    assert vim.fabric in paper.netns
    paper.fault = None
    for _ in range(2):
        Vim.open(tmp_path, "north")
        assert paper.networks == ["mgmtnet"]


@pytest.fixture
def wire(lab_machine: object) -> Iterator[str]:
    """Return a network namespace with the interfaces `near` and `far`, joined."""
    netns = f"capture{os.getpid()}"
    subprocess.run(["ip", "netns", "add", netns], check=True)
    try:
        for words in ("add near type veth peer name far", "set near up", "set far up"):
            subprocess.run(["ip", "-n", netns, "link", *words.split()], check=True)
        yield netns
    finally:
        subprocess.run(["ip", "netns", "delete", netns], check=True)


def send(netns: str, count: int) -> None:
    program = (
        "import socket; s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); s.bind(('near', 0));"
        f"[s.send(bytes(12) + bytes((0x88, 0xb5)) + bytes(50)) for _ in range({count})]"
    )
    subprocess.run(["ip", "netns", "exec", netns, sys.executable, "-c", program], check=True)


@pytest.mark.lab
def test_a_capture_has_every_frame_although_tcpdump_was_behind(wire: str, tmp_path: Path) -> None:
    """On a busy machine it gets to run late; what it ends without would be missing as evidence."""
    path = tmp_path / "wire.pcap"
    with capture(wire, "far", path):
        (pid,) = subprocess.run(
            ["pgrep", "-f", str(path)], capture_output=True, text=True, check=True
        ).stdout.split()
        os.kill(int(pid), signal.SIGSTOP)
        send(wire, 100)
        later = threading.Timer(0.5, os.kill, (int(pid), signal.SIGCONT))
        later.start()
    shown = subprocess.run(
        ["tcpdump", "-nn", "-r", str(path), "ether proto 0x88b5"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.count(" length 64:") == 100


@pytest.mark.lab
def test_a_capture_beyond_the_limit_ends_and_is_no_evidence(
    wire: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fabric, "CAPTURE_LIMIT", 4096)
    path = tmp_path / "wire.pcap"
    with pytest.raises(VimError, match="more than 4096 bytes"), capture(wire, "far", path):
        send(wire, 100)
    assert path.stat().st_size <= 4096
