"""What is refused: one sentence each, and nothing half-made stays."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from support.waiting import wait_until

from lab.errors import VimError
from lab.records import jobs
from lab.records.operations import operation_folder
from lab.records.store import Store
from lab.vim.account import Vim, clean
from lab.vim.connector import create
from lab.vim.model import NetworkSpec, PortSpec, ServerSpec
from lab.vim.namespaced import why_shared_users
from lab.vim.qemu.machine import Machine
from lab.vim.run import start

pytestmark = pytest.mark.lab


def left(vim: Vim) -> tuple[int, list[str]]:
    servers = vim.directory / "servers"
    return len(vim.servers()), sorted(p.name for p in servers.iterdir()) if servers.exists() else []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"image": "windows"},
            r"Image not found with this criteria: .windows. \(this VIM has: ubuntu22\.04\)",
        ),
        ({"ram_mib": 0}, "field/attribute ram. Value: 0. 0 is less"),
        ({"ports": ()}, "must have 1 to 26 ports"),
        ({"ports": (PortSpec("nowhere"),)}, "Network nowhere could not be found"),
        ({"user_data": "hello"}, "cloud-init would ignore it"),
        ({"user_data": "#cloud-config\na: ["}, "is not what cloud-init can use: line"),
        (
            {"user_data": "#cloud-config\npackages: [openssh-server, no-such-package]"},
            "apt-get install no-such-package",
        ),
    ],
)
def test_server_refused(
    vim: Vim, spec: Callable[..., ServerSpec], change: dict[str, object], words: str
) -> None:
    before = left(vim)
    with pytest.raises(VimError, match=words) as error:
        vim.create_server(replace(spec("x"), **change), "t")  # type: ignore[arg-type]
    assert str(error.value).endswith(".")
    assert left(vim) == before


def test_failure_while_making_leaves_nothing(
    vim: Vim, spec: Callable[..., ServerSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = left(vim)
    why_shared_users()  # Kept for the rest of the process, so not with the path below.
    monkeypatch.setattr("lab.vim.namespaced._KEEPER", [sys.executable, "/no/such/program.py"])
    with pytest.raises(VimError, match="keeper did not start"):
        vim.create_server(spec("x"), "t")
    assert left(vim) == before
    assert str(vim.directory / "servers") not in Path("/proc/mounts").read_text()


@contextmanager
def full(directory: Path) -> Iterator[None]:
    """Leave no room on the disk of a directory."""
    path = directory / "filling"
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1024))
    yield
    path.unlink()


def test_a_vdu_runs_and_reboots_on_a_full_disk(
    lab_machine: None, tmp_path: Path, spec: Callable[..., ServerSpec]
) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "full", tmp_path], check=True)
    try:
        vim = Vim.create(tmp_path, "v")
        port = PortSpec(vim.management_network().id)
        server = vim.create_server(replace(spec("x"), ports=(port,)), "t")
        vim.wait_active(server.id, 90)
        with full(tmp_path):
            # What it says on its console is lost, and nothing else.
            done = vim.console(
                server.id, ["sh", "-c", "seq 9999 >/dev/console; seq 9 >/dev/console"]
            )
            assert (done.returncode, vim.server(server.id).status) == (0, "ACTIVE")
            vim.reboot(server.id)
            assert vim.wait_active(server.id, 90).status == "ACTIVE"
            vim.stop(server.id)
            vim.start(server.id)
            assert vim.wait_active(server.id, 90).status == "ACTIVE"
        # Programs that could not write why they ended, and the log of a machine's console.
        folder = operation_folder(tmp_path, "1")
        folder.mkdir(parents=True)
        for log in (tmp_path / "log", folder / "worker.log"):
            log.touch()
        machine = Machine(tmp_path, tmp_path, "", tmp_path)
        machine.console_log.write_bytes(b"y\n" * (1 << 20) + b"more\n")
        (tmp_path / "console.begin").write_text("0")
        with full(tmp_path):
            with pytest.raises(VimError, match=f"no room left in the folder {tmp_path}"):
                start(["false"], tmp_path / "log", lambda _: False, "It did not start")
            reason = jobs.ending(Store(tmp_path), {"_id": "1"})
            assert reason.endswith(f"has ended: there is no room left in the folder {folder}")
            machine._limit_console()
            assert machine.console_log.stat().st_size == 0
    finally:
        clean(tmp_path)
        subprocess.run(["umount", tmp_path], check=True)


@pytest.mark.parametrize(
    ("spec_", "words"),
    [
        (NetworkSpec("a", "10.0.0.1/24"), "Invalid input for cidr"),
        (NetworkSpec("a", "10.0.0.0/24", gateway="10.0.1.1"), "Gateway 10.0.1.1 is not valid"),
        (NetworkSpec("a", mtu=70000), "Requested MTU is too big"),
        (NetworkSpec("a", "fd00::/64", mtu=1000), "IPv6 needs at least 1280"),
        (NetworkSpec(""), "must have a name"),
    ],
)
def test_network_refused(vim: Vim, spec_: NetworkSpec, words: str) -> None:
    before = vim.networks()
    with pytest.raises(VimError, match=words):
        vim.create_network(spec_, "t")
    assert vim.networks() == before


def test_address_in_use_and_network_in_use(vim: Vim, spec: Callable[..., ServerSpec]) -> None:
    network = vim.create_network(NetworkSpec("full", "10.9.0.0/24", gateway="10.9.0.1"), "busy")
    server = vim.create_server(spec("x", PortSpec(network.id, ip="10.9.0.4")), "busy")
    with pytest.raises(VimError, match=r"IP address 10\.9\.0\.4 already allocated"):
        vim.create_server(spec("y", PortSpec(network.id, ip="10.9.0.4")), "busy")
    with pytest.raises(VimError, match=r"IP address 10\.9\.0\.1 already allocated"):
        vim.create_server(spec("y", PortSpec(network.id, ip="10.9.0.1")), "busy")
    with pytest.raises(VimError, match=r"IP address 10\.9\.0\.2 already allocated"):  # by DHCP
        vim.create_server(spec("y", PortSpec(network.id, ip="10.9.0.2")), "busy")
    with pytest.raises(VimError, match="one or more ports still in use"):
        vim.delete_network(network.id)
    vim.delete_server(server.id)
    vim.delete_network(network.id)
    for action in (vim.stop, vim.start, vim.reboot, vim.server):
        with pytest.raises(VimError, match=f"Instance {server.id} could not be found"):
            action(server.id)
    assert not (vim.directory / "servers" / server.id).exists()


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("#cloud-config\nruncmd:\n- echo about to fail\n- exit 3\n", "scripts.user.*about to fail"),
        # cloud-init asks again and again, for half a minute.
        pytest.param("#include\nhttp://127.0.0.1:9/none\n", "127.0.0.1", marks=pytest.mark.long),
    ],
    ids=["last command", "dead include"],
)
def test_cloud_init_errors_are_told(
    vim: Vim,
    spec: Callable[..., ServerSpec],
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    reason: str,
) -> None:
    made = vim.create_server(spec("bad", user_data=script), "bad")
    server = vim.wait_active(made.id, 60)
    assert server.status == "ACTIVE"  # it runs, as it would in a cloud
    assert re.search(f"cloud-init in server 'bad' reported: .*{reason}", server.notes[-1])
    assert vim.wait_active(made.id, 60).notes == server.notes
    monkeypatch.setattr(vim.account.config, "strict_day0", True)
    with pytest.raises(VimError, match=f"cloud-init in server 'bad' reported: .*{reason}"):
        vim.wait_active(made.id, 60)
    vim.delete_tag("bad")


def test_boot_that_fails_is_told(vim: Vim, spec: Callable[..., ServerSpec]) -> None:
    server = vim.create_server(spec("nokernel"), "broken")
    vim.wait_active(server.id, 60)
    vim.stop(server.id)
    config = vim.directory / "servers" / server.id / "vdu.json"
    config.write_text(config.read_text().replace("/systemd", "/no-systemd"))
    vim.start(server.id)
    wait_until(lambda: vim.server(server.id).status == "ERROR", "the failure is told")
    with pytest.raises(VimError, match="did not become active: No such file or directory"):
        vim.wait_active(server.id, 5)
    vim.delete_tag("broken")


def test_account_refused(home: Path, vim: Vim) -> None:
    with pytest.raises(VimError, match="already exists"):
        Vim.create(home, vim.name)
    with pytest.raises(VimError, match="is no VIM account name"):
        create(home, "../x", "lab", {})
    with pytest.raises(VimError, match="could not be found"):
        Vim.open(home, "nobody")
    with pytest.raises(VimError, match=r"overlaps 10\.250\.1\.0/24 of VIM 'site-a'"):
        Vim.create(home, "b", {"management_subnet": "10.250.0.0/16"})
    with pytest.raises(VimError, match="configuration is wrong at 'images"):
        Vim.create(home, "b", {"images": {"x": {"colour": "red"}}})
    assert Vim.names(home) == [vim.name]
