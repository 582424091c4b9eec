"""Our IPsec configuration on a kernel's own ESP: strongSwan's kernel-netlink in User-mode Linux.

Two namespaces of a guest are the two VDUs; files are what the charm's pure core renders.
"""

from __future__ import annotations

import ipaddress
import json
import re
import subprocess
from pathlib import Path

import pytest
from support import uml
from vpnaas import ipsec
from vpnaas.intent import LinkParams, link_params
from vpnaas.steps import Results
from vpnaas.tunnel import Peer

pytestmark = [pytest.mark.lab, pytest.mark.uml]

OUTER = {"left": "192.168.8.1", "right": "192.168.8.2"}
INNER = {"left": "172.16.6.1", "right": "172.16.6.2"}

PROGRAM = """
import json
import os
import subprocess
import time

HERE = os.getcwd()


def run(*words, check=True, **more):
    more = dict(more, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    done = subprocess.run(words, **more)
    if check and done.returncode:
        raise SystemExit(" ".join(words) + ": " + done.stdout)
    return done.stdout


def within(name, *words, **more):
    files = HERE + "/" + name
    environ = dict(
        os.environ,
        STRONGSWAN_CONF=files + "/strongswan.conf",
        SWANCTL_DIR=files + "/swanctl",
    )
    return run("ip", "netns", "exec", name, *words, env=environ, **more)


def swanctl(name, *words, **more):
    return within(name, "swanctl", *words, "--uri", "unix:///run/" + name + ".vici", **more)


run("modprobe", "tun")
os.makedirs("/dev/net", exist_ok=True)
if not os.path.exists("/dev/net/tun"):
    os.mknod("/dev/net/tun", 0o20666, os.makedev(10, 200))
outer = json.load(open("outer.json"))
for name in outer:
    run("ip", "netns", "add", name)
    within(name, "ip", "link", "set", "lo", "up")
# A wire between them, to listen on: at an end, what ESP has opened would be heard as well.
run("ip", "netns", "add", "wire")
run("ip", "-n", "wire", "link", "add", "wire0", "type", "bridge")
run("ip", "-n", "wire", "link", "set", "wire0", "up")
for name in outer:
    run("ip", "link", "add", name + "0", "netns", name, "type", "veth",
        "peer", "name", name + "1", "netns", "wire")
    run("ip", "-n", "wire", "link", "set", name + "1", "master", "wire0", "up")
daemons = {}
for name, address in outer.items():
    within(name, "ip", "address", "add", address + "/24", "dev", name + "0")
    within(name, "ip", "link", "set", name + "0", "up")
    within(name, "ip", "-batch", HERE + "/" + name + "/ipsec.up")
    environ = dict(os.environ, STRONGSWAN_CONF=HERE + "/" + name + "/strongswan.conf")
    with open(name + "/log", "w") as log:
        daemons[name] = subprocess.Popen(
            ["ip", "netns", "exec", name, "/usr/sbin/charon-systemd"],
            env=environ, stdout=log, stderr=log,
        )
for name in outer:
    until = time.monotonic() + 120
    while not os.path.exists("/run/" + name + ".vici"):
        if time.monotonic() > until or daemons[name].poll() is not None:
            raise SystemExit(name + ": no daemon: " + open(name + "/log").read()[-2000:])
        time.sleep(0.2)
    swanctl(name, "--load-creds", "--noprompt")
    swanctl(name, "--load-conns")
told = {"plugins": swanctl("left", "--stats", "--raw")}
name = json.load(open("name.json"))
sniff = subprocess.Popen(
    ["ip", "netns", "exec", "wire", "tcpdump", "-q", "-nn", "-U", "-Z", "root", "-i", "wire0",
     "-w", HERE + "/pcap"], stderr=subprocess.DEVNULL,
)
time.sleep(2)
told["initiate"] = swanctl("left", "--initiate", "--ike", name, "--child", "s6a", check=False)
told["ping"] = within(
    "left", "ping", "-n", "-c", "20", "-Q", "0xb8", "-i", "0.05",
    "-p", b"esp-in-the-kernel".hex()[:32],
    "172.16.6.2", check=False,
)
told["sas"] = swanctl("left", "--list-sas", "--raw")
told["states"] = within("left", "ip", "-s", "xfrm", "state")
swanctl("left", "--rekey", "--child", "s6a")
time.sleep(2)
told["after"] = within("left", "ping", "-n", "-q", "-c", "5", "172.16.6.2", check=False)
told["rekeyed"] = swanctl("left", "--list-sas", "--raw")
swanctl("left", "--terminate", "--ike", name, check=False)
told["down"] = within("left", "ping", "-n", "-q", "-c", "2", "-W", "1", "-i", "0.2",
                      "-p", b"esp-in-the-kernel".hex()[:32], "172.16.6.2", check=False)
# The other configuration: opened by the first packet, ESP in UDP though no NAT is there.
os.rename("left/trap.conf", "left/swanctl/conf.d/osm-vpnaas-s6a.conf")
swanctl("left", "--load-conns")
told["trapped"] = within(
    "left", "ping", "-n", "-q", "-c", "5", "-W", "5", "-Q", "0xb8", "172.16.6.2", check=False
)
told["in-udp"] = swanctl("left", "--list-sas", "--raw")
time.sleep(1)
sniff.terminate()
sniff.wait()
for daemon in daemons.values():
    daemon.terminate()
json.dump(told, open("told.json", "w"))
"""


def end(
    name: str, other: str, keys: dict[str, str], options: str = "esn=yes,replay-window=256"
) -> tuple[ipsec.Wanted, ipsec.State]:
    """Return what one end wants, with extended sequence numbers demanded."""
    params: LinkParams = link_params(
        {
            "link": "s6a",
            "technology": "ipsec",
            "inner-address": f"{INNER[name]}/24",
            "ipsec-options": options,
        }
    )
    peer = Peer(
        name="rel-1",
        label=other,
        prefixes=(ipaddress.ip_network(INNER[other]),),
        technology="ipsec",
        inner_address=ipaddress.ip_address(INNER[other]),
        public_key=keys[other],
        identity=f"s6a-{other}",
        endpoint=(ipaddress.ip_address(OUTER[other]), 4500),
    )
    wanted = ipsec.Wanted(
        params=params,
        mtu=1400,
        tun_mtu=1400,
        peers=(peer,),
        underlay=(ipaddress.ip_address(OUTER[name]),),
        initiates=frozenset(["rel-1"]) if name == "left" else frozenset(),
    )
    state = ipsec.State(
        public_key=keys[name],
        next_public_key="",
        generation=1,
        applied=(),
        identity=f"s6a-{name}",
        plane=ipsec.POLICY,
        running=True,
        daemon_plane=True,
        enabled=True,
        files={},
        loaded=frozenset(),
        sas=(),
        interface=None,
        routes=frozenset(),
    )
    return wanted, state


def key_pair(path: Path) -> str:
    """Make a key the way the charm has it made; return its public half."""
    subprocess.run([*ipsec.GENERATE, "-out", str(path)], check=True)
    words = ["openssl", "pkey", "-in", str(path), "-pubout"]
    return ipsec.public_key(
        subprocess.run(words, capture_output=True, text=True, check=True).stdout
    )


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("uml")
    keys = {}
    for name in OUTER:
        for part in ("conf.d", "private"):
            (folder / name / "swanctl" / part).mkdir(parents=True)
        keys[name] = key_pair(folder / name / "swanctl/private/osm-vpnaas-s6a.pem")
    for name, other in (("left", "right"), ("right", "left")):
        wanted, state = end(name, other, keys)
        if name == "left":
            ((connection,),) = ipsec.connections(wanted, state).values()
            (folder / "name.json").write_text(json.dumps(connection.name))
            trap = ipsec.render(*end(name, other, keys, "esn=yes,start=trap,encap=yes"))
            (folder / name / "trap.conf").write_text(trap)
        files = {
            "swanctl/swanctl.conf": "include conf.d/*.conf\n",
            "swanctl/conf.d/osm-vpnaas-s6a.conf": ipsec.render(wanted, state),
            "ipsec.up": ipsec.render_up(wanted, state.plane),
            "osm-vpnaas.conf": ipsec.daemon_conf(state.plane),
            "strongswan.conf": (
                "charon {\n  load_modular = yes\n  plugins {\n"
                "    include /etc/strongswan.d/charon/*.conf\n"
                f"    vici {{\n      socket = unix:///run/{name}.vici\n    }}\n  }}\n"
                f"  piddir = /run/{name}\n  filelog {{\n    log {{\n"
                f"      path = {folder}/{name}/charon.log\n    }}\n  }}\n}}\n"
                f"include {folder}/{name}/osm-vpnaas.conf\n"
            ),
        }
        for path, text in files.items():
            (folder / name / path).write_text(text, encoding="utf-8")
    (folder / "outer.json").write_text(json.dumps(OUTER))
    done = uml.run(folder, PROGRAM, timeout=400)
    assert done.code == 0, done.output
    found: dict[str, str] = json.loads((folder / "told.json").read_text(encoding="utf-8"))
    found["folder"] = str(folder)
    return found


def test_the_kernel_carries_the_packets(told: dict[str, str]) -> None:
    assert "kernel-netlink" in told["plugins"]
    assert "kernel-libipsec" not in told["plugins"]
    assert "20 received" in told["ping"], told["initiate"] + told["ping"]


def test_states_have_extended_sequence_numbers_and_the_window(told: dict[str, str]) -> None:
    states = told["states"]
    assert len(re.findall(r"^src ", states, re.M)) == 2
    keys = re.findall(r"aead rfc4106\(gcm\(aes\)\) 0x([0-9a-f]+) .* 128", states)
    assert [len(key) for key in keys] == [72, 72]  # 256 bits and a salt of 32, RFC 4106
    assert states.count("esn") >= 2
    assert set(re.findall(r"replay_window (\d+),", states)) >= {"256"}, states
    (sa,) = ipsec.parse_sas("s6a", _results(told["sas"]))
    (child,) = sa.children
    assert (child.cipher, child.esn, child.encap) == ("AES_GCM_16-256", True, False)
    assert child.sent > 0


def test_a_child_is_rekeyed_without_loss(told: dict[str, str]) -> None:
    (before,) = ipsec.parse_sas("s6a", _results(told["sas"]))
    (after,) = ipsec.parse_sas("s6a", _results(told["rekeyed"]))
    assert "5 received" in told["after"]
    assert after.id == before.id
    assert after.up


def test_only_ike_and_esp_were_on_the_wire_even_without_a_tunnel(told: dict[str, str]) -> None:
    assert "0 received" in told["down"]
    pcap = Path(told["folder"]) / "pcap"

    def count(expression: str) -> int:
        words = ["tcpdump", "-nn", "-r", str(pcap), expression]
        return len(
            subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
        )

    assert count("ip proto 50") >= 40
    assert count("udp port 4500 and udp[8:4] != 0") >= 8  # not IKE's marker, RFC 3948
    assert count("udp port 4500") >= 4
    assert count("not ip proto 50 and not udp port 4500 and not arp and not icmp6") == 0
    assert b"esp-in-the-kerne" not in pcap.read_bytes()


def test_the_first_packet_opens_a_trapped_tunnel_and_esp_can_be_forced_into_udp(
    told: dict[str, str],
) -> None:
    # The packet that opens it is lost.
    assert re.search(r" [45] received", told["trapped"]), told["trapped"]
    (sa,) = ipsec.parse_sas("s6a", _results(told["in-udp"]))
    (child,) = sa.children
    assert (child.esn, child.encap) == (True, True)


def test_the_outer_header_has_the_dscp_of_the_inner_one(told: dict[str, str]) -> None:
    words = ["tcpdump", "-nn", "-r", f"{told['folder']}/pcap"]
    for kind in ("ip proto 50", "udp port 4500"):
        listed = subprocess.run(
            [*words, f"{kind} and ip[1] & 0xfc = 0xb8"], capture_output=True, text=True, check=True
        )
        assert len(listed.stdout.splitlines()) >= 8


def _results(text: str) -> Results:
    return Results({"ipsec/sas": {"code": 0, "out": text}})
