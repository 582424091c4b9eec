"""OSM heals a VDU and refreshes a charm under a tunnel.

Cast: server, client (`vpn_basic_ns`).

Seen:
- a healed VDU has its inner address and new keys, and its peer changes nothing else;
- a refreshed charm leaves the tunnel up under a TCP stream;
- an update to the same package runs nothing;
- after a restart of the machine `links`, `ns-list` and the page show no tunnel, and a heal
  brings it back.
"""

import json
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from e2e_basic import CLIENT, SERVER
from e2e_support import BASIC, InBackground, Lab, Service, Vnf, gone
from support.restarted import machine_restarts

from lab.page.data import Data

pytestmark = [pytest.mark.lab, pytest.mark.long]

HOST_KEY = "/etc/ssh/ssh_host_ed25519_key.pub"
PORT = 7777
SEND = """
import hashlib, socket, sys, time
link = socket.create_connection((sys.argv[1], int(sys.argv[2])))
digest, sent, end = hashlib.sha256(), 0, time.monotonic() + float(sys.argv[3])
while time.monotonic() < end:
    block = b"%016d" % sent * 1024
    link.sendall(block)
    digest.update(block)
    sent += 1
    time.sleep(0.01)
link.close()
print(digest.hexdigest())
"""
RECEIVE = """
import hashlib, json, socket, sys, time
wait = socket.create_server((sys.argv[1], int(sys.argv[2])))
print("ready", flush=True)
link, _ = wait.accept()
link.settimeout(60)
digest, last, longest = hashlib.sha256(), time.monotonic(), 0.0
while block := link.recv(1 << 16):
    now = time.monotonic()
    longest, last = max(longest, now - last), now
    digest.update(block)
print(json.dumps({"digest": digest.hexdigest(), "longest": longest}))
"""


@pytest.fixture(scope="module")
def life(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Two VNFs and a tunnel; the VIM chooses the client's address on the underlay."""
    lab.onboard(*BASIC)
    params = yaml.safe_load((lab.dist / "params/vpn_basic.yaml").read_text())
    (data,) = params["vld"]
    points = data["vnfd-connection-point-ref"]
    data["vnfd-connection-point-ref"] = [p for p in points if p["member-vnf-index-ref"] == "server"]
    file = tmp_path_factory.mktemp("life") / "params.yaml"
    file.write_text(yaml.safe_dump(params))
    words = ("--ns_name", "life", "--nsd_name", "vpn_basic_ns", "--vim_account", "lab")
    lab.done("ns-create", *words, "--config_file", str(file), "--wait")
    service = Service(lab, "life")
    yield service
    gone(Service(lab, "life"))


def vdu_of(vnf: Vnf) -> str:
    (vdur,) = vnf.service.lab.engine.vnf(vnf.service.name, vnf.index)["vdur"]
    return str(vdur["vdu-id-ref"])


def interface(vnf: Vnf) -> dict[str, object]:
    """Return what shows whether the tunnel's interface was ever made anew, or its key."""
    (link,) = json.loads(vnf.out("ip", "-j", "link", "show", f"wg-vpn-{vnf.index}"))
    return {"index": link["ifindex"], "key": vnf.public_key(f"wg-vpn-{vnf.index}")}


def underlay(vnf: Vnf) -> str:
    """Return a member's address below the tunnel."""
    return str(vnf.server.ip_on(vnf.service.network("data")))


def test_a_healed_vdu_is_back_with_its_inner_address_and_new_keys(life: Service) -> None:
    server, old = life["server"], life["client"]
    was = (
        interface(old)["key"],
        underlay(old),
        old.out("cat", "/etc/ssh/ssh_host_ed25519_key.pub"),
    )
    before = interface(server)
    life.lab.done("ns-heal", "life", "--vnf", "client", "--vdu", vdu_of(old), "--wait")
    client = Service(life.lab, "life")["client"]
    assert client.server_id != old.server_id
    # OSM gave it the charm's SSH key and nothing else; the charm sees to it within five minutes.
    assert client.run("ip", "link", "show", "wg-vpn-client").returncode != 0
    life.lab.done("lab", "update-status", "life")
    assert client.pings(SERVER)
    assert server.pings(CLIENT)
    now = (
        interface(client)["key"],
        underlay(client),
        client.out("cat", HOST_KEY),
    )
    assert all(a != b for a, b in zip(was, now, strict=True)), (was, now)
    # The other end has the new key in the old one's place, and was not touched otherwise.
    assert interface(server) == before
    assert server.peers("wg-vpn-server") == {now[0]}
    assert client.status("vpn-client")["state"] == "up"


def revised(lab: Lab, folder: Path) -> Path:
    """Return the endpoint's package with another charm: a release note more."""
    with tarfile.open(lab.dist / "vpn_endpoint_vnf.tar.gz") as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # from Python 3.11.4 on
        archive.extractall(folder)  # noqa: S202 - made by ourselves
    (charm,) = (folder / "vpn_endpoint_vnf/charms").iterdir()
    (charm / "NOTES.md").write_text("Another release.\n")
    package = folder / "revised.tar.gz"
    with tarfile.open(package, "w:gz") as archive:
        archive.add(folder / "vpn_endpoint_vnf", "vpn_endpoint_vnf")
    shutil.rmtree(folder / "vpn_endpoint_vnf")
    return package


def test_a_refreshed_charm_leaves_tunnels_up_under_a_tcp_stream(
    life: Service, tmp_path: Path
) -> None:
    lab, life = life.lab, Service(life.lab, "life")
    server, client = life["server"], life["client"]
    assert client.pings(SERVER)
    before = interface(server), interface(client)
    hooks = life.hook_log()
    lab.done("vnfpkg-update", "vpn_endpoint_vnf", "--content", str(revised(lab, tmp_path)))
    package = next(d for d in lab.engine.store.all("vnfds") if d["id"] == "vpn_endpoint_vnf")
    receive = ("python3", "-c", RECEIVE, SERVER, str(PORT))
    heard = InBackground(lambda: server.out(*receive, timeout=180))
    life.wait(lambda: f"{SERVER}:{PORT}" in "".join(server.listening()), "the receiver")
    sent = InBackground(
        lambda: client.out("python3", "-c", SEND, SERVER, str(PORT), "25", timeout=180)
    )
    for vnf in (server, client):
        record = lab.engine.vnf("life", vnf.index)
        data = [{"vnfInstanceId": record["_id"], "vnfdId": package["_id"]}]
        config = json.dumps({"changeVnfPackageData": data})
        words = ("--updatetype", "CHANGE_VNFPKG", "--config", config, "--wait")
        lab.done("ns-update", "life", *words)
        assert lab.engine.vnf("life", vnf.index)["revision"] == 2
    digest = sent.result().strip()
    result = json.loads(heard.result().splitlines()[-1])
    assert result["digest"] == digest
    assert result["longest"] < 1.0
    assert (interface(server), interface(client)) == before
    after = life.hook_log()
    assert all(after[unit] > hooks[unit] for unit in hooks)
    model = lab.backends.controller().model(life.id)
    for vnf in (server, client):
        assert (model.paths.charm(vnf.unit) / "NOTES.md").exists()
        assert "ran upgrade-charm hook" in model.log_path(vnf.unit).read_text()
    # What day 1 gave is still known to the new charm.
    assert client.status("vpn-client")["state"] == "up"


def test_an_update_of_an_unchanged_package_runs_nothing(life: Service) -> None:
    lab = life.lab
    hooks = life.hook_log()
    record = lab.engine.vnf("life", "client")
    data = {"vnfInstanceId": record["_id"], "vnfdId": record["vnfd-id"]}
    config = json.dumps({"changeVnfPackageData": [data]})
    lab.done("ns-update", "life", "--updatetype", "CHANGE_VNFPKG", "--config", config, "--wait")
    assert life.hook_log() == hooks


def test_after_a_restart_of_the_machine_no_view_shows_a_tunnel(life: Service) -> None:
    lab = life.lab
    # Not `life`, which knows a VDU that a heal may have replaced.
    now = Service(lab, "life").vnfs.values()
    machine_restarts(lab.home, [vnf.server_id for vnf in now])
    for link in json.loads(lab.done("--json", "links", "life")):
        assert link["state"] in ("blocked", "unknown"), link
    (edge,) = Data(lab.engine).graph("life").edges
    assert edge.state != "up"
    (row,) = (ns for ns in json.loads(lab.done("--json", "ns-list")) if ns["name"] == "life")
    assert not row["links"].startswith("up"), row
    lab.done("ns-heal", "life", "--vnf", "server", "--vnf", "client", "--wait")
    # Both have new keys; the second look of one end takes that of the other.
    for _ in range(2):
        lab.done("lab", "update-status", "life")
    assert Service(lab, "life")["client"].pings(SERVER)
