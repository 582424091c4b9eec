"""A VIM in a directory of its own, and servers in it that tests share where they can."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from vim_support import Boot

from lab.vim.account import Vim, clean, vca_prefix
from lab.vim.model import NetworkSpec, PortSpec, Server, ServerSpec

TOOLS = ("ip", "nft", "nsenter", "tcpdump", "ssh", "ssh-keygen", "cloud-init", "wg-quick")


@pytest.fixture(scope="session")
def lab_machine() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: makes network namespaces and mounts")
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")


@pytest.fixture(scope="module")
def home(lab_machine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("lab")
    yield path
    clean(path)


@pytest.fixture(scope="module")
def vim(home: Path) -> Vim:
    return Vim.create(home, "site-a")


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("key") / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    return path


@pytest.fixture(scope="module")
def boot(vim: Vim, key: Path) -> Boot:
    """Boot servers at the same time and wait for all."""

    def run(*specs: ServerSpec, tag: str) -> list[Server]:
        made = [vim.create_server(spec, tag) for spec in specs]
        return [vim.wait_active(server.id, 90) for server in made]

    return run


@pytest.fixture(scope="module")
def spec(vim: Vim, key: Path) -> Callable[..., ServerSpec]:
    def make(name: str, *ports: PortSpec, user_data: str | None = None) -> ServerSpec:
        return ServerSpec(
            name=name,
            hostname=name,
            image="ubuntu22.04",
            vcpus=1,
            ram_mib=1024,
            disk_gb=1,
            ports=(PortSpec(vim.management_network().id), *ports),
            user_data=user_data,
            ssh_keys=(key.with_suffix(".pub").read_text().strip(),),
        )

    return make


@pytest.fixture(scope="module")
def ssh(home: Path, vim: Vim, key: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    own = key

    def run(server: Server, command: str, key: Path = own) -> subprocess.CompletedProcess[str]:
        address = server.ip_on(vim.management_network().id)
        options = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]
        options += ["-o", "BatchMode=yes", "-o", "LogLevel=ERROR", "-i", str(key)]
        return subprocess.run(
            [*vca_prefix(home), "ssh", *options, f"ubuntu@{address}", command],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    return run


@pytest.fixture(scope="module")
def pair(vim: Vim, boot: Boot, spec: Callable[..., ServerSpec]) -> list[Server]:
    """Two servers on a data network, the second's port without port security."""
    data = vim.create_network(NetworkSpec("data", "10.77.0.0/24", mtu=1400), "pair")
    first = PortSpec(data.id, ip="10.77.0.10")
    second = PortSpec(data.id, ip="10.77.0.20", mac="02:00:00:00:00:20", port_security=False)
    user_data = (
        "#cloud-config\n"
        "packages: [openssh-server]\n"
        "package_update: true\n"
        "write_files:\n"
        "- {path: /etc/day0, content: 'written by day-0'}\n"
        "runcmd:\n"
        "- [sh, -c, 'id -un >/root/runcmd']\n"
    )
    return boot(
        spec("alpha", first, user_data=user_data),
        spec("beta", second, user_data=user_data),
        tag="pair",
    )
