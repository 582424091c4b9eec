"""Servers as a user sees them: login, Day-0, reboot, isolation, tunnels."""

import json
import os
import platform
import re
import signal
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.waiting import wait_until
from vim_support import Boot, ping_command

from lab.errors import VimError
from lab.vim import cgroups
from lab.vim.account import Vim
from lab.vim.addresses import link_local
from lab.vim.dataplane import probe
from lab.vim.fabric import netns_names
from lab.vim.model import NetworkSpec, PortSpec, Server, ServerSpec

pytestmark = pytest.mark.lab

Ssh = Callable[..., "subprocess.CompletedProcess[str]"]


def output(vim: Vim, server: Server, *argv: str) -> str:
    done = vim.console(server.id, list(argv), timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def pings(vim: Vim, server: Server, address: str, count: int = 2, source: str = "-") -> bool:
    done = vim.console(server.id, ping_command(address, count, source), timeout=120)
    assert done.returncode in (0, 1), done.stderr
    assert not done.stderr
    return done.returncode == 0


def test_login_with_injected_key(vim: Vim, pair: list[Server], ssh: Ssh) -> None:
    done = ssh(pair[0], "hostname; id -un; sudo -n id -un; cat /etc/day0; sudo cat /root/runcmd")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:4] == ["alpha", "ubuntu", "root", "written by day-0root"]


def test_login_refused_without_key(pair: list[Server], ssh: Ssh, tmp_path: Path) -> None:
    other = tmp_path / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", other], check=True)
    done = ssh(pair[0], "true", key=other)
    assert done.returncode == 255
    assert "Permission denied (publickey)" in done.stderr


def test_password_login_is_an_option(
    vim: Vim, pair: list[Server], boot: Boot, spec: Callable[..., ServerSpec]
) -> None:
    user_data = "#cloud-config\npassword: osm4u\nchpasswd: {expire: false}\nssh_pwauth: true\n"
    server = boot(spec("pwauth", user_data=user_data), tag="pw")[0]
    assert "passwordauthentication yes" in output(vim, server, "sshd", "-T").lower()
    assert "passwordauthentication no" in output(vim, pair[0], "sshd", "-T").lower()
    assert output(vim, server, "passwd", "-S", "ubuntu").split()[1] == "P"
    assert output(vim, pair[0], "passwd", "-S", "ubuntu").split()[1] == "L"
    vim.delete_tag("pw")


def test_a_server_with_the_address_of_a_former_one_is_reached_at_once(
    vim: Vim, boot: Boot, spec: Callable[..., ServerSpec], ssh: Ssh
) -> None:
    seen = []
    for name in ("former", "present"):
        server = boot(spec(name), tag="former")[0]
        began = time.monotonic()
        assert ssh(server, "hostname").stdout == f"{name}\n"
        seen.append(server.ports[0])
        vim.delete_tag("former")
    # The kernel believes a former MAC for half a minute.
    assert time.monotonic() - began < 10
    assert (seen[0].ip, seen[0].mac) == (seen[1].ip, seen[0].mac) != (seen[1].ip, seen[1].mac)


def test_every_server_has_host_keys_of_its_own(vim: Vim, pair: list[Server]) -> None:
    keys = [output(vim, server, "cat", "/etc/ssh/ssh_host_ed25519_key.pub") for server in pair]
    assert len(set(keys)) == 2


def test_nics_are_as_asked(vim: Vim, pair: list[Server]) -> None:
    assert [port.interface for port in pair[1].ports] == ["ens3", "ens4"]
    data = output(vim, pair[1], "ip", "-br", "address", "show", "ens4")
    assert "10.77.0.20/24" in data
    link = output(vim, pair[1], "ip", "link", "show", "ens4")
    assert "mtu 1400" in link
    assert "02:00:00:00:00:20" in link
    assert output(vim, pair[1], "sysctl", "-n", "net.ipv4.conf.all.rp_filter") == "2"
    assert pings(vim, pair[0], "10.77.0.20")


#: Two processes that compute for a second; prints the processors they had on average.
BURN = """
import os, time
child, start = os.fork(), time.monotonic()
while time.monotonic() < start + 1:
    pass
if child == 0:
    os._exit(0)
os.wait()
spent = os.times()
cpu = spent.user + spent.system + spent.children_user + spent.children_system
print(cpu / (time.monotonic() - start))
"""


@pytest.mark.parametrize("words", [(), ("systemd-run", "--quiet", "--wait", "--pipe")])
def test_vcpus_are_what_the_flavour_says(
    vim: Vim, pair: list[Server], words: tuple[str, ...]
) -> None:
    notes = [note for note in vim.server(pair[0].id).notes if note.startswith("vCPUs")]
    if notes:
        pytest.skip(notes[0])
    release = tuple(int(part) for part in re.findall(r"\d+", platform.release())[:2])
    if not words and release < (5, 16):
        pytest.skip("before Linux 5.16 a console cannot join a group outside its namespace")
    # One vCPU, on a console as in a unit. Twice that where two processors are idle and no limit is.
    assert 0.02 < float(output(vim, pair[0], *words, "python3", "-c", BURN)) < 1.25


def test_machine_is_not_seen(vim: Vim, pair: list[Server], home: Path) -> None:
    assert output(vim, pair[0], "ls", "-A", "/home").split() == ["ubuntu"]
    assert vim.console(pair[0].id, ["test", "-e", str(home)]).returncode == 1
    assert output(vim, pair[0], "cat", "/proc/1/comm") == "systemd"
    assert output(vim, pair[0], "sh", "-c", "ps -e | wc -l").isdigit()
    # Kernel settings of the machine cannot be changed, those of the VDU's network can.
    assert vim.console(pair[0].id, ["sysctl", "-w", "kernel.sysrq=0"]).returncode != 0
    assert vim.console(pair[0].id, ["sysctl", "-w", "net.ipv4.ip_forward=0"]).returncode == 0
    assert vim.console(pair[0].id, ["mknod", "/tmp/d", "b", "8", "0"]).returncode != 0


def test_no_unit_failed(vim: Vim, pair: list[Server]) -> None:
    assert output(vim, pair[0], "systemctl", "--failed", "--no-legend", "--plain") == ""


def test_console_input_and_timeout(vim: Vim, pair: list[Server]) -> None:
    assert vim.console(pair[0].id, ["cat"], input="text").stdout == "text"
    with pytest.raises(VimError, match="did not end within 1 s"):
        vim.console(pair[0].id, ["sleep", "987"], timeout=1)
    assert vim.console(pair[0].id, ["pgrep", "-f", "^sleep 987"]).returncode == 1
    with pytest.raises(VimError, match="did not end within 1 s"):
        vim.console(pair[0].id, ["sh", "-c", "sleep 986 & sleep 987; true"], timeout=1)
    wait_until(
        lambda: vim.console(pair[0].id, ["pgrep", "-f", "^sleep 98"]).returncode == 1,
        "a command that took too long is gone with its children",
    )


def test_reboot_keeps_disk_and_units(vim: Vim, pair: list[Server], ssh: Ssh) -> None:
    unit = "[Service]\nType=oneshot\nExecStart=/bin/touch /run/mark\n"
    unit += "[Install]\nWantedBy=multi-user.target\n"
    server = pair[0]
    vim.console(server.id, ["tee", "/etc/systemd/system/mark.service"], input=unit)
    output(vim, server, "systemctl", "enable", "mark.service")
    output(vim, server, "ip", "link", "add", "name", "scratch0", "type", "bridge")
    key = output(vim, server, "cat", "/etc/ssh/ssh_host_ed25519_key.pub")
    vim.reboot(server.id)
    again = vim.wait_active(server.id, 60)
    assert again.ports == server.ports
    wait_until(lambda: vim.console(server.id, ["test", "-e", "/run/mark"]).returncode == 0, "unit")
    assert vim.console(server.id, ["ip", "link", "show", "scratch0"]).returncode != 0
    assert output(vim, server, "cat", "/etc/ssh/ssh_host_ed25519_key.pub") == key
    assert ssh(again, "true").returncode == 0
    assert pings(vim, again, "10.77.0.20")


def test_reboot_from_inside(vim: Vim, pair: list[Server], ssh: Ssh) -> None:
    server = pair[1]
    started = ["awk", "{print $22}", "/proc/1/stat"]
    before = output(vim, server, *started)
    assert "rror" not in ssh(server, "sudo systemctl reboot").stderr

    def rebooted() -> bool:
        try:
            done = vim.console(server.id, started)
        except VimError:
            return False
        return done.returncode == 0 and done.stdout.strip() != before

    wait_until(rebooted, "the system restarts")
    assert vim.wait_active(server.id, 60).status == "ACTIVE"


def test_stop_and_start(vim: Vim, pair: list[Server]) -> None:
    server = pair[1]
    assert vim.stop(server.id).status == "SHUTOFF"
    # The kernel removes the network of a namespace a moment after the namespace ended.
    assert not all(pings(vim, pair[0], "10.77.0.20", 1) for _ in range(20))
    with pytest.raises(VimError, match="not running"):
        vim.console(server.id, ["true"])
    with pytest.raises(VimError, match="powered itself off"):
        vim.wait_active(server.id, 5)
    vim.start(server.id)
    vim.start(server.id)  # a second time has no effect
    assert vim.wait_active(server.id, 60).status == "ACTIVE"
    assert pings(vim, pair[0], "10.77.0.20")


def test_a_server_whose_keeper_is_killed_is_not_waited_for(
    home: Path, vim: Vim, spec: Callable[..., ServerSpec]
) -> None:
    server = vim.create_server(spec("doomed"), "doomed")
    (report,) = home.glob(f"**/{server.id}/run.json")
    os.kill(json.loads(report.read_text())["keeper"][0], signal.SIGKILL)
    with pytest.raises(VimError, match="did not become active: the process that runs it was kil"):
        vim.wait_active(server.id, 60)
    vim.delete_tag("doomed")
    assert vim.servers("doomed") == []


def test_a_server_ends_with_its_keeper_as_a_machine_with_its_process(
    home: Path, vim: Vim, spec: Callable[..., ServerSpec]
) -> None:
    """Nothing of it runs on that nobody watches, while it is called ERROR."""
    server = vim.create_server(spec("unkept"), "unkept")
    vim.wait_active(server.id, 60)
    directory = next(home.glob(f"**/{server.id}"))
    groups = Path(json.loads((directory / "vdu.json").read_text())["cgroup"])
    os.kill(json.loads((directory / "run.json").read_text())["keeper"][0], signal.SIGKILL)
    wait_until(lambda: not cgroups.pids(groups), "all its processes end")
    now = vim.server(server.id)
    assert (now.status, now.fault) == ("ERROR", "the process that runs it was killed")
    with pytest.raises(VimError, match="not running"):
        vim.console(server.id, ["true"])
    vim.start(server.id)
    assert vim.wait_active(server.id, 60).status == "ACTIVE"
    vim.delete_tag("unkept")
    assert (groups.exists(), directory.exists()) == (False, False)


def test_link_local_addresses_do_not_answer_on_management(vim: Vim, pair: list[Server]) -> None:
    """Servers of all services are there; on a service's own network they do."""
    command = "ip -6 -br address show dev {0} scope link; ping -6 -c 3 -i 0.2 -W 1 -I {0} {1}"
    answers = {}
    for place, interface in enumerate(("ens3", "ens4")):
        target = link_local(pair[1].ports[place].mac)
        done = vim.console(pair[0].id, ["sh", "-c", command.format(interface, target)])
        assert "fe80::" in done.stdout
        answers[interface] = done.returncode == 0
    assert answers == {"ens3": False, "ens4": True}


def test_anti_spoofing(vim: Vim, pair: list[Server]) -> None:
    guarded, open_port = pair
    for server in pair:
        output(vim, server, "ip", "address", "add", f"10.77.0.{100 + pair.index(server)}/24",
               "dev", "ens4")  # fmt: skip
    # A foreign source address leaves the port without port security only.
    assert pings(vim, open_port, "10.77.0.10", source="10.77.0.101")
    assert not pings(vim, guarded, "10.77.0.20", source="10.77.0.100")
    # So does a foreign MAC address, though its IP address is the port's own.
    own = next(port for port in guarded.ports if port.interface == "ens4")
    assert pings(vim, guarded, "10.77.0.20")
    output(vim, guarded, "ip", "link", "set", "ens4", "address", "02:00:00:00:00:99")
    assert not pings(vim, guarded, "10.77.0.20")
    output(vim, guarded, "ip", "link", "set", "ens4", "address", own.mac)
    assert pings(vim, guarded, "10.77.0.20")


def test_wireguard_unit(vim: Vim, pair: list[Server], tmp_path: Path) -> None:
    keys = {}
    for server in pair:
        private = output(vim, server, "wg", "genkey")
        public = vim.console(server.id, ["wg", "pubkey"], input=private).stdout.strip()
        keys[server.id] = (private, public)
    for index, server in enumerate(pair):
        other = pair[1 - index]
        text = (
            f"[Interface]\nAddress = 10.99.0.{index + 1}/30\nListenPort = 51820\n"
            f"PrivateKey = {keys[server.id][0]}\n[Peer]\nPublicKey = {keys[other.id][1]}\n"
            f"AllowedIPs = 10.99.0.{2 - index}/32\nEndpoint = 10.77.0.{20 - 10 * index}:51820\n"
        )
        vim.console(server.id, ["tee", "/etc/wireguard/wg-test.conf"], input=text)
        done = vim.console(server.id, ["systemctl", "enable", "--now", "wg-quick@wg-test"])
        assert done.returncode == 0, done.stderr + output(
            vim, server, "journalctl", "--no-pager", "-u", "wg-quick@wg-test"
        )
    data = next(network for network in vim.networks() if network.name == "data")
    pcap = tmp_path / "wire.pcap"
    missing = tmp_path / "none" / "wire.pcap"
    with pytest.raises(VimError, match=f"^{missing}: {missing.parent} is no folder$"):
        vim.capture(data.id, missing).__enter__()
    with vim.capture(data.id, pcap):
        assert pings(vim, pair[0], "10.99.0.2", 3)
    shown = subprocess.run(
        ["tcpdump", "-n", "-r", str(pcap)], capture_output=True, text=True, check=True
    )
    frames = [line for line in shown.stdout.splitlines() if " IP " in line]
    assert len(frames) >= 6
    assert all(".51820: UDP" in line for line in frames)
    link = output(vim, pair[0], "ip", "-d", "link", "show", "wg-test")
    assert ("wireguard" in link) == (probe().backend == "kernel")
    # The enabled unit brings the tunnel back after a restart.
    vim.reboot(pair[0].id)
    vim.wait_active(pair[0].id, 60)
    wait_until(lambda: pings(vim, pair[0], "10.99.0.2", 1), "tunnel after the restart")


def test_hosts_join_a_network_while_they_are_wanted(vim: Vim, pair: list[Server]) -> None:
    data = pair[0].ports[1].network_id
    before = set(netns_names(vim.home.prefix))
    with vim.host(data) as (first, address), vim.host(data) as (second, other):
        assert (address, other) == ("10.77.0.254/24", "10.77.0.253/24")
        for words, target in ((first, "10.77.0.10"), (second, "10.77.0.254")):
            subprocess.run([*words, *ping_command(target, 5)], check=True)
        # What is left running does not keep the host, as a wireguard-go would.
        left = subprocess.Popen([*first, "sleep", "600"])
    assert left.wait(10) == -signal.SIGTERM
    wait_until(lambda: set(netns_names(vim.home.prefix)) == before, "end of the hosts")


def test_services_that_start_together_share_one_network(vim: Vim) -> None:
    """Two slices with a shared service ask for its network at the same moment."""
    spec = NetworkSpec("s6a", "10.60.0.0/24")
    for _ in range(5):
        with ThreadPoolExecutor(8) as pool:
            made = list(pool.map(lambda _: vim.create_network(spec, "all", once=True), range(8)))
        assert len({network.id for network in made}) == 1
        vim.delete_tag("all")


def test_equal_ranges_of_two_services_do_not_meet(
    vim: Vim, boot: Boot, spec: Callable[..., ServerSpec]
) -> None:
    servers = []
    for tag in ("ns-1", "ns-2"):
        network = vim.create_network(NetworkSpec("s6a", "10.50.0.0/24"), tag)
        port = PortSpec(network.id, ip="10.50.0.5")
        servers.append(vim.create_server(spec(tag, port), tag))
    for server in servers:
        vim.wait_active(server.id, 60)
    lonely = vim.create_network(NetworkSpec("s6a", "10.50.0.0/24"), "ns-1")
    assert lonely.subnet == "10.50.0.0/24"
    first, second = servers
    assert pings(vim, first, "10.50.0.5", 1)  # its own
    output(vim, second, "ip", "address", "add", "10.50.0.6/24", "dev", "ens4")
    assert not pings(vim, first, "10.50.0.6", 1)
    assert {server.id for server in vim.servers("ns-1")} == {first.id}
    vim.delete_tag("ns-1")
    assert vim.servers("ns-1") == []
    assert [n.tag for n in vim.networks() if n.name == "s6a"] == ["ns-2"]
    assert pings(vim, second, "10.50.0.5", 1)
    vim.delete_tag("ns-2")
    vim.delete_tag("ns-2")  # nothing left: nothing happens
