"""After a crash everything goes, and two VIMs of one lab live side by side."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.waiting import wait_until
from vim_support import ping_command

from lab.vim.account import Vim, clean, vca_prefix
from lab.vim.cgroups import cgroup2_mounts, cpu1_mount
from lab.vim.model import NetworkSpec, PortSpec, ServerSpec
from lab.vim.store import Home

pytestmark = pytest.mark.lab


@pytest.fixture
def own_home(lab_machine: None, tmp_path: Path) -> Iterator[Path]:
    # A name that mount options, /proc/mounts and shells would treat in their own ways.
    path = tmp_path / "a home, with: ö"
    yield path
    clean(path)


def traces(home: Path) -> dict[str, list[str]]:
    """Everything on the machine that names a lab."""
    prefix = Home.at(home).prefix
    processes = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(home) in text and int(path.parent.name) != os.getpid():
            processes.append(text)
    mounts = Path("/proc/mounts").read_text().splitlines()
    groups = [*cgroup2_mounts(), *filter(None, [cpu1_mount()])]
    return {
        "netns": [p.name for p in Path("/run/netns").iterdir() if prefix in p.name],
        "mounts": [line for line in mounts if str(home) in line],
        "cgroups": [str(m / prefix) for m in groups if (m / prefix).exists()],
        "processes": processes,
        "links": [p.name for p in Path("/sys/class/net").iterdir() if prefix in p.name],
    }


NOTHING: dict[str, list[str]] = {
    "netns": [], "mounts": [], "cgroups": [], "processes": [], "links": []
}  # fmt: skip

VERB = textwrap.dedent(
    """
    import sys
    from lab.vim.account import Vim
    from lab.vim.model import NetworkSpec, PortSpec, ServerSpec
    vim = Vim.create(sys.argv[1], "v")
    data = vim.create_network(NetworkSpec("data"), "ns")
    for name in ("a", "b"):
        spec = ServerSpec(name, name, "ubuntu22.04", 1, 512, 1,
                          (PortSpec(vim.management_network().id), PortSpec(data.id)))
        vim.create_server(spec, "ns")
        print(name, flush=True)
    vim.wait_active(vim.servers()[0].id)
    print("active", flush=True)
    """
)


def start_verb(home: Path) -> subprocess.Popen[str]:
    """Start the verb in a process group of its own."""
    root = Path(__file__).resolve().parents[3]
    words = [sys.executable, "-c", VERB, str(home)]
    return subprocess.Popen(
        words, cwd=root, stdout=subprocess.PIPE, text=True, start_new_session=True
    )


def kill(verb: subprocess.Popen[str]) -> None:
    """Kill the verb with the commands it runs: an ``ip netns add`` must not outlive it."""
    os.killpg(verb.pid, signal.SIGKILL)


@pytest.mark.parametrize("delay", [0.0, 0.25, 0.4, 0.6, 1.2])
def test_killed_verb_leaves_nothing_after_clean(own_home: Path, delay: float) -> None:
    with start_verb(own_home) as verb:
        wait_until(lambda: (own_home / "vims").exists(), "the verb begins")
        time.sleep(delay)  # what is being made at that moment differs with the delay
        kill(verb)
    clean(own_home)
    wait_until(lambda: traces(own_home) == NOTHING, lambda: f"left: {traces(own_home)}")
    assert not (own_home / "vims").exists()
    clean(own_home)


def test_killed_verb_leaves_nothing_after_destroy(own_home: Path) -> None:
    with start_verb(own_home) as verb:
        assert verb.stdout
        assert verb.stdout.readline() == "a\n"
        kill(verb)
    vim = Vim.open(own_home, "v")
    assert traces(own_home)["processes"]
    vim.destroy()
    wait_until(lambda: traces(own_home) == NOTHING, lambda: f"left: {traces(own_home)}")
    vim.destroy()


def test_clean_without_any_record(own_home: Path) -> None:
    with start_verb(own_home) as verb:
        assert verb.stdout
        assert "active\n" in verb.stdout.read()
    records = [*own_home.glob("vims/*/*.json"), *own_home.glob("vims/*/servers/*/*.json")]
    assert len(records) == 2 + 2 * 2
    for record in records:
        record.write_text("{damaged")
    clean(own_home)
    assert traces(own_home) == NOTHING


def test_state_serves_another_process_and_a_restarted_fabric(own_home: Path) -> None:
    with start_verb(own_home) as verb:
        assert verb.wait(60) == 0
    vim = Vim.open(own_home, "v")
    server = next(server for server in vim.servers("ns") if server.name == "a")
    assert vim.console(server.id, ["hostname"]).stdout == "a\n"
    # The machine restarts: namespaces and processes are gone, files stay.
    vim.stop(server.id)
    subprocess.run(["ip", "netns", "delete", vim.fabric], check=True)
    subprocess.run(["ip", "netns", "delete", Home.at(own_home).vca_netns], check=True)
    vim = Vim.open(own_home, "v")
    vim.start(server.id)
    assert vim.wait_active(server.id).status == "ACTIVE"
    ping = ping_command(server.ports[0].ip)
    assert subprocess.run([*vca_prefix(own_home), *ping], check=False).returncode == 0
    # The charms' namespace alone is lost.
    subprocess.run(["ip", "netns", "delete", Home.at(own_home).vca_netns], check=True)
    assert subprocess.run([*vca_prefix(own_home), *ping], check=False).returncode == 0


def test_two_vims_and_two_labs(own_home: Path, tmp_path: Path) -> None:
    # The second has neither metadata service nor configuration drives.
    first, second = Vim.create(own_home, "a"), Vim.create(own_home, "b", {"metadata": False})
    other = Vim.create(tmp_path / "other", "a")
    try:
        servers = {}
        for vim in (first, second, other):
            data = vim.create_network(NetworkSpec("data", "10.1.0.0/24", dhcp=False), "ns")
            ports = (PortSpec(vim.management_network().id), PortSpec(data.id))
            spec = ServerSpec("s", "s", "ubuntu22.04", 1, 512, 1, ports)
            servers[vim] = vim.create_server(spec, "ns")
        for vim, server in servers.items():
            vim.wait_active(server.id, 60)
            told = vim.console(server.id, ["ip", "-br", "-4", "address", "show", "ens4"]).stdout
            assert ("10.1.0.1/24" in told) == (vim is not second), told
        address = servers[second].ports[0].ip
        assert address == "10.250.2.3"  # after the gateway and DHCP
        ping = ping_command(address)
        # The charms reach every VIM of their lab, and servers reach the other VIM's
        # management addresses; another lab is another world.
        assert subprocess.run([*vca_prefix(own_home), *ping], check=False).returncode == 0
        assert first.console(servers[first].id, ping).returncode == 0
        assert other.console(servers[other].id, ping).returncode == 1
        before = traces(own_home)
        first.destroy()
        assert second.console(servers[second].id, ["true"]).returncode == 0
        assert len(traces(own_home)["netns"]) == len(before["netns"]) - 1
        assert other.server(servers[other].id).status == "ACTIVE"
    finally:
        clean(tmp_path / "other")


def test_nothing_is_added_to_the_machines_network(own_home: Path) -> None:
    def network() -> str:
        words = (["ip", "link"], ["ip", "address"], ["ip", "rule"], ["ip", "route"])
        texts = [subprocess.run(w, capture_output=True, text=True).stdout for w in words]
        return "\n".join(texts)

    def links(text: str) -> list[str]:
        return [line for line in text.splitlines() if "valid_lft" not in line]

    before = network()
    vim = Vim.create(own_home, "v")
    spec = ServerSpec("s", "s", "ubuntu22.04", 1, 512, 1, (PortSpec(vim.management_network().id),))
    vim.wait_active(vim.create_server(spec, "ns").id)
    assert links(network()) == links(before)
