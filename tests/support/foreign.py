"""A gateway of ours and a cell with an IKE daemon of others: libreswan or OpenIKED.

The gateway has the files that the charm's pure core renders for a manual peer. The cell has what
somebody would write by hand. Its daemon comes from the distribution's package, unpacked into a
folder and laid over the machine's /usr for one program, as libreswan and strongSwan exclude each
other as packages.
"""

from __future__ import annotations

import base64
import ipaddress
import subprocess
from dataclasses import dataclass
from pathlib import Path

from vpnaas.base import x509
from vpnaas.params.intent import link_params
from vpnaas.params.ipsec import EXTERNAL, PSK
from vpnaas.peers.peer import Peer
from vpnaas.tunnels.ipsec.configuration import Configuration, render, render_up
from vpnaas.tunnels.ipsec.daemon import daemon_conf
from vpnaas.tunnels.ipsec.names import CERTIFICATE, KEY, PRESHARED, TRUST
from vpnaas.tunnels.ipsec.observed import GENERATE

from support.ends import Daemon, Guest
from support.ends_certs import moved
from support.guest import GuestMachine
from testbed import vdu

LINK = "s1u"
GATEWAY, CELL = "192.168.122.1", "192.168.122.11"
INNER, BEHIND, MME = "172.16.8.2", "10.43.1.0/24", "10.43.1.10"
OURS, THEIRS, STRANGER = "s1u-left", "enb1.ran.example", "enb2.ran.example"
SECRET = base64.b64encode(bytes(range(32))).decode()

PACKAGES = {
    "libreswan": (
        "libreswan", "libcurl3-nss", "libevent-2.1-7", "libevent-core-2.1-7",
        "libevent-pthreads-2.1-7", "libldns3", "libnspr4", "libnss3", "libnss3-tools",
        "libunbound8",
    ),
    "openiked": ("openiked", "libevent-2.1-7"),
}  # fmt: skip
"""Packages of a daemon that an image of a VDU lacks."""


def unpack(daemon: str, folder: Path) -> Path:
    """Fetch a daemon's packages and unpack them; return the folder."""
    (folder / "debs").mkdir(parents=True)
    # As root apt warns that its sandbox user cannot write here.
    words = ["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", *PACKAGES[daemon]]
    subprocess.run(words, cwd=folder / "debs", check=True, capture_output=True)
    for package in sorted((folder / "debs").glob("*.deb")):
        subprocess.run(["dpkg-deb", "-x", str(package), str(folder / "root")], check=True)
    return folder / "root"


@dataclass(frozen=True)
class Profile:
    """How gateway and cell prove themselves, and with which algorithms.

    Attributes:
        credentials: As of `configure`.
        key_type: Of both ends.
        proposal: As of `configure`.
    """

    credentials: str
    key_type: str = "ecdsa-p256"
    proposal: str = "aes256gcm-ecp384"


class Site(Guest):
    """The gateway (left) and the cell (right)."""

    def __init__(self, folder: Path, profile: Profile, machine: GuestMachine | None) -> None:
        super().__init__(folder, {"left": GATEWAY, "right": CELL}, (), machine)
        self.profile = profile
        for name in ("left/swanctl/conf.d", "left/swanctl/private", "left/swanctl/x509ca", "right"):
            (folder / name).mkdir(parents=True)
        self._keys()
        self._gateway()

    def _openssl(self, *words: str, stdin: str = "") -> str:
        done = subprocess.run(
            ["openssl", *words], input=stdin, capture_output=True, text=True, cwd=self.folder
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _keys(self) -> None:
        """Make the keys of both ends and, from the operator's authority, their certificates."""
        generate = GENERATE[self.profile.key_type]
        made = (("root", "ecdsa-p256"), ("left", ""), ("right", ""), ("stranger", ""))
        for name, key_type in made:
            words = GENERATE[key_type] if key_type else generate
            subprocess.run([*words, "-out", str(self.folder / f"{name}.key")], check=True)
        root = "basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign,cRLSign"
        more = [word for each in root for word in ("-addext", each)]
        self._openssl(
            "req", "-x509", "-config", "/dev/null", "-key", "root.key", "-subj", "/CN=operator",
            "-days", "30", "-out", "root.pem", *more,
        )  # fmt: skip
        for name, identity in (("left", OURS), ("right", THEIRS), ("stranger", STRANGER)):
            # Long enough that IKE_AUTH does not fit one packet.
            pad = "".join(f",DNS:alias-{number}.of.{identity}" for number in range(12))
            (self.folder / "profile").write_text(
                f"subjectAltName=DNS:{identity}{pad}\nkeyUsage=critical,digitalSignature\n"
                "extendedKeyUsage=1.3.6.1.5.5.7.3.17,serverAuth,clientAuth\n"
                "basicConstraints=critical,CA:FALSE\n"
            )
            self._openssl(
                "req", "-new", "-config", "/dev/null", "-key", f"{name}.key", "-subj",
                f"/CN={identity}", "-out", f"{name}.req",
            )  # fmt: skip
            self._openssl(
                "x509", "-req", "-in", f"{name}.req", "-CA", "root.pem", "-CAkey", "root.key",
                "-CAcreateserial", "-days", "30", "-extfile", "profile", "-out", f"{name}.pem",
            )  # fmt: skip
            self._openssl(
                "pkcs12", "-export", "-inkey", f"{name}.key", "-in", f"{name}.pem", "-certfile",
                "root.pem", "-name", name, "-passout", "pass:", "-out", f"{name}.p12",
            )  # fmt: skip

    def public(self, name: str) -> str:
        return x509.body(self._openssl("pkey", "-in", f"{name}.key", "-pubout"))

    def _gateway(self) -> None:
        """Write the gateway's files, as the charm does for a manual peer."""
        certified = self.profile.credentials == EXTERNAL
        psk = self.profile.credentials == PSK
        options = f"key-type={self.profile.key_type},dpd-delay=2"
        params = link_params({
            "link": LINK, "technology": "ipsec", "inner-address": "172.16.8.1/24",
            "allowed-prefixes": BEHIND, "credentials": self.profile.credentials,
            "proposal": self.profile.proposal, "ipsec-options": options,
        })  # fmt: skip
        peer = Peer(
            name="man-cell",
            label="cell",
            prefixes=(ipaddress.ip_network(INNER),),
            technology="ipsec",
            public_key="" if certified else self.public("right"),
            identity=THEIRS,
            certificate="any-operator" if certified else "",
            preshared="psk" if psk else "",
        )
        configuration = Configuration(
            params=params,
            mtu=1400,
            tun_mtu=1400,
            peers=(peer,),
            underlay=(ipaddress.ip_address(GATEWAY),),
            initiates=frozenset(),
            certificate="own" if certified else None,
        )
        state = vdu.state(LINK, self.public("left"), OURS, self.plane)
        left = self.folder / "left"
        files = {
            KEY.format(LINK): (self.folder / "left.key").read_text(),
            CERTIFICATE.format(LINK): (self.folder / "left.pem").read_text(),
            TRUST.format(LINK): (self.folder / "root.pem").read_text(),
            PRESHARED.format(LINK, peer.name): f"secret = 0s{SECRET}\n",
            f"/etc/swanctl/conf.d/{LINK}.conf": render(configuration, state),
        }
        if not certified:
            del files[CERTIFICATE.format(LINK)], files[TRUST.format(LINK)]
        for path, text in files.items():
            Path(moved(path, self.folder, "left")).write_text(moved(text, self.folder, "left"))
        (left / f"{LINK}.up").write_text(render_up(configuration, self.plane))
        self.daemon_files("left", daemon_conf(self.plane))


def libreswan(site: Site, root: Path, *, identity: str = THEIRS, subnet: str = BEHIND) -> Daemon:
    """Write what somebody would for libreswan on the cell; return its daemon."""
    right = site.folder / "right"
    credentials = site.profile.credentials
    rsa = site.profile.key_type.startswith("rsa")
    name = "right" if identity == THEIRS else "stranger"
    lines = [
        "ikev2=insist", f"left={CELL}", f"leftid=@{identity}", f"right={GATEWAY}",
        f"rightid=@{OURS}", f"leftsubnet={INNER}/32", f"rightsubnet={subnet}",
        f"ike={IKE[site.profile.proposal]}",
        f"esp={ESP[site.profile.proposal]}",
        "pfs=yes", "fragmentation=force", "dpddelay=5", "dpdaction=hold", "auto=add", "reauth=yes",
    ]  # fmt: skip
    if credentials == PSK:
        lines += ["authby=secret"]
    elif credentials == EXTERNAL:
        lines += ["authby=" + ("rsasig" if rsa else "ecdsa"), f"leftcert={name}",
                  "leftsendcert=always", "rightca=%same"]  # fmt: skip
        lines += ["leftrsasigkey=%cert", "rightrsasigkey=%cert"]
    else:
        keys = "rsasigkey" if rsa else "ecdsakey"
        lines += ["authby=" + ("rsasig" if rsa else "ecdsa"), f"leftcert={name}",
                  "leftsendcert=never", f"right{keys}={raw(site)}"]  # fmt: skip
    nss = f"sql:{right}/nss"
    (right / "ipsec.conf").write_text(
        f"config setup\n    nssdir={right}/nss\n    dnssec-enable=no\n"
        "conn cell\n" + "".join(f"    {line}\n" for line in lines)
    )
    (right / "ipsec.secrets").write_text(f"@{identity} @{OURS} : PSK 0s{SECRET}\n")
    pluto = "/usr/libexec/ipsec/pluto"
    return Daemon(
        argv=[
            pluto, "--nofork", "--stderrlog", "--config", f"{right}/ipsec.conf", "--secretsfile",
            f"{right}/ipsec.secrets", "--nssdir", f"{right}/nss", "--rundir", "/run/pluto",
        ],
        socket="/run/pluto/pluto.ctl",
        load=[
            f"/usr/libexec/ipsec/addconn --config {right}/ipsec.conf --ctlsocket"
            " /run/pluto/pluto.ctl cell",
        ],
        first=[
            f"mount -t overlay overlay -o lowerdir={root}/usr:/usr /usr",
            f"mkdir -p /run/pluto {right}/nss",
            f"certutil -N -d {nss} --empty-password",
            f"pk12util -i {site.folder}/{name}.p12 -d {nss} -W ''",
            f"certutil -M -d {nss} -n operator -t CT,,",
        ],
    )  # fmt: skip


def raw(site: Site) -> str:
    """Return our public key in the form of RFC 3110 or RFC 6605, as libreswan reads it."""
    der = base64.b64decode(site.public("left"))
    if site.profile.key_type.startswith("rsa"):
        modulus, exponent = der[-389:-5], der[-3:]
        return "0s" + base64.b64encode(bytes([len(exponent)]) + exponent + modulus).decode()
    return "0s" + base64.b64encode(der[-64:]).decode()


def openiked(site: Site, root: Path, *, identity: str = THEIRS, subnet: str = BEHIND) -> Daemon:
    """Write what somebody would for OpenIKED on the cell; return its daemon."""
    right = site.folder / "right"
    credentials = site.profile.credentials
    name = "right" if identity == THEIRS else "stranger"
    auth = f"psk 0x{base64.b64decode(SECRET).hex()}" if credentials == PSK else ""
    text = (
        "set fragmentation\nset dpd_check_interval 5\n"
        f'ikev2 "cell" active esp from {INNER} to {subnet} local {CELL} peer {GATEWAY}'
        f" ikesa {IKE_IKED} childsa {ESP_IKED}"
        f" srcid {identity} dstid {OURS} {auth}\n"
    )
    etc = right / "iked"
    files = {"private/local.key": (site.folder / f"{name}.key").read_text()}
    files["local.pub"] = site._openssl("pkey", "-in", f"{name}.key", "-pubout")
    if credentials == EXTERNAL:
        files[f"certs/{identity}.crt"] = (site.folder / f"{name}.pem").read_text()
        files["ca/ca.crt"] = (site.folder / "root.pem").read_text()
    else:
        files[f"pubkeys/fqdn/{OURS}"] = site._openssl("pkey", "-in", "left.key", "-pubout")
    for part in ("ca", "certs", "crls", "private", "pubkeys/fqdn"):
        (etc / part).mkdir(parents=True, exist_ok=True)
    for path, body in files.items():
        (etc / path).write_text(body)
    (etc / "private/local.key").chmod(0o600)
    (right / "iked.conf").write_text(text)
    (right / "iked.conf").chmod(0o600)
    return Daemon(
        argv=["/usr/sbin/iked", "-d", "-v", "-f", f"{right}/iked.conf"],
        socket="/var/run/iked.sock",
        load=[],
        first=[
            f"mount -t overlay overlay -o lowerdir={root}/usr:/usr /usr",
            # Its package makes the user.
            f"cp /etc/passwd {right}/passwd",
            f"echo _iked:x:499:65534::/run/iked:/bin/false >> {right}/passwd",
            f"mount --bind {right}/passwd /etc/passwd",
            f"mkdir -p /etc/iked /run/iked && mount --bind {etc} /etc/iked",
            f"chown -R root:root {right} && modprobe af_key",
        ],
    )


IKE = {
    "aes256gcm-ecp384": "aes_gcm256-sha2_384-dh20",
    "auto": "aes_gcm256-sha2_384-dh31",
    "3gpp": "aes256-sha2_384-dh20",
}
ESP = {
    "aes256gcm-ecp384": "aes_gcm256-null;dh20",
    "auto": "aes_gcm256-null;dh31",
    "3gpp": "aes256-sha2_256;dh14",
}
"""What libreswan calls algorithms of a proposal."""
IKE_IKED = "enc aes-256-gcm prf hmac-sha2-384 group ecp384"
ESP_IKED = "enc aes-256 auth hmac-sha2-384 group ecp384 noesn"
"""Of the proposal 3gpp. OpenIKED tells Linux by PF_KEY, which has no AES-GCM for ESP."""


WHACK = "timeout 30 /usr/libexec/ipsec/whack"
OPENS = {
    "libreswan": f"{WHACK} --initiate --name cell",
    # It calls by itself.
    "openiked": "true",
}
"""The command of the cell that opens its tunnel."""
