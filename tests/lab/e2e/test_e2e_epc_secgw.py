"""A 4G core behind a security gateway.

What UE and eNB send leaves the gateway on its trusted side only.

Cast: hss, mme, spgwc, spgwu, enb, ue, gateway (`epc_secgw_nst`); gateway1, gateway2
    (`epc_secgw_ha_ns`).

Seen:
- a UE attaches through the gateway;
- without the gateway nothing passes, and all comes back with it;
- a take-over amid attaches and a download loses no UE.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from e2e_support import (
    EPC_SECGW,
    InBackground,
    Lab,
    Service,
    associations,
    own_service,
    scan,
    wait,
)
from e2e_ue import DEVICE, LONG, attached, load, reaches
from e2e_wire import captured, ipsec_only
from support.filters import NEIGHBOURS

pytestmark = [pytest.mark.lab, pytest.mark.long]

MARKER = b"a UE's own words"
MME, SPGWU = "10.43.1.10", "10.43.1.20"
SCTP, GTPU = "ip proto 132", "udp port 2152"


@pytest.fixture(scope="module")
def behind(lab: Lab) -> Iterator[Service]:
    """The core as a slice, with a 5QI on S1-U."""
    lab.onboard(*EPC_SECGW)
    file = str(lab.dist / "params" / "epc_secgw_slice.yaml")
    words = ("--nsi_name", "behind", "--nst_name", "epc_secgw_nst", "--vim_account", "lab")
    lab.done("nsi-create", *words, "--config_file", file, "--wait")
    service = Service(lab, "behind.core")
    yield service
    service.note_secrets()
    assert scan(lab, lab.secrets.texts) == []
    lab.done("nsi-delete", "behind", "--wait")


def test_a_ue_attaches_through_the_gateway(behind: Service, tmp_path: Path) -> None:
    wait(behind["ue"].ready, "the UE is attached", LONG)
    for end in ("enb", "gateway"):
        assert behind[end].action("show-qos")["s1u"]["in-force"] is True
    answer = behind["enb"].action("show-config")["files"]["/etc/osm-vpnaas/nf/enb.conf"]
    assert f'ipv4 = "{MME}"' in answer, "the MME's address, not the gateway's"
    with ExitStack() as stack:
        backhaul, trusted = (
            stack.enter_context(captured(behind, name, tmp_path / f"{name}.pcap"))
            for name in ("backhaul", "trusted")
        )
        behind["ue"].out("systemctl", "restart", "ue.service")
        attached(behind)
        assert reaches(behind, "-p", MARKER.hex(), "-s", "64")
    assert backhaul.count(ipsec_only()) > 10
    other = f"not {NEIGHBOURS} and not {ipsec_only()}"
    assert backhaul.count(other) == 0, backhaul.sample(other)
    assert not backhaul.holds(MARKER)
    # On the trusted side is what the tunnels carried, between eNB and network functions themselves.
    assert trusted.count(f"{SCTP} and host 10.41.0.11 and host {MME}") > 5
    assert trusted.count(f"{GTPU} and host 10.42.0.11 and host {SPGWU}") >= 6
    assert trusted.holds(MARKER)
    assert len(associations(behind["gateway"])) == 2


def test_without_the_gateway_nothing_goes_and_all_comes_back(
    behind: Service, tmp_path: Path
) -> None:
    gateway = behind["gateway"]
    gateway.out("systemctl", "stop", "strongswan")
    with captured(behind, "backhaul", tmp_path / "without.pcap") as backhaul:
        assert not reaches(behind, "-c", "2")
    gateway.out("systemctl", "start", "strongswan")
    assert backhaul.count(f"{SCTP} or {GTPU}") == 0, backhaul.sample(f"{SCTP} or {GTPU}")
    attached(behind)


pair = own_service(EPC_SECGW, "pair", "epc_secgw_ha_ns", "epc_secgw_ha")


def test_a_takeover_amid_attaches_and_a_download_loses_no_ue(pair: Service) -> None:
    attached(pair)
    ue, gateway = pair["ue"], pair["gateway1"]
    server = pair["spgwu"].action("serve-throughput", seconds=300)
    (device,) = json.loads(ue.out("ip", "-j", "-4", "addr", "show", "dev", DEVICE))
    own = device["addr_info"][0]["local"]
    # Not as an action: OSM runs those of one service one after the other.
    receive = (
        *("iperf3", "--client", server["address"], "--port", str(server["port"]), "--bind", own),
        *("--reverse", "--bitrate", "20M", "--time", "60", "--json"),
    )
    download = InBackground(lambda: ue.out(*receive, timeout=180))
    storm = InBackground(lambda: load(pair["enb"], count=120, rate=3.0))
    wait(lambda: load_runs(pair), "UEs attach", LONG)
    gateway.action("switch-over")
    assert not storm.ended
    assert not download.ended
    result = storm.result()
    assert (result["attached"], result["lost"]) == (120, 0), result
    intervals = json.loads(download.result())["intervals"]
    assert all(each["sum"]["bytes"] > 0 for each in intervals[-5:]), intervals[-5:]
    assert reaches(pair, "-c", "3")
    assert pair["gateway2"].action("show-status")["standby"]["state"] == "active"


def load_runs(service: Service) -> bool:
    shown = service["mme"].action("show-connected")
    return bool(shown["attached-ues"] > 5)
