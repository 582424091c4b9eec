"""One virtual machine, for the tests of a run that need a kernel with everything."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.guest import GuestMachine

from lab.vim.account import Vim, clean
from lab.vim.model import PortSpec, ServerSpec


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what asks for the machine."""
    for item in items:
        if "guest_machine" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.vm)
            item.add_marker(pytest.mark.timeout(1800))
            item.add_marker(pytest.mark.long)
            item.add_marker(pytest.mark.kvm)


@pytest.fixture(scope="package")
def guest_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestMachine]:
    home = tmp_path_factory.mktemp("guest-machine")
    try:
        vim = Vim.create(home, "guests", {}, "qemu")
        ports = (PortSpec(vim.management_network().id),)
        server = vim.create_server(
            ServerSpec("guest", "guest", "ubuntu22.04", 1, 768, 4, ports), "guests"
        )
        vim.wait_active(server.id, 1200)
        made = GuestMachine(vim, server.id)
        # strongSwan's profiles know its files in /etc only, not a test's folder.
        made.out("aa-teardown")
        yield made
    finally:
        clean(home)


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("key") / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    return path
