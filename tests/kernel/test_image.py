"""The image for a cloud: booted as a cloud does, with Day-0, out of reach of any package mirror."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.descriptors.day0 import render_user_data
from lab.vim.account import Vim, clean, vca_prefix
from lab.vim.model import PortSpec, Server, ServerSpec
from lab.vim.qemu import machine as machines
from lab.vim.qemu.bake import DAY0
from lab.vim.qemu.images import bake, export

pytestmark = [
    pytest.mark.schedule(order=2, worker="alone"),
    *(pytest.mark.lab, pytest.mark.vm, pytest.mark.kvm),
    *(pytest.mark.long, pytest.mark.timeout(1800)),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A store with the image under a name, as a user puts one there."""
    path = tmp_path_factory.mktemp("store")
    export(bake(print), path / "cloud.qcow2")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machines, "STORE", path)
        yield path


@pytest.fixture(scope="module")
def vim(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vim]:
    home = tmp_path_factory.mktemp("cloud")
    try:
        yield Vim.create(home, "cloud", {"images": {"cloud": {}}}, "qemu")
    finally:
        clean(home)


@pytest.fixture(scope="module")
def booted(vim: Vim, key: Path) -> Server:
    """A gateway's VDU after its Day-0, in which cloud-init reported no error."""
    day0 = render_user_data((DAY0 / "vnf.yaml").read_text(), {"OSM": {"vdu_id": "secgw"}}, "here")
    ports = (PortSpec(vim.management_network().id),)
    public = key.with_suffix(".pub").read_text().strip()
    spec = ServerSpec("gw", "gw", "cloud", 1, 768, 4, ports, day0, (public,))
    made = vim.create_server(spec, "cloud")
    return vim.wait_active(made.id, 900)


def inside(vim: Vim, server: Server, *words: str) -> str:
    done = vim.console(server.id, words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_list_of_packages_is_beside_the_image(store: Path) -> None:
    rows = (store / "cloud.packages.txt").read_text().splitlines()
    assert {"keepalived", "podman", "strongswan-swanctl"} <= {row.split()[0] for row in rows}


def test_it_boots_by_its_boot_loader_and_grows_to_the_flavours_disk(
    vim: Vim, booted: Server
) -> None:
    assert "BOOT_IMAGE=" in inside(vim, booted, "cat", "/proc/cmdline")
    size = int(inside(vim, booted, "df", "--output=size", "-B1M", "/").split()[1])
    assert size > 3500


def test_day_0_downloads_nothing(vim: Vim, booted: Server) -> None:
    log = inside(vim, booted, "cat", "/var/log/cloud-init-output.log")
    assert "0 upgraded, 0 newly installed" in log
    assert inside(vim, booted, "find", "/var/cache/apt/archives", "-name", "*.deb") == ""
    assert inside(vim, booted, "which", "swanctl", "wg", "keepalived", "podman", "iperf3")


def test_a_charm_can_log_in(vim: Vim, booted: Server, key: Path) -> None:
    words = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-i", str(key)]
    done = subprocess.run(
        [*vca_prefix(vim.home.path), "ssh", *words, f"ubuntu@{booted.ports[0].ip}", "sudo id -u"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "0\n", done.stderr


def test_day_0_never_makes_sshd_refuse_a_login(vim: Vim, booted: Server) -> None:
    log = inside(vim, booted, "journalctl", "--unit", "ssh", "--output", "cat")
    assert "Started ssh.service" in log
    assert "Stopping ssh.service" not in log
    settings = inside(vim, booted, "sshd", "-T")
    assert "\npasswordauthentication no\n" in settings


def test_a_reboot_keeps_what_day_0_set(vim: Vim, booted: Server) -> None:
    before = inside(vim, booted, "cat", "/proc/sys/kernel/random/boot_id")
    vim.reboot(booted.id)
    again = vim.wait_active(booted.id, 600)
    assert inside(vim, again, "cat", "/proc/sys/kernel/random/boot_id") != before
    settings = {"net.ipv4.ip_forward": "1", "net.ipv4.conf.all.rp_filter": "2"}
    result = {name: inside(vim, again, "sysctl", "-n", name).strip() for name in settings}
    assert result == settings
