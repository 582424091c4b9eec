"""Virtual machines, as far as no machine is needed: what they are told, and refusals."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from support.waiting import wait_until
from vim_support import NETWORKS, SERVER, SPEC

from lab.errors import VimError
from lab.vim.model import ACTIVE
from lab.vim.namespaced import listening
from lab.vim.qemu import bake, configdrive, images, monitor
from lab.vim.qemu import machine as machines
from lab.vim.store import Config, Image, ServerRecord


def test_network_data_has_addresses_and_one_way_out() -> None:
    result = configdrive.network_data(SERVER, NETWORKS)
    assert [link["mtu"] for link in result["links"]] == [1500, 1400, 1500]
    routes = [
        {(route["network"], route["netmask"], route["gateway"]) for route in network["routes"]}
        for network in result["networks"]
    ]
    assert routes == [
        {("0.0.0.0", "0.0.0.0", "10.250.1.1")},
        {("10.99.0.0", "255.255.0.0", "10.77.0.254")},
        set(),
    ]
    assert result["networks"][2]["type"] == "ipv6"
    assert {link["id"] for link in result["links"]} == {n["link"] for n in result["networks"]}


def test_drive_holds_user_data_as_it_is_and_names_the_login() -> None:
    files = configdrive.contents(SPEC, "ubuntu", SERVER, NETWORKS)
    assert files["user_data"] == SPEC.user_data
    text = json.loads(files["vendor_data.json"])["cloud-init"]
    assert text.startswith("#cloud-config-archive\n")
    (vendor,) = yaml.safe_load(text)
    assert yaml.safe_load(vendor) == {"user": {"name": "ubuntu"}}


def test_image_has_what_any_vdu_installs() -> None:
    names = bake.day0_packages()
    assert {"podman", "keepalived", "strongswan-swanctl", "wireguard-tools"} <= set(names)


def test_a_cloud_starts_the_image_without_a_check_of_the_timer() -> None:
    """Where a machine is emulated, the kernel panics if the host is busy in that moment."""
    assert " no_timer_check " in bake._RECIPE["grub-cfg"]


def test_missing_programs_are_named_by_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(VimError, match=r"apt-get install .*qemu-system-x86 qemu-utils"):
        bake.check_tools()


def test_too_little_memory_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "ubuntu22.04.qcow2").touch()
    monkeypatch.setattr(machines, "STORE", tmp_path)
    monkeypatch.setattr(machines, "_check_disk", lambda _: 1 << 30)
    monkeypatch.setattr(machines, "_free_memory", lambda _: 300)
    with pytest.raises(VimError, match="needs 672 MiB of memory, and the machine has 300 MiB"):
        machines.Machine.check_server(SPEC, Image())


def test_an_image_of_the_users_is_taken_by_its_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "jammy.qcow2").touch()
    monkeypatch.setattr(machines, "STORE", tmp_path)
    monkeypatch.setattr(machines, "check_tools", lambda _: None)
    monkeypatch.setattr(machines, "_check_disk", lambda _: 1 << 30)
    monkeypatch.setattr(machines, "bake", lambda _: pytest.fail("an image was made"))
    result: list[str] = []
    machines.Machine.prepare(Config(images={"jammy": Image()}), result.append)
    assert result[-1] == f"image jammy: {tmp_path}/jammy.qcow2"


def test_stale_images_go_but_for_those_that_servers_stand_on(tmp_path: Path) -> None:
    """Also after a restart of the machine, when no lab is registered."""
    store, home = tmp_path / "store", tmp_path / "home"
    for name in ("made-now", "made-used", "made-old", "making-killed"):
        (store / name).mkdir(parents=True)
    (store / "jammy.qcow2").touch()
    here, gone = (home / "vims/lab/servers" / name for name in ("here", "gone"))
    here.mkdir(parents=True)
    images.use(bake.Baked(store / "made-used"), here)
    images.use(bake.Baked(store / "made-old"), gone)
    assert images.prune(store, bake.Baked(store / "made-now")) == ["made-old", "making-killed"]
    left = sorted(path.name for path in store.iterdir())
    assert left == ["jammy.qcow2", "made-now", "made-used"]


def test_a_server_is_recorded_beside_its_image_before_its_disk_is_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = bake.Baked(tmp_path / "made-1")
    made.directory.mkdir()
    one = tmp_path / "servers/one"
    one.mkdir(parents=True)
    monkeypatch.setattr(machines, "STORE", tmp_path)
    monkeypatch.setattr(machines, "baked", lambda: made)

    def killed(words: list[str]) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(machines, "tool", killed)
    with pytest.raises(KeyboardInterrupt):
        machines.Machine(one, tmp_path / "g", "f", tmp_path).make(SPEC, Image(), SERVER, NETWORKS)
    assert images.prune(tmp_path, bake.Baked(tmp_path / "made-2")) == []


def test_a_list_of_packages_is_as_dpkg_query_prints_it(tmp_path: Path) -> None:
    file = tmp_path / "jammy.packages.txt"
    file.write_text("curl\t7.88.1-10\n\nlibc6:amd64\t2.36-9\njq 1.6\n")
    assert bake.listed_packages(file) == {"curl": "7.88.1-10", "libc6": "2.36-9", "jq": "1.6"}
    file.write_text("curl\t7.88.1-10\nlibc6\n")
    with pytest.raises(VimError, match=r"jammy.packages.txt, line 2: a name and a version are"):
        bake.listed_packages(file)


@pytest.mark.vm
@pytest.mark.lab
def test_an_image_of_another_format_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "jammy.qcow2").write_bytes(bytes(1 << 20))
    monkeypatch.setattr(machines, "STORE", tmp_path)
    with pytest.raises(VimError, match=r"jammy\.qcow2 is not qcow2: 'qemu-img convert"):
        machines.Machine.prepare(Config(images={"jammy": Image()}), lambda _: None)


def test_a_flavour_smaller_than_the_image_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "ubuntu22.04.qcow2").touch()
    monkeypatch.setattr(machines, "STORE", tmp_path)
    monkeypatch.setattr(machines, "_check_disk", lambda _: (2 << 30) + 1)
    with pytest.raises(VimError, match=r"has a disk of 3 GB, and the flavour of .* has 2 GB"):
        machines.Machine.check_server(SPEC, Image())


def answering(monkeypatch: pytest.MonkeyPatch, **answers: Any) -> None:
    """Let the guest agent answer commands so, or refuse them with a VimError."""

    def agent(directory: Path, command: str, /, **arguments: Any) -> Any:
        answer = answers.get(command.replace("-", "_"))
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(monitor, "agent", agent)
    monkeypatch.setattr(machines, "agent", agent)


def machine(folder: Path, console: str = "") -> machines.Machine:
    (folder / "console.log").write_text(console)
    (folder / "console.begin").write_text("0")
    return machines.Machine(folder, folder / "group", "fabric", folder)


@pytest.mark.parametrize("answer", [[], {"eof": True}, {"buf-b64": 5, "eof": True}, None, 5])
def test_whatever_a_guest_agent_answers_ends_no_verb(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: object
) -> None:
    answering(monkeypatch, guest_file_open=1, guest_file_read=answer, guest_exec=answer)
    one = machine(tmp_path)
    assert one.cloud_init_result() is None
    assert one.listens(22)
    monkeypatch.setattr(machines.Machine, "_process", lambda self: 1)
    with pytest.raises(VimError, match="The guest agent's answer is not what an agent answers"):
        one.console(["true"], None, 1)


@pytest.mark.parametrize("data", ["", "QUFB" * 4096])
def test_a_file_of_a_guest_ends_although_its_agent_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, data: str
) -> None:
    answering(monkeypatch, guest_file_open=1, guest_file_read={"buf-b64": data, "eof": False})
    assert len(monitor.read_file(tmp_path, "/x") or b"") <= 1 << 16


@pytest.mark.parametrize("line", [b"[]\n", b"5\n", b"{\n", b"[" * 100000 + b"\n"])
def test_lines_of_another_shape_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: bytes
) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        monkeypatch.chdir(tmp_path)
        listening.bind(monitor.AGENT)
        listening.listen()
        monkeypatch.setattr(monitor, "agent_there", lambda _: True)

        def serve() -> None:
            with listening.accept()[0] as connection:
                connection.recv(4096)
                connection.sendall(b"\xff" + line)

        threading.Thread(target=serve, daemon=True).start()
        with pytest.raises(VimError, match="is not what an agent answers"):
            monitor.agent(tmp_path, "guest-ping")


def test_an_answer_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(monitor, "_MOST", 1 << 20)
    with socket.socket(socket.AF_UNIX) as listening:
        monkeypatch.chdir(tmp_path)
        listening.bind(monitor.AGENT)
        listening.listen()

        def serve() -> None:
            with listening.accept()[0] as connection, contextlib.suppress(OSError):
                while True:
                    connection.sendall(bytes(1 << 16))

        threading.Thread(target=serve, daemon=True).start()
        with (
            monitor._Channel(tmp_path, monitor.AGENT, 60) as channel,
            pytest.raises(monitor.SilentError),
        ):
            channel.take()
        assert len(channel._buffer) <= 1 << 20


def test_an_agent_that_reads_no_files_leaves_the_result_to_the_console(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    refusal = VimError("QEMU says: Command guest-file-open has been disabled.")
    answering(monkeypatch, guest_file_open=refusal)
    assert machine(tmp_path).cloud_init_result() is None
    assert machine(tmp_path, "Cloud-init v. 23.4 finished at Mon\n").cloud_init_result() == []
    missing = VimError("QEMU says: failed to open file 'x' (mode: 'r'): No such file or directory.")
    answering(monkeypatch, guest_file_open=missing)
    assert machine(tmp_path, "Cloud-init v. 23.4 finished at Mon\n").cloud_init_result() is None


def test_tables_of_sockets_may_be_anything() -> None:
    row = "  0: 00000000:0016 00000000:0000 {} 00000000:00000000 00:00000000"
    assert listening(row.format("0A"), 22)
    assert not listening(row.format("01"), 22)
    assert not listening("a b c\nx y:z w 0A\n\n", 22)


def test_the_consoles_log_has_a_limit_and_keeps_what_cloud_init_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    refused = VimError("no agent")
    answering(monkeypatch, guest_file_open=refused)
    monkeypatch.setattr(machines.Machine, "_process", lambda self: 1)
    said = "[WARNING]: Running module x failed\nCloud-init v. 23.4 finished at Mon\n"
    one = machine(tmp_path, "of an earlier boot")
    (tmp_path / "console.begin").write_text("18")
    with one.console_log.open("ab", buffering=0) as qemu:  # as QEMU opens it
        qemu.write(said.encode())
        assert one.status() == (ACTIVE, "")
        errors = one.cloud_init_result()
        qemu.write(b"y\r\n" * (1 << 20) + b"last\n")
        assert one.status() == (ACTIVE, "")
        assert one.cloud_init_result() == errors == ["Running module x failed"]
        assert (tmp_path / "console.old").read_bytes().endswith(b"y\r\nlast\n")
        assert (tmp_path / "console.old").stat().st_size == 2 << 20
        qemu.write(b"more\n")
    assert one.console_log.read_text() == f"{said}more\n"


class StartsError(Exception):
    """A server gets as far as to its start."""


@pytest.fixture
def user_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], machines.Machine]:
    """A server that is made from a user's image, in a store without other images."""
    store, folder = tmp_path / "store", tmp_path / "one"
    store.mkdir()
    folder.mkdir()
    (store / "ubuntu22.04.qcow2").write_text("first")
    monkeypatch.setattr(machines, "STORE", store)
    monkeypatch.setattr(machines, "tool", lambda _: "")
    monkeypatch.setattr(configdrive, "write", lambda *_: None)

    def starts(*_: object) -> None:
        raise StartsError("it starts")

    def make() -> machines.Machine:
        one = machines.Machine(folder, tmp_path / "group", "fabric", tmp_path)
        one.make(SPEC, Image(), SERVER, NETWORKS)
        monkeypatch.setattr(machines.Machine, "_taps", starts)
        return one

    return make


RECORD = ServerRecord(server=SERVER, vcpus=1, ram_mib=512, disk_gb=2)


@pytest.mark.parametrize("linked", [True, False])
@pytest.mark.parametrize("written", [True, False])
def test_a_server_does_not_start_over_another_image_than_it_was_made_of(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    user_server: Callable[[], machines.Machine],
    linked: bool,
    written: bool,
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError

    if not linked:
        monkeypatch.setattr(Path, "hardlink_to", refuse)
    one = user_server()
    with pytest.raises(StartsError, match="it starts"):
        one.power_on(RECORD)
    image = tmp_path / "store/ubuntu22.04.qcow2"
    if not written:
        image.unlink()
    image.write_text("the second")
    starts = linked and not written
    error = StartsError if starts else VimError
    with pytest.raises(
        error, match="it starts" if starts else r"qcow2 has changed since .* restore the image"
    ):
        one.power_on(RECORD)


def test_memory_that_running_machines_may_still_take_is_set_aside(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fake(name: str, ram: int, used: int | None) -> Path:
        folder = tmp_path / "vims/lab/servers" / name
        folder.mkdir(parents=True)
        (folder / "vm.json").write_text(json.dumps({"ram": ram}))
        memory[folder] = used
        return folder

    memory: dict[Path, int | None] = {}
    monkeypatch.setattr("lab.vim.host.homes", lambda: [tmp_path])
    monkeypatch.setattr(machines, "_used_memory", memory.get)
    available = SimpleNamespace(available=10_000 << 20)
    monkeypatch.setattr("psutil.virtual_memory", lambda: available)
    fake("full", 2048, 2300)
    fake("stopped", 8192, None)
    young = fake("young", 4096, 256)
    assert machines._free_memory(None) == 10_000 - (4096 + 160 - 256) // 2
    assert machines._free_memory(young) == 10_000 + 256


def test_memory_of_a_process_that_is_no_qemu_does_not_count(tmp_path: Path) -> None:
    assert machines._used_memory(tmp_path) is None
    (tmp_path / "pid").write_text(f"{os.getpid()}\n")
    assert machines._used_memory(tmp_path) is None
    program = shutil.copy("/bin/sleep", tmp_path / "qemu-system-x86_64")
    with subprocess.Popen([program, "60"]) as running:
        try:
            (tmp_path / "pid").write_text(f"{running.pid}\n")
            wait_until(lambda: machines._used_memory(tmp_path) is not None, "it is QEMU's")
        finally:
            running.kill()


def test_a_command_that_never_ends_says_the_agent_is_given_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answering(monkeypatch, guest_exec={"pid": 1}, guest_exec_status={"exited": False})
    monkeypatch.setattr(machines.Machine, "_process", lambda self: 1)
    monkeypatch.setattr(machines, "_CONSOLE_GRACE", 0.1)
    with pytest.raises(VimError, match="'true' did not end within 0 s in the server"):
        machine(tmp_path).console(["true"], None, 0.1)
