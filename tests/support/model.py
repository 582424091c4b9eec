"""A model of VDUs at the level of steps, to run the pure reconcile thousands of times.

It interprets the same steps the agent executes: files, `wg`, `ip`, `systemctl`, `openssl`, `ping`,
with the effects that matter. It is no substitute for the lab, where the same plans meet real
programs; it makes order, duplication and loss of events cheap to explore.
"""

from __future__ import annotations

import base64
import contextlib
import fnmatch
import io
import ipaddress
import json
import re
import shlex
import tempfile
from pathlib import Path

from vpnaas.tunnels.ipsec.names import PROGRAM, interface_id
from vpnaas.vdu.programs import kem, source
from vpnaas.vdu.programs.charon import is_ours
from vpnaas.vdu.steps import Broken, Results, Step

from support import reading
from support.authority import OpenSsl
from support.model_charon import Charon
from support.model_world import PlainInterface, WgInterface, WgPeer, World, public_of, spki


def _detail(kind: str) -> dict[str, object]:
    return {"linkinfo": {"info_kind": kind}}


class ModelVdu:
    """One VDU."""

    esp = False
    """Whether the kernel has ESP and XFRM interfaces."""
    nic_mtu = 1500
    has_kem = True
    """Whether its Python has ML-KEM."""

    def __init__(self, world: World, underlay: dict[str, str]) -> None:
        self.world = world
        self.underlay = underlay
        self.files: dict[str, str] = {}
        self.interfaces: dict[str, WgInterface] = {}
        self.enabled: set[str] = set()
        self.active: set[str] = set()
        self.commands: list[list[str]] = []
        #: Units as systemd has them: it reads a file once.
        self.units_read: dict[str, str] = {}
        self.guard = ""
        self.firewall = ""
        self.devices = ""
        self.sysctl = {"net.ipv4.ip_forward": "0"}
        self.fail_on: str | None = None
        self.steps_left: int | None = None
        """After so many steps it dies in the middle of a reconcile; None is never."""
        self.round_trips = 0
        self.plain: dict[str, PlainInterface] = {}
        self.login = ""
        """Address from which the charm logs in, "" if sshd does not tell."""
        self.default = next(iter(underlay))
        """Interface of the default route, "" without one."""
        self.routes: list[dict[str, str]] = []
        """Beyond those of tunnels, as `ip -j route show` prints them."""
        self.pings: dict[str, tuple[int, str]] = {}
        """Exit code and output of a ping with Don't Fragment, by address; else nobody answers."""
        self.listening: dict[str, str] = {}
        """What a socket unit listens at since it was started, as `ss -Hltn` prints it."""
        self.taken: dict[int, str] = {}
        """Who has a UDP port that a tunnel may want."""
        self.listeners: dict[str, str] = {}
        """Lines of `ss -Hltnp` by TCP port."""
        self.journal = ""
        self.queue = "qdisc noqueue 0: dev ens4 root refcnt 2\n"
        """What `tc qdisc show` prints while we shape nothing."""
        self.chains: list[dict[str, str]] = []
        """Of its firewalls, as `nft -j list chains` prints them."""
        self.drops: list[dict[str, object]] = []
        """Rules of its firewalls, as `nft -j list ruleset` prints them."""
        self.ways: dict[str, str] = {}
        """Interface to an address, "" where a route or rule refuses it; else none is known."""
        self.flags: dict[str, list[str]] = {}
        """Flags of an interface, as `ip -j link show` prints them; else it is up."""
        self.rules: set[tuple[str, int, str]] = set()
        """Rules of its routing tables: source, priority and table."""
        self.machine = "a machine"
        self.charon = Charon(self)
        world.vdus.append(self)

    def execute(self, steps: list[Step]) -> Results:
        self.round_trips += 1
        names = [step.id for step in steps]
        assert len(names) == len(set(names)), "step ids repeat, which the agent refuses"
        results: dict[str, dict[str, object]] = {}
        broken: dict[str, Broken] = {}
        for step in steps:
            body = dict(step.body)
            if self.steps_left is not None:
                self.steps_left -= 1
                if self.steps_left < 0:
                    return Results(results, "died on purpose")
            cause = broken.get(step.part) or broken.get(step.needs)
            try:
                if self.fail_on and self.fail_on in step.id and cause is None:
                    raise RuntimeError(f"{step.id} failed on purpose")
                if cause is None:
                    results[step.id] = getattr(self, "_" + str(body["do"]))(body)
            except RuntimeError as error:
                if not step.part:
                    return Results(results, str(error), broken)
                cause = Broken(step, str(error))
            if cause is not None:
                broken[step.part] = cause
        return Results(results, None, broken)

    def reboot(self) -> None:
        self.interfaces.clear()
        self.plain.clear()
        self.rules.clear()
        self.charon.stop()
        self.active.clear()
        self.listening.clear()
        self.guard = self.firewall = ""
        for path in [path for path in self.files if path.startswith("/run/")]:
            del self.files[path]
        for unit in sorted(self.enabled):
            self._systemctl(["restart", unit])

    # Steps

    def _write(self, body):
        changed = self.files.get(body["path"]) != body["text"]
        self.files[body["path"]] = body["text"]
        return {"changed": changed}

    def _read(self, body):
        return reading.read(self.files, body)

    def _remove(self, body):
        return {"changed": reading.remove(self.files, body)}

    def _move(self, body):
        if body["source"] not in self.files:
            raise RuntimeError(f"{body['source']} does not exist")
        self.files[body["path"]] = self.files.pop(body["source"])
        return {"changed": True}

    def _directory(self, body):
        return {}

    def _authorize(self, body):
        return {"changed": False}

    def _machine(self, body):
        if not any(fnmatch.fnmatch(path, body["left"][0] + "*") for path in self.files):
            self.files.setdefault(body["path"], self.machine)
        ours = self.files.get(body["path"]) == self.machine
        return {"text": self.machine if ours else None}

    def _which(self, body):
        return {"found": {name: f"/usr/bin/{name}" for name in body["names"]}}

    def _run(self, body):
        if body.get("unless") and body["unless"] in self.files:
            return {"skipped": True}
        if body.get("only_if") and body["only_if"] not in self.files:
            return {"skipped": True}
        argv = body["argv"]
        assert all(isinstance(word, str) for word in argv)
        assert not argv[0].startswith("/usr/local/"), "it may be mounted noexec"
        self.commands.append(argv)
        text = body.get("stdin", "")
        if body.get("stdin_file"):
            if body["stdin_file"] not in self.files:
                raise RuntimeError(f"{body['stdin_file']} does not exist")
            text = self.files[body["stdin_file"]]
        done = getattr(self, "_cmd_" + argv[0].split("/")[-1].replace("-", "_"))(argv, text)
        code, out, error = done if len(done) == 3 else (*done, "")
        if code and not body["any_exit"]:
            raise RuntimeError(" ".join(argv[:3]))
        if body.get("stdout_file"):
            if code == 0:
                self.files[body["stdout_file"]] = out
            out = ""
        if body.get("pick"):
            out = "\n".join(re.findall(body["pick"], out, re.M))
        return {"code": code, "out": out, "err": error}

    # Programs

    def _cmd_date(self, argv, text):
        return 0, f"{self.world.clock}\n"

    def _cmd_printenv(self, argv, text):
        assert argv[1:] == ["SSH_CONNECTION"]
        return (0, f"{self.login} 50412 10.0.0.1 22\n") if self.login else (1, "")

    def _cmd_cat(self, argv, text):
        there = [path for path in argv[1:] if path in self.files]
        return (0 if there == argv[1:] else 1), "".join(self.files[path] for path in there)

    def _cmd_true(self, argv, text):
        return 0, ""

    def _cmd_nproc(self, argv, text):
        return 0, "2\n"

    def _cmd_ls(self, argv, text):
        folders = [folder + "/" for folder in argv[1:]]
        paths = [path for path in self.files if path.startswith(tuple(folders))]
        return 0, "".join(path.rpartition("/")[2] + "\n" for path in paths)

    def _cmd_rm(self, argv, text):
        self.files.pop(argv[-1], None)
        return 0, ""

    def _cmd_find(self, argv, text):
        if argv[-1] == "-delete":
            _, folder, _, name, _ = argv
            for path in fnmatch.filter(self.files, folder + "/" + name):
                del self.files[path]
            return 0, ""
        assert argv[-1] == "-writable"
        paths = ["/proc/sys/" + name.replace(".", "/") for name in self.sysctl]
        return 0, "\n".join(path for path in argv[1:-1] if path in paths)

    def _cmd_sysctl(self, argv, text):
        if "-p" in argv:
            for line in self.files[argv[-1]].splitlines():
                name, _, value = (part.strip() for part in line.partition("="))
                if name in self.sysctl:
                    self.sysctl[name] = value
        return 0, "".join(f"{n} = {v}\n" for n, v in self.sysctl.items() if n in argv)

    def _cmd_tc(self, argv, text):
        if "osm-vpnaas-qos.service" not in self.active:
            return 0, self.queue
        devices = {line.split()[3] for line in self.files["/etc/osm-vpnaas/qos.tc"].splitlines()}
        return 0, "".join(
            f"qdisc htb 5c1e: dev {name} root refcnt 2 r2q 10 default 0x2\n" for name in devices
        )

    def _cmd_nft(self, argv, text):
        if argv[1:] == ["-j", "list", "chains"]:
            return 0, json.dumps({"nftables": [{"chain": chain} for chain in self.chains]})
        if argv[1:] == ["-j", "list", "ruleset"]:
            chains = [{"chain": chain} for chain in self.chains]
            return 0, json.dumps({"nftables": [*chains, *self.drops]})
        if "osm_vpnaas_qos" in argv:
            return (0 if "osm-vpnaas-qos.service" in self.active else 1), ""
        if "gateway" in argv[-1]:
            if argv[1] in ("-f", "delete"):
                self.firewall = self.files[argv[2]] if argv[1] == "-f" else ""
            return (0 if self.firewall else 1), self.firewall
        if "devices" in argv[-1]:
            if argv[1] in ("-f", "delete"):
                self.devices = self.files[argv[2]] if argv[1] == "-f" else ""
            return (0 if self.devices else 1), self.devices
        if argv[1] == "-f":
            self.guard = self.files[argv[2]]
        elif argv[1] == "delete":
            self.guard = ""
        return (0 if self.guard else 1), self.guard

    def _cmd_mv(self, argv, text):
        self.files[argv[2]] = self.files.pop(argv[1])
        return 0, ""

    def _cmd_ping(self, argv, text):
        return self.pings.get(argv[-1], (1, ""))

    def _cmd_systemd_run(self, argv, text):
        prefix = "--property=RuntimeDirectory="
        for word in argv:
            if word.startswith(prefix):
                self.files["/run/" + word[len(prefix) :]] = ""
        return 0, ""

    def _cmd_env(self, argv, text):
        words = argv[1:]
        while "=" in words[0]:
            words = words[1:]
        return self._cmd_openssl(words, text)

    def _cmd_python3(self, argv, text):
        if argv[1:3] == list(PROGRAM[1:]):
            return self._ipsec(argv[3:])
        if argv[1:4] == ["-I", "-c", source("est.py")]:
            return self.world.est(self, argv[4:])
        if argv[1:4] == ["-I", "-c", source("echo.py")]:
            return 0, json.dumps(
                {
                    name: [5, *([5, 1.5] if self.world.ping(self, given[0]) else [0, None]), False]
                    for name, given in json.loads(text).items()
                }
            )
        if argv[1:4] == ["-I", "-c", source("forget.py")]:
            return self._forget(argv[4])
        return self._hybrid(argv, text)

    def _forget(self, what):
        """Do roughly as the program does; a test of its own runs it."""
        stays = () if what == "all" else ("/etc/osm-vpnaas/machine", "/var/lib/osm-vpnaas/")
        for path in [path for path in self.files if "/osm-vpnaas" in path or "/wg-" in path]:
            if not path.startswith(("/etc/sysctl.d/99-zz-osm-vpnaas.conf", *stays)):
                del self.files[path]
        if what == "all":
            self.files["/etc/osm-vpnaas/machine"] = self.machine
        self.interfaces.clear()
        self.enabled.clear()
        self.active.clear()
        self.guard = self.firewall = self.devices = ""
        return 0, ""

    def _hybrid(self, argv, text):
        """Run the program of hybrid keys on copies of the files it names."""
        assert argv[1:4] == ["-I", "-c", source("kem.py")]
        if not self.has_kem:
            return kem.NO_LIBRARY, ""
        output = io.StringIO()
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(output):
            copies = {path: Path(folder, str(index)) for index, path in enumerate(argv[5:])}
            for path, copy in copies.items():
                if path in self.files:
                    copy.write_bytes(self.files[path].encode("latin-1"))
            try:
                words = [argv[4], *map(str, copies.values())]
                code = kem.main(words, io.StringIO(text), kem.library())
            except (ValueError, OSError) as error:
                return 1, "", str(error)
            for path, copy in copies.items():
                if copy.exists():
                    self.files[path] = copy.read_bytes().decode("latin-1")
        return code, output.getvalue()

    def _cmd_openssl(self, argv, text):
        if argv[1] == "cmp":
            return self.world.cmp(self, argv)
        if argv[1] in ("req", "ca", "verify"):
            return OpenSsl(self.files, spki, lambda: self.world.clock).run(argv)
        if argv[1] == "rand":
            secret = self.world.secret()
            return 0, (secret if "-base64" in argv else base64.b64decode(secret)[:8].hex()) + "\n"
        if argv[1] == "genpkey" and "ED25519" in argv:
            return 0, f"ED25519 {self.world.secret()}"
        if argv[1] == "genpkey" and "EC" in argv:
            assert argv[-1] == "ec_paramgen_curve:P-256"
            return 0, f"P-256 {self.world.secret()}"
        if argv[1] == "genpkey":
            return 0, f"PRIVATE {self.world.secret()}"
        if argv[1] == "pkey" and "-in" in argv:
            text = self.files[argv[argv.index("-in") + 1]]
        if argv[1] == "pkey" and text.startswith(("ED25519 ", "P-256 ")):
            raw = spki(text)
            return 0, f"-----BEGIN\n{base64.b64encode(raw).decode()}\n-----END\n"
        if argv[1] == "pkey":
            head = b"0\x82\x01\xa20\r\x06\t*\x86H\x86\xf7\r\x01\x01\x01\x05\x00"
            body = head + text.encode().ljust(300, b"=")
            return 0, f"-----BEGIN\n{base64.b64encode(body).decode()}\n-----END\n"
        if argv[1] == "base64" and "-d" in argv:
            self.files[argv[argv.index("-out") + 1]] = text
            return 0, ""
        if argv[1] == "base64":
            return 0, self.files[argv[-1]]
        key = self.files[argv[argv.index("-inkey") + 1]]
        if "-encrypt" in argv:
            armour = "".join(line for line in key.splitlines() if not line.startswith("-"))
            sealed = b"FOR " + base64.b64decode(armour)[19:] + b" " + text.encode()
            return 0, base64.b64encode(sealed).decode()
        cipher = self.files[argv[argv.index("-in") + 1]]
        sealed = base64.b64decode(cipher)
        owner = sealed[4:].split(b" ", 2)
        if not sealed.startswith(b"FOR PRIVATE ") or owner[1].rstrip(b"=") not in key.encode():
            return 1, ""
        return 0, owner[2].decode()

    def _cmd_grep(self, argv, text):
        assert argv[1:5] == ["-z", "-q", "-x", "-E"]
        return (0 if re.fullmatch(argv[5].replace("[[:space:]]", r"\s"), text) else 1), ""

    def _cmd_sed(self, argv, text):
        # The one script there is: the first line, if all of it is a key.
        assert argv[2].endswith("secret = 0s\\1/p;1q")
        match = re.fullmatch(r"[A-Za-z0-9+/]{43}=", text.split("\n")[0])
        return 0, f"secret = 0s{match.group()}\n" if match else ""

    def _cmd_swanctl(self, argv, text):
        return self.charon.swanctl(argv[1:])

    def _ipsec(self, argv):
        if argv[0] == "load":
            return self.charon.swanctl(["--load-conns"])
        if argv[0] == "lost":
            return 0, "".join(f"{sa.id}\n" for sa in self.charon.sas if sa.lost)
        assert argv[0] == "drop"
        for sa in [sa for sa in self.charon.sas if is_ours(sa.name, argv[1])]:
            self.charon.end(sa)
        return 0, ""

    def _cmd_ss(self, argv, text):
        if argv[1] == "-Hlunp":
            return 0, "".join(
                f"UNCONN 0 0 0.0.0.0:{port} 0.0.0.0:* "
                + (f'users:(("{owner}",pid=7,fd=3))\n' if owner else "\n")
                for port, owner in self.sockets().items()
                if f":{port} " in argv[2] + " "
            )
        assert argv[1] == "-Hltnp"
        port = argv[2].rpartition(":")[2]
        ours = "".join(self.listening.values()) if port == "5199" else ""
        return 0, ours + self.listeners.get(port, "")

    def sockets(self) -> dict[int, str]:
        """Return who has which UDP port."""
        ike = dict.fromkeys((500, 4500), "charon-systemd") if self.charon.running else {}
        return {**ike, **self.taken}

    def _cmd_journalctl(self, argv, text):
        return 0, self.journal

    def _cmd_systemctl(self, argv, text):
        words = [word for word in argv[1:] if not word.startswith("--")]
        if words[0] == "daemon-reload" or (
            words[0] in ("enable", "disable") and "--no-reload" not in argv
        ):
            self.units_read.clear()
        return self._systemctl(words, "--now" in argv)

    def _systemctl(self, words, now=False):
        verb = words[0]
        if verb == "daemon-reload":
            return 0, ""
        if verb in ("enable", "restart") and len(words) > 2:
            for name in words[1:]:
                self._systemctl([verb, name], now)
            return 0, ""
        if verb == "is-active" and len(words) > 2:
            states = ["active" if name in self.active else "inactive" for name in words[1:]]
            return (3 if "inactive" in states else 0), "\n".join(states) + "\n"
        unit = words[1]
        if verb == "is-enabled":
            states = ["enabled" if name in self.enabled else "disabled" for name in words[1:]]
            return (1 if "disabled" in states else 0), "\n".join(states) + "\n"
        if verb == "is-active":
            return (0, "active\n") if unit in self.active else (3, "inactive\n")
        if verb == "enable":
            self.enabled.add(unit)
        if verb == "disable":
            self.enabled.discard(unit)
        if verb in ("restart", "start") or (verb == "enable" and now):
            self.active.add(unit)
            if unit == "osm-vpnaas-guard.service":
                self.guard = self.files["/etc/osm-vpnaas/guard.nft"]
            if unit == "osm-vpnaas-gateway.service":
                self.firewall = self.files["/etc/osm-vpnaas/gateway.nft"]
            if unit.startswith("wg-quick@"):
                self._wg_quick_up(unit[len("wg-quick@") : -len(".service")])
            if unit.startswith("osm-vpnaas-ipsec@"):
                self._ipsec_up(unit[len("osm-vpnaas-ipsec@") : -len(".service")])
            if unit == "strongswan.service":
                self.charon.start()
            if unit.endswith(".socket"):
                text = self.units_read.setdefault(unit, self.files["/etc/systemd/system/" + unit])
                ((address, port),) = re.findall(r"^ListenStream=(.*):(\d+)$", text, re.M)
                (device,) = re.findall(r"^BindToDevice=(.*)$", text, re.M)
                line = f"LISTEN 0 128 {address}%{device}:{port} 0.0.0.0:*\n"
                self.listening.update({} if port in self.listeners else {unit: line})
        if verb == "stop" or (verb == "disable" and now):
            self.active.discard(unit)
            self.listening.pop(unit, None)
            self.files.pop("/run/" + unit[: -len(".service")], None)
            if unit.startswith("wg-quick@"):
                self.interfaces.pop(unit[len("wg-quick@") : -len(".service")], None)
            if unit.startswith("osm-vpnaas-ipsec@"):
                self.plain.pop("xf-" + unit[len("osm-vpnaas-ipsec@") : -len(".service")], None)
        return 0, ""

    def _ipsec_up(self, link):
        made = PlainInterface()
        for line in self.files[f"/etc/osm-vpnaas/{link}/ipsec.up"].splitlines():
            words = line.split()
            if words[:2] == ["address", "add"]:
                made.addresses.add(words[2])
            elif words[:2] == ["link", "set"]:
                made.mtu = int(words[4])
            elif words[:2] == ["route", "replace"]:
                (made.own_routes if "table" in words else made.routes).add(words[2])
                if "table" not in words:
                    self._route(words[2])
            elif words[:2] == ["rule", "add"]:
                self.rules.add((words[3], int(words[5]), words[7]))
        self.plain["xf-" + link] = made

    def _wg_quick_up(self, name):
        old = self.interfaces.get(name)
        interface = WgInterface(bounces=old.bounces + 1 if old else 0)
        self.interfaces[name] = interface
        peer = None
        post = []
        for line in self.files[f"/etc/wireguard/{name}.conf"].splitlines():
            key, _, value = (part.strip() for part in line.partition("="))
            if key == "Address":
                interface.addresses.add(value)
            elif key == "ListenPort":
                interface.port = value
            elif key == "MTU":
                interface.mtu = int(value)
            elif key == "PostUp":
                post.append(value.replace("%i", name))
            elif key == "PublicKey":
                peer = interface.peers.setdefault(value, WgPeer())
            elif key == "AllowedIPs":
                peer.allowed = set(value.split(", "))
            elif key == "Endpoint":
                peer.endpoint = value
            elif key == "PersistentKeepalive":
                peer.keepalive = value
        for command in post:
            self._cmd_wg(shlex.split(command), "")

    def _cmd_wg(self, argv, text):
        verb = argv[1]
        if verb in ("genkey", "genpsk"):
            return 0, self.world.secret() + "\n"
        if verb == "pubkey":
            try:
                good = len(base64.b64decode(text.strip(), validate=True)) == 32
            except ValueError:
                good = False
            return (0, public_of(text.strip()) + "\n") if good else (1, "")
        if verb == "show":
            assert argv[2] == "all"
            return 0, "".join(self._wg_show(name, argv[3]) for name in self.interfaces)
        assert verb == "set"
        return self._wg_set(argv[2], argv[3:])

    def _wg_show(self, name, what):
        interface = self.interfaces[name]
        peers = interface.peers.items()
        rows = {
            "public-key": [public_of(interface.private) if interface.private else "(none)"],
            "listen-port": [interface.port],
            "peers": [key for key, _ in peers],
            "endpoints": [f"{key}\t{p.endpoint}" for key, p in peers],
            "allowed-ips": [f"{k}\t{' '.join(sorted(p.allowed)) or '(none)'}" for k, p in peers],
            "latest-handshakes": [f"{key}\t{p.handshake}" for key, p in peers],
            "transfer": [f"{key}\t{p.received}\t0" for key, p in peers],
            "persistent-keepalive": [f"{key}\t{p.keepalive}" for key, p in peers],
        }[what]
        if what == "endpoints":
            # What wg really does: the interface once, and no line of its own without peers.
            return f"{name}\t" + "".join(f"{row}\n" for row in rows)
        return "".join(f"{name}\t{row}\n" for row in rows)

    def _wg_set(self, name, words):
        interface = self.interfaces[name]
        peer = None
        words = list(words)
        while words:
            word = words.pop(0)
            if word == "private-key":
                interface.private = self.files[words.pop(0)].strip()
            elif word == "listen-port":
                interface.port = words.pop(0)
            elif word == "peer":
                key = words.pop(0)
                if words and words[0] == "remove":
                    words.pop(0)
                    interface.peers.pop(key, None)
                else:
                    peer = interface.peers.setdefault(key, WgPeer())
            elif word == "preshared-key":
                path = words.pop(0)
                peer.preshared = "" if path == "/dev/null" else self.files[path].strip()
            elif word == "endpoint":
                peer.endpoint = words.pop(0)
            elif word == "persistent-keepalive":
                value = words.pop(0)
                peer.keepalive = "off" if value == "0" else value
            elif word == "allowed-ips":
                value = words.pop(0)
                peer.allowed = set(value.split(",")) if value else set()
                for other in interface.peers.values():
                    if other is not peer:
                        other.allowed -= peer.allowed
            else:
                raise AssertionError(f"wg set {word}")
        return 0, ""

    def _cmd_ip(self, argv, text):
        words = [word for word in argv[1:] if word not in ("-j", "-d", "-4", "-6")]
        if words[:2] == ["address", "show"]:
            rows = [self._ip_row(name, self.nic_mtu, set(a.split())) for name, a in self._nics()]
            for name, made in self._made():
                kind = "wireguard" if isinstance(made, WgInterface) else made.kind
                row = self._ip_row(name, made.mtu, made.addresses)
                rows.append(dict(row, flags=["UP"] if made.up else [], **_detail(kind)))
            return 0, json.dumps(rows)
        if words[:2] == ["route", "show"]:
            routes = [
                {"dst": route, "dev": name}
                for name, wg in self._made()
                for route in sorted(wg.routes)
            ]
            for name, wg in self._made():
                nets = {str(ipaddress.ip_interface(a).network) for a in wg.addresses if wg.up}
                routes += [
                    {"dst": net, "dev": name, "protocol": "kernel"}
                    for net in sorted(nets - wg.lost)
                    if not net.endswith("/32")
                ]
            routes = self.routes + routes
            if "all" in words:
                number = {n: str(interface_id(n[3:])) for n in self.plain if n.startswith("xf-")}
                routes += [
                    {"dst": dst, "dev": name, "table": number[name]}
                    for name in number
                    for dst in sorted(self.plain[name].own_routes)
                ]
                routes += self.charon.routes()
            if "default" in words:
                routes = [{"dst": "default", "dev": self.default}] if self.default else []
            return 0, json.dumps([] if "-6" in argv else routes)
        if words[:2] == ["route", "get"]:
            way = self.ways.get(words[2])
            return (2, "") if way == "" else (0, json.dumps([{"dev": way}] if way else []))
        if words[:2] == ["rule", "show"]:
            rows = []
            for source, priority, table in sorted(self.rules):
                src, _, length = source.partition("/")
                row = {"src": src, "priority": priority, "table": table}
                rows.append({**row, "srclen": int(length)} if length else row)
            return 0, json.dumps(rows)
        if words[:2] == ["rule", "add"]:
            rest = words[words.index("pref") :]
            self.rules.add(("all", int(rest[1]), rest[3]))
            return 0, ""
        made = dict(self._made())
        if words[:2] == ["xfrm", "state"]:
            return (0 if self.esp else 2), ""
        if words[0] == "link" and words[1] == "add":
            return (0 if self.esp else 2), ""
        if words[0] == "link" and words[1] == "set":
            if words[2] in made and "mtu" in words:
                made[words[2]].mtu = int(words[4])
            if words[2] in made and "up" in words:
                made[words[2]].up = True
        elif words[:2] == ["link", "show"]:
            flags = self.flags.get(words[3], ["BROADCAST", "UP", "LOWER_UP"])
            return 0, json.dumps([{"ifname": words[3], "flags": flags}])
        elif words[0] == "link":
            gone = self.interfaces.pop(words[2], None) or self.plain.pop(words[2], None)
            return (0 if gone else 1), ""
        elif words[0] == "address":
            addresses = made[words[4]].addresses
            (addresses.discard if words[1] == "del" else addresses.add)(words[2])
            if words[1] == "del":
                # As Linux without `promote_secondaries`, where this is its subnet's first address.
                net = ipaddress.ip_interface(words[2]).network
                addresses -= {a for a in addresses if ipaddress.ip_interface(a).network == net}
                if not addresses:
                    made[words[4]].routes.clear()
        elif words[0] == "route":
            if not made[words[4]].up:
                raise RuntimeError("Error: Device for nexthop is not up.")
            routes = made[words[4]].routes
            if "table" in words:
                lost = self.charon.lost_routes
                lost.discard(words[2])
                routes = getattr(made[words[4]], "own_routes", set())
            elif words[1] == "replace":
                self._route(words[2])
            if "kernel" in words:
                routes = set()
                made[words[4]].lost.discard(words[2])
            (routes.add if words[1] == "replace" else routes.discard)(words[2])
        else:
            raise AssertionError(words)
        return 0, ""

    def _route(self, prefix):
        """Replace a route of somebody else, as `ip route replace` does."""
        self.routes = [r for r in self.routes if r["dst"] != prefix or {"metric", "table"} & set(r)]

    def _made(self):
        return [*self.interfaces.items(), *self.plain.items()]

    def _nics(self):
        return self.underlay.items()

    @staticmethod
    def _ip_row(name, mtu, addresses):
        info = []
        for address in sorted(addresses):
            host, _, length = address.partition("/")
            info.append({"family": "inet", "local": host, "prefixlen": int(length)})
        return {"ifname": name, "mtu": mtu, "addr_info": info, "flags": ["UP"]}
