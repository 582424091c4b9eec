"""Charms with their network functions: order, readiness, day-2 primitives, refusals, secrets.

The container engine of these VDUs is `tests/support/engine.py`: what it runs speaks no protocol.
The tests share the service and follow each other.
"""

from __future__ import annotations

import json
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flavours import WAIT, Flavour, once
from support import openbao
from vdus import Site, healthy, refused, site

from lab.vim.account import vca_prefix

pytestmark = [pytest.mark.lab, pytest.mark.long, once]

ENGINE = (Path(__file__).parents[1] / "support/engine.py").read_text(encoding="utf-8")
OP = "1006020f0a478bf6b699f15c062e42b3"
K = "449c4b91aeacd0ace182cf3a5a72bfa1"
OPC = "9245cd6283cc53ce24ac1186a60dee6b"
NETWORK = {"mcc": "242", "mnc": "88", "realm": "epc.mnc088.mcc242.3gppnetwork.org"}
HSS = {
    **NETWORK,
    "operator-key": OP,
    "subscriber-key": K,
    "first-imsi": "242881234500000",
    "first-msisdn": "24288880000000",
    "subscribers": 3,
    "apn": "internet",
}
MME = {**NETWORK, "tac": 600, "mme-group": 32768, "mme-code": 3}
SPGWC = {
    **NETWORK,
    "tac": 600,
    "apn": "internet",
    "dns": "192.0.2.53",
    "second-dns": "192.0.2.54",
    "ue-pool": "10.45.0.0/16",
    "ue-mtu": 1384,
}
#: Underlay networks of each VDU in the order of its NICs, then link, NIC and inner address.
MEMBERS: dict[str, tuple[tuple[str, ...], tuple[tuple[str, str, str], ...]]] = {
    "hss": (("s6a",), (("s6a", "ens4", "172.16.6.129/24"),)),
    "mme": (
        ("s6a", "s11"),
        (
            ("s6a", "ens4", "172.16.6.2/24"),
            ("s11", "ens5", "172.16.1.102/24"),
            ("s1c", "ens3", "192.168.247.102/24"),
        ),
    ),
    "spgwc": (("s11",), (("s11", "ens4", "172.16.1.104/24"), ("sxab", "ens3", "172.30.55.101/24"))),
}


class Service(Site):
    """An HSS, an MME and an SPGW-C, each on a VDU."""

    def act(self, vnf: str, action: str, **params: Any) -> Any:
        """Run an action that must work; return what its output holds."""
        given = {name.replace("_", "-"): value for name, value in params.items()}
        result = self.model.run_action(vnf, action, given, timeout=WAIT)
        assert result.status == "completed", result.results
        return json.loads(result.results["output"])

    def message(self, vnf: str) -> tuple[str, str]:
        return healthy(self.model)[f"{vnf}/0"]

    def started(self, vnf: str, unit: str) -> str:
        """Return when a unit was last started."""
        shown = ("systemctl", "show", "--value", "-p", "ExecMainStartTimestampMonotonic")
        return self.out(vnf, *shown, f"{unit}.service").strip()


@pytest.fixture(scope="module")
def service(flavour: Flavour, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    subnets = {"s6a": "192.168.8.0/24", "s11": "192.168.10.0/24"}
    members = {vnf: [(name, None) for name in nics] for vnf, (nics, _) in MEMBERS.items()}
    with site(tmp_path_factory.mktemp("nf"), flavour, subnets, members) as made:
        made.model.add_relation("hss:s6a", "mme:s6a")
        made.model.add_relation("spgwc:s11", "mme:s11")
        made.model.wait_idle(WAIT)
        found = Service(**vars(made))
        for vnf, (_, links) in MEMBERS.items():
            found.let_in(vnf)
            found.put(vnf, "/usr/bin/podman", ENGINE, "755")
            for link, nic, inner in links:
                found.act(vnf, "configure", link=link, underlay_interface=nic, inner_address=inner)
        yield found


def test_before_configure_nf_there_are_links_only(service: Service) -> None:
    assert service.message("hss") == ("active", "s6a up")
    sentence = "no network function is configured yet; run configure-nf first"
    for action in ("health", "restart-nf", "show-config", "list-subscribers"):
        assert refused(service.model, "hss", action) == sentence
    assert refused(service.model, "mme", "show-connected") == sentence


def test_the_mme_waits_for_the_hss_and_starts_when_it_is_ready(service: Service) -> None:
    answer = service.act("mme", "configure-nf", **{k.replace("-", "_"): v for k, v in MME.items()})
    assert (answer["state"], answer["network"]) == ("waiting", "242-88")
    assert answer["images"]["mme"].startswith("docker.io/oaisoftwarealliance/magma-mme@sha256:")
    assert service.message("mme")[1].startswith(
        "mme waiting (waiting for the network function at the other end of s11"
    )
    units = service.out("mme", "systemctl", "list-units", "--all", "--plain", "mme.service")
    assert "mme.service" not in units.split("0 loaded")[0]

    answer = service.act(
        "spgwc", "configure-nf", **{k.replace("-", "_"): v for k, v in SPGWC.items()}
    )
    assert answer["state"] == "ready"
    assert "at the other end of s6a" in service.message("mme")[1]

    # An HSS whose image has to be pulled is not ready, and says why; nothing waits for it.
    service.put("hss", "/var/lib/engine/pulling", "")
    service.put("hss", "/tmp/unpull", "#!/bin/sh\nsleep 4; rm /var/lib/engine/pulling\n", "755")
    service.out("hss", "systemd-run", "--quiet", "/tmp/unpull")
    answer = service.act("hss", "configure-nf", **{k.replace("-", "_"): v for k, v in HSS.items()})
    assert answer["state"] == "ready"
    assert answer["units"] == {"cassandra": "active", "hss": "active"}
    assert service.message("hss") == ("active", "hss ready, s6a up")

    # Nobody touched the MME.
    status, message = service.message("mme")
    assert (status, message.split(",")[0]) == ("active", "mme ready"), message


def test_subscribers_come_and_go_while_the_hss_runs(service: Service) -> None:
    before = service.started("hss", "hss")
    listed = service.act("hss", "list-subscribers")
    assert [s["imsi"] for s in listed["subscribers"]] == [f"24288123450000{n}" for n in range(3)]
    assert listed["more"] is False
    assert service.act("hss", "list-subscribers", limit=2)["more"] is True
    new = {"imsi": "242880000000007", "msisdn": "24288990000007"}
    service.act("hss", "add-subscriber", **new)
    sentence = refused(service.model, "hss", "add-subscriber", **new)
    assert sentence.startswith("add-subscriber: imsi: 242880000000007 is a subscriber already")
    other = {**new, "imsi": "242880000000008"}
    sentence = refused(service.model, "hss", "add-subscriber", **other)
    assert sentence.startswith("add-subscriber: msisdn: 24288990000007 is that of 242880000000007")
    for imsi in ("242880000000007", "242881234500001"):
        assert service.act("hss", "remove-subscriber", imsi=imsi) == {"removed": imsi}
    sentence = refused(service.model, "hss", "remove-subscriber", imsi="242880000000007")
    assert "is no subscriber" in sentence
    for imsi, word in (("1", "15 digits"), ("208950000000001", "is not of network 242-88")):
        answer = refused(service.model, "hss", "add-subscriber", imsi=imsi, msisdn="4712345678")
        assert word in answer
    # A restart must not bring back who was removed.
    assert service.act("hss", "restart-nf")["state"] == "ready"
    listed = service.act("hss", "list-subscribers")["subscribers"]
    assert [s["imsi"] for s in listed] == ["242881234500000", "242881234500002"]
    assert service.started("hss", "hss") != before
    sentence = refused(service.model, "hss", "set-log-level", **{"log-level": "debug"})
    assert sentence == "OAI's hss has one log level only"


def test_keys_stay_on_the_vdu(service: Service) -> None:
    for path in ("secrets.json", "hss_rel14.json", "provision.json"):
        mode = service.out("hss", "stat", "-c", "%a %U", f"/etc/osm-vpnaas/nf/{path}").split()
        assert mode == ["600", "root"], path
    shown = service.act("hss", "show-config")
    assert '"optkey": "********"' in shown["files"]["/etc/osm-vpnaas/nf/hss_rel14.json"]
    assert shown["parameters"]["subscribers"] == 3
    result = json.dumps([shown, service.model.show_unit("hss/0"), service.model.show_unit("mme/0")])
    for unit in ("hss/0", "mme/0"):
        result += service.model.log_path(unit).read_text()
    result += service.out("hss", "sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    result += service.out("hss", "sh", "-c", "cat /var/log/hss.log /var/log/cassandra.log")
    result += service.out("hss", "journalctl", "--no-pager", "-o", "cat")
    for secret in (OP, K, OPC):
        assert secret not in result
    # Juju's own record of the action is where the operator put them; nothing of ours adds to it.
    found = subprocess.run(
        ["grep", "-rlF", OPC, str(service.home), "--exclude-dir=disk"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.stdout == ""


def test_a_vdu_that_lost_its_keys_says_so(service: Service) -> None:
    service.out("hss", "rm", "/etc/osm-vpnaas/nf/secrets.json")
    service.model.update_status()
    status, message = service.message("hss")
    assert status == "blocked"
    assert "run configure-nf again" in message
    service.act("hss", "configure-nf", **{k.replace("-", "_"): v for k, v in HSS.items()})
    assert service.message("hss") == ("active", "hss ready, s6a up")


def test_the_vdu_fetches_the_keys_from_a_store(
    service: Service, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """OpenBao stands where the controller is. Of the keys, nothing but the VDU's disk knows."""
    given = {k.replace("-", "_"): v for k, v in HSS.items()}
    given.update(operator_key="store", subscriber_key="store")
    service.out("hss", "rm", "/etc/osm-vpnaas/nf/secrets.json")
    answer = service.act("hss", "configure-nf", **given)
    assert answer["state"] == "failed"
    assert service.message("hss")[0] == "blocked"
    assert "run configure-nf again, or fetch-keys" in service.message("hss")[1]
    op, k, own = (secrets.token_hex(16) for _ in range(3))
    address = f"{service.vim.management_network().gateway}:8200"
    folder = tmp_path_factory.mktemp("bao")
    with openbao.running(folder, address, vca_prefix(service.home)) as bao:
        bao.put("core/epc", **{"operator-key": op, "subscriber-key": k})
        bao.put("core/one", **{"subscriber-key": own})
        where = {"store": bao.url, "ca-certificate": bao.root}

        def fetch(path: str, **more: str) -> dict[str, str]:
            return {**where, "path": path, "token": bao.token(), **more}

        used = fetch("secret/core/epc")
        assert service.act("hss", "fetch-keys", **used)["state"] == "ready"
        assert service.message("hss") == ("active", "hss ready, s6a up")
        for wrong, sentence in (
            (used, "fetch-keys: ALARM: the store does not know the wrapping token."),
            (fetch("secret/core/none"), "fetch-keys: the store has nothing at secret/core/none"),
            (fetch("secret/core/one"), "fetch-keys: secret/core/one has no field operator-key"),
            (fetch("core"), "fetch-keys: path: 'core' is not the path of a secret"),
            (fetch("secret/core/one", imsi="1"), "fetch-keys: imsi: '1' is not"),
        ):
            assert refused(service.model, "hss", "fetch-keys", **wrong).startswith(sentence)
        imsi = "242881234509999"
        new = {"imsi": imsi, "msisdn": "24288880009999", "subscriber-key": "store"}
        sentence = refused(service.model, "hss", "add-subscriber", **new)
        assert "no key of 242881234509999 was fetched; allowed: run fetch-keys first" in sentence
        assert service.act("hss", "fetch-keys", **fetch("secret/core/one", imsi=imsi)) == {
            "fetched": imsi
        }
        after = fetch("secret/core/epc")
    sentence = refused(service.model, "hss", "fetch-keys", **after)
    assert sentence.startswith("fetch-keys: the store does not answer")
    status, message = service.message("hss")
    assert status == "active"
    assert "hss ready (the last fetch from the secret store failed, the earlier secrets" in message
    sentence = refused(service.model, "mme", "fetch-keys", **after)
    assert sentence == "the mme has no keys of operator and subscribers"
    for secret in (op, k, own):
        found = ["grep", "-rlF", secret, str(service.home), "--exclude-dir=disk"]
        done = subprocess.run(found, capture_output=True, text=True, check=False)
        assert done.stdout == ""
    held = service.out("hss", "cat", "/etc/osm-vpnaas/nf/secrets.json")
    assert (op in held, k in held) == (True, True)
    service.act("hss", "configure-nf", **{k.replace("-", "_"): v for k, v in HSS.items()})
    assert service.message("hss") == ("active", "hss ready, s6a up")


def test_one_parameter_of_configure_nf_leaves_the_others(service: Service) -> None:
    before = service.act("spgwc", "show-config")["parameters"]
    assert before["dns"] == SPGWC["dns"]
    service.act("spgwc", "configure-nf", dns="192.0.2.99")
    after = service.act("spgwc", "show-config")["parameters"]
    assert after == {**before, "dns": "192.0.2.99"}


def test_software_none_takes_the_network_function_away(service: Service) -> None:
    given = {k.replace("-", "_"): v for k, v in {**SPGWC, "software": "none"}.items()}
    assert service.act("spgwc", "configure-nf", **given) == {"state": "off"}
    assert "spgwc " not in service.message("spgwc")[1].replace("spgwc:", "")
    assert "0 loaded" in service.out(
        "spgwc", "systemctl", "list-units", "--all", "--plain", "spgwc.service"
    )
