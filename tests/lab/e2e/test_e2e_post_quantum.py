"""A tunnel that needs a post-quantum preshared key: from VDUs that lack ML-KEM to a rotated key.

Cast: server, client (`vpn_basic_ns`).

Seen:
- without ML-KEM there is no tunnel, and the status gives the reason;
- both VDUs have the same key, and only its sealed form travels;
- another key is agreed under traffic and no packet is lost.
"""

import base64
import importlib.metadata
import io
import re
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from e2e_basic import LINKS, SERVER, configure
from e2e_support import BASIC, Service, Vnf, own_service, scan
from support.flow import Flow
from vpnaas.vdu.programs.kem import FOLDER

pytestmark = [pytest.mark.lab, pytest.mark.long]


quantum = own_service(BASIC, "quantum", "vpn_basic_ns", "vpn_basic_quantum")


@pytest.fixture(scope="module")
def library() -> str:
    """Return a tar of the current release of Python's cryptography, as text."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for file in importlib.metadata.files("cryptography") or ():
            path = Path(str(file.locate()))
            if "__pycache__" not in path.parts and ".." not in file.parts:
                tar.add(path, arcname=str(file))
    return base64.b64encode(packed.getvalue()).decode()


def provide(vnf: Vnf, library: str) -> None:
    """Give a VDU the library, as its image or Day-0 would. The backend of cffi is there."""
    vnf.out("mkdir", "-p", FOLDER)
    unpack = f"base64 -d | tar -xz -C {FOLDER}"
    vnf.out("sh", "-c", unpack, input=library)


def key(vnf: Vnf) -> str:
    """Return the preshared key that the interface uses with its only peer, "" without a peer."""
    shown = vnf.out("wg", "show", f"wg-{LINKS[vnf.index]}", "preshared-keys").split()
    return shown[1] if shown else ""


def told(vnf: Vnf) -> tuple[str, str, list[tuple[bool, bool]]]:
    """Return state, reason, and of each peer whether it has a preshared key, and a hybrid one."""
    link = vnf.status(LINKS[vnf.index])
    peers = [(peer["preshared-key"], peer["post-quantum"]) for peer in link["peers"]]
    return link["state"], link["reason"], peers


def offered(service: Service) -> set[str]:
    """Return the names of values in databags that are as long as those of ML-KEM."""
    value = "vpnaas-[a-z-]*[^a-zA-Z0-9]{1,6}[A-Za-z0-9+/]{1400,}"
    done = subprocess.run(
        ["grep", "-rahoED", "skip", "--exclude-dir=disk", "-e", value, str(service.lab.home)],
        capture_output=True, text=True, errors="replace", check=False,
    )  # fmt: skip
    return set(re.findall("vpnaas-([a-z]+-[a-z]+[a-z-]*)", done.stdout))


def test_without_ml_kem_there_is_no_tunnel_and_a_reason(quantum: Service) -> None:
    for vnf in (quantum["server"], quantum["client"]):
        state, reason, peers = told(vnf)
        assert (state, peers) == ("blocked", [])
        assert "no post-quantum key: this VDU has no ML-KEM" in reason
        assert key(vnf) == ""
    assert not quantum["client"].pings(SERVER, tries=5)


def test_both_vdus_hold_one_key_and_no_more_than_its_seal_travels(
    quantum: Service, library: str
) -> None:
    server, client = quantum["server"], quantum["client"]
    for vnf in (server, client):
        provide(vnf, library)
    for vnf in (server, client, server, client):
        vnf.status(LINKS[vnf.index])  # The charm looks again, as by update-status.
    assert client.pings(SERVER, tries=60)
    assert key(server) == key(client) not in ("", "(none)")
    for vnf in (server, client):
        assert told(vnf)[0] == "up"
        assert told(vnf)[2] == [(True, True)]
    quantum.note_secrets()
    secrets = quantum.lab.secrets.texts
    assert {where.rpartition("/")[2] for where in secrets.values()} >= {"kem.key", "wrap.pem"}
    assert key(client) in secrets
    assert scan(quantum.lab, secrets) == []
    assert offered(quantum) == {"kem-key", "sealed-preshared-key"}


@contextmanager
def another_key(service: Service) -> Iterator[None]:
    """Check that what is done leads to another key at both ends and loses no datagram."""
    server, client = service["server"], service["client"]
    before = key(client)
    flow = Flow(client, server, SERVER, seconds=300, rate=50, size=64)
    try:
        yield
        service.wait(
            lambda: key(server) == key(client) not in ("", before), "both have another key", 60
        )
    finally:
        flow.stop()
    stream = flow.result()
    assert stream.sent > 100 and stream.lost == 0, stream.summary()
    assert told(client)[2] == told(server)[2] == [(True, True)]
    service.note_secrets()
    assert scan(service.lab, service.lab.secrets.texts) == []


def test_another_key_is_agreed_under_traffic_and_loses_nothing(quantum: Service) -> None:
    client = quantum["client"]
    with another_key(quantum):
        client.out("rm", "/etc/osm-vpnaas/vpn-client/kem.key")
        client.status("vpn-client")


@pytest.mark.parametrize("index", ["client", "server"])
def test_a_rotation_makes_another_key(quantum: Service, index: str) -> None:
    # The handshake under the new key of the link needs the preshared key that was agreed before.
    with another_key(quantum):
        quantum[index].action("rotate-keys", link=LINKS[index])
        quantum[index].status(LINKS[index])


def test_where_it_is_preferred_the_other_end_may_lack_it_and_the_status_says_so(
    quantum: Service,
) -> None:
    server, client = quantum["server"], quantum["client"]
    before = key(server)
    client.out("rm", "-r", FOLDER)
    # Required: what runs keeps its key, and no lesser one takes its place.
    for vnf in (client, server):
        assert told(vnf)[0] == "blocked"
        assert key(vnf) == before
    assert client.pings(SERVER)
    for vnf in (client, server):
        configure(vnf, post_quantum="prefer")
    for vnf in (server, client, server, client):
        vnf.status(LINKS[vnf.index])
    assert client.pings(SERVER, tries=60)
    assert key(server) == key(client) not in ("", before)
    state, reason, peers = told(server)
    assert (state, peers) == ("up", [(True, False)])
    assert "no post-quantum key" in reason and "its VDU has no ML-KEM" in reason
    assert "this VDU has no ML-KEM" in told(client)[1]
