"""Services whose VNFs have pods in place of charms: real helm, a real Kubernetes API server, gRPC
and packets.

Cast: server, client (`vpn_basic_ns`, twice); hss, mme, spgwc, spgwu, enb (`epc_ns`).

Seen:
- packets go through the tunnel; the cluster has the offers and no key;
- a bad parameter gives one sentence and changes nothing;
- a pod that dies comes back with its state, and may change its own objects only;
- a peer that leaves is gone, and a service beside it is untouched.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e_labs import open_lab
from e2e_support import BASIC, EPC, ActionError, Lab, Secrets, Service, Vnf, wait

from builder import packages
from builder.helm import CONTEXT
from builder.tree import Tree
from lab.cluster.control import BUILT, PROGRAMS
from lab.descriptors.service import service as described
from lab.lcm.helmops import release
from lab.records.store import NSRS
from lab.vim.account import vca_prefix

pytestmark = [
    pytest.mark.lab,
    pytest.mark.long,
    pytest.mark.skipif(
        not all((BUILT / name).exists() for name in PROGRAMS),
        reason="no Kubernetes API server: ./run setup --kubernetes builds it",
    ),
]
PATIENCE = 120.0
LINKS = {"server": "vpn-server", "client": "vpn-client"}


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("helm-dist")
    tree = Tree.find(Path(__file__).resolve().parent)
    packages.build(tree, target, [*BASIC, *EPC, "epc_ns"], image="osm-vpnaas-ee:1")
    return target


@pytest.fixture(scope="module")
def lab(dist: Path, secrets: Secrets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OSMLAB_EE_IMAGE", str(dist / CONTEXT))
        patch.setenv("OSMLAB_TIMEOUT_FACTOR", "0.3")
        for made in open_lab(tmp_path_factory.mktemp("helm"), dist, secrets):
            made.onboard(*BASIC)
            yield made


@pytest.fixture(scope="module")
def basic(lab: Lab) -> Iterator[Service]:
    service = lab.create("helm", "vpn_basic_ns", "vpn_basic")
    yield service
    lab.done("ns-delete", "helm", "--wait")


def releases(service: Service) -> dict[str, str]:
    store = service.lab.engine.store
    found = described(store.get(NSRS, service.id), store).environments
    return {str(env.member_vnf_index): release(env) for env in found}


def up(vnf: Vnf, link: str) -> bool:
    return bool(vnf.status(link)["state"] == "up")


def wait_up(service: Service) -> None:
    for index, link in LINKS.items():
        wait(lambda i=index, n=link: up(service[i], n), f"{index} is up", PATIENCE)


def in_cluster(lab: Lab, code: str) -> str:
    """Run Python with `api`, a client with all rights, where the cluster is."""
    begin = (
        "import sys; from pathlib import Path; from lab.cluster.connector import client;"
        "from lightkube.resources.core_v1 import ConfigMap, Secret;"
        f"api = client(Path('{lab.home}/cluster'));"
    )
    done = subprocess.run(
        [*vca_prefix(lab.home), sys.executable, "-c", begin + code],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def pods(lab: Lab, service: Service, member: str) -> list[int]:
    name = f"{lab.home}/cluster/pods/{service.id}/{releases(service)[member]}-0"
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environment = (entry / "environ").read_bytes().decode(errors="replace")
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"POD={name}\0" in environment and words[0] == b"unshare":
            found.append(int(entry.name))
    return found


def below(pid: int) -> list[int]:
    """Return the children of a process, and theirs."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [found for child in map(int, children) for found in (child, *below(child))]


def test_packets_go_through_the_tunnel(basic: Service) -> None:
    wait_up(basic)
    assert basic["client"].pings("10.77.0.1", "-I", "wg-vpn-client")
    measured = basic.action("client", "measure-latency", link="vpn-client", count=5)
    assert measured["received"] == 5


def test_offers_are_in_the_cluster_and_keys_are_not(lab: Lab, basic: Service) -> None:
    wait_up(basic)
    code = (
        "import base64;"
        "[print(item.data) for item in api.list(ConfigMap, namespace=NS)];"
        "[print(base64.b64decode(text)) for item in api.list(Secret, namespace=NS)"
        " for text in (item.data or {}).values()]"
    )
    listed = in_cluster(lab, code.replace("NS", repr(basic.id)))
    assert basic["server"].public_key("wg-vpn-server") in listed
    assert "BEGIN OPENSSH PRIVATE KEY" in listed  # the pods' own, in their Secrets
    assert lab.secrets.texts
    for text, where in lab.secrets.texts.items():
        assert text not in listed, where


def test_a_bad_parameter_is_a_sentence_and_changes_nothing(basic: Service) -> None:
    wait_up(basic)
    with pytest.raises(ActionError, match=r"not ok status: ERROR, message: configure: inner-addr"):
        basic.action("client", "configure", link="vpn-client", inner_address="10.77.0.300/24")
    assert basic["client"].pings("10.77.0.1")


def test_keys_rotate(basic: Service) -> None:
    wait_up(basic)
    before = basic["server"].public_key("wg-vpn-server")
    basic.action("server", "rotate-keys", link="vpn-server")
    wait(lambda: basic["server"].public_key("wg-vpn-server") != before, "the key is new", PATIENCE)
    wait(lambda: basic["client"].pings("10.77.0.1"), "packets go on", PATIENCE)


def test_a_pod_that_dies_comes_back_with_its_state(lab: Lab, basic: Service) -> None:
    wait_up(basic)
    (before,) = pods(lab, basic, "server")
    inside = below(before)
    assert inside
    os.kill(before, signal.SIGKILL)
    wait(lambda: not any(Path(f"/proc/{pid}").exists() for pid in inside), "all ended", PATIENCE)
    assert basic["client"].pings("10.77.0.1")
    wait(lambda: pods(lab, basic, "server") not in ([], [before]), "another pod runs", PATIENCE)
    wait_up(basic)


def test_a_pod_can_change_its_own_objects_only(lab: Lab, basic: Service) -> None:
    own, other = (releases(basic)[index] for index in ("server", "client"))
    token = lab.home / f"cluster/pods/{basic.id}/{own}-0/volumes"
    (token_file,) = token.glob("kube-api-access-*/token")
    code = """
import httpx2
own, other, ns, token, ca = sys.argv[1:]
http = httpx2.Client(
    base_url="https://127.0.0.1:6443/api/v1/namespaces/" + ns,
    headers={"Authorization": "Bearer " + open(token).read()}, verify=ca,
)
merge = {"Content-Type": "application/merge-patch+json"}
def code(method, path):
    return http.request(method, path, content="{}", headers=merge).status_code
print(code("GET", "/configmaps"), code("PATCH", "/configmaps/" + own))
print(code("GET", "/secrets/" + own))
print(code("PATCH", "/configmaps/" + other), code("GET", "/secrets/" + other))
print(code("GET", "/secrets"), code("GET", "/secrets/ee-tls"), code("POST", "/configmaps"))
"""
    words = (own, other, basic.id, str(token_file), str(lab.home / "cluster/authority/ca.crt"))
    done = subprocess.run(
        [*vca_prefix(lab.home), sys.executable, "-c", "import sys\n" + code, *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["200", "200", "200", "403", "403", "403", "403", "403"], (
        done.stdout + done.stderr
    )


def test_two_services_beside_each_other_and_a_peer_that_leaves(lab: Lab, basic: Service) -> None:
    other = lab.create("other", "vpn_basic_ns", "vpn_basic_ipsec")
    try:
        wait_up(other)
        wait_up(basic)
        assert other["client"].pings("10.77.0.1")
        assert basic["client"].pings("10.77.0.1", "-I", "wg-vpn-client")
        lab.backends.cluster().call(
            "uninstall", namespace=other.id, release=releases(other)["client"]
        )
        wait(
            lambda: not other["server"].status("vpn-server")["peers"], "the peer is gone", PATIENCE
        )
        assert basic["client"].pings("10.77.0.1")
    finally:
        lab.done("ns-delete", "other", "--wait")
    assert basic["client"].pings("10.77.0.1")


def test_the_links_of_an_epc_come_up(lab: Lab, basic: Service) -> None:
    lab.onboard(*EPC, "epc_ns")
    epc = lab.create("epc", "epc_ns", "epc")
    try:
        for index, links in {
            "hss": ["s6a"],
            "spgwc": ["s11", "sxab"],
            "enb": ["s1c", "s1u"],
        }.items():
            for link in links:
                wait(lambda i=index, n=link: up(epc[i], n), f"{link} is up", PATIENCE)
        measured = epc.action("mme", "measure-latency", link="s6a", count=5)
        assert measured["received"] == 5
    finally:
        lab.done("ns-delete", "epc", "--wait")
