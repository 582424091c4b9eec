"""A cloud image that somebody puts into the store: without Day-0's packages, without a guest agent.

It is made as the lab's own is, from fewer packages.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.errors import VimError
from lab.vim.account import Vim, clean, vca_prefix
from lab.vim.model import PortSpec, Server, ServerSpec
from lab.vim.qemu import bake
from lab.vim.qemu import machine as machines
from lab.vim.qemu.bake import Baked

pytestmark = [
    pytest.mark.schedule(order=2, worker="alone"),
    *(pytest.mark.lab, pytest.mark.vm, pytest.mark.kvm),
    *(pytest.mark.long, pytest.mark.timeout(1800)),
]

#: What the image of a distribution lacks.
ABSENT = {"qemu-guest-agent", "libpam-systemd", "apparmor", *bake.day0_packages()}
WANTED = "#cloud-config\npackage_update: true\npackages: [wireguard-tools, iperf3]\n"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path, work = tmp_path_factory.mktemp("store"), tmp_path_factory.mktemp("work")
    names = [name for name in bake.packages() if name not in ABSENT or name == "iproute2"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bake, "packages", lambda: [*names, "python3"])
        first = bake._RECIPE["first-boot"].replace("apparmor_parser", ": apparmor_parser")
        patch.setitem(bake._RECIPE, "first-boot", first)
        bake.make(Baked(path / "image"), work, print)
        Baked(path / "image").disk.rename(path / "debian12.qcow2")
        patch.setattr(machines, "STORE", path)
        yield path


@pytest.fixture(scope="module")
def vim(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vim]:
    home = tmp_path_factory.mktemp("cloud")
    try:
        images = {"debian12": {"default_user": "debian"}}
        yield Vim.create(home, "cloud", {"images": images}, "qemu")
    finally:
        clean(home)


def asked(vim: Vim, name: str, user_data: str | None, key: Path) -> Server:
    ports = (PortSpec(vim.management_network().id),)
    public = key.with_suffix(".pub").read_text().strip()
    spec = ServerSpec(name, name, "debian12", 1, 512, 4, ports, user_data, (public,))
    return vim.create_server(spec, "cloud")


def test_it_is_active_without_an_agent_and_can_be_logged_in_to(vim: Vim, key: Path) -> None:
    plain = vim.wait_active(asked(vim, "plain", None, key).id, 900)
    try:
        words = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]
        login = ["ssh", *words, "-i", str(key), f"debian@{plain.ports[0].ip}"]
        done = subprocess.run(
            [*vca_prefix(vim.home.path), *login, "sudo id -u; hostname; test -e /usr/bin/wg"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout == "0\nplain\n", done.stderr
        assert done.returncode == 1, "the image must lack what Day-0 installs"
        with pytest.raises(VimError, match="guest agent does not run in the server"):
            vim.console(plain.id, ["true"])
    finally:
        vim.delete_server(plain.id)


def test_packages_that_cannot_be_had_are_named(vim: Vim, key: Path) -> None:
    made = asked(vim, "wants", WANTED, key)
    try:
        notes = "\n".join(vim.wait_active(made.id, 900).notes)
        assert "the lab has no package mirror, and the image lacks iperf3, wireguard-tools" in notes
    finally:
        vim.delete_server(made.id)


def test_a_list_of_packages_beside_it_says_so_before_a_boot(
    vim: Vim, store: Path, key: Path
) -> None:
    listed = store / "debian12.packages.txt"
    listed.write_text("iperf3 3.12\n")
    try:
        with pytest.raises(VimError, match="no package mirror: wireguard-tools"):
            asked(vim, "wants", WANTED, key)
    finally:
        listed.unlink()
