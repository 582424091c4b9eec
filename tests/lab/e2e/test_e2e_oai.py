"""The EPC with its network functions: a UE attaches through all five tunnels.

The lab runs simulators in place of the images; they speak the real protocols. The UE runs beside
the eNB, in the image the charms use for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml
from e2e_support import EPC, NEIGHBOURS, Capture, Lab, Service, captured, gone, wait, wireguard_only

pytestmark = [pytest.mark.lab, pytest.mark.long]

PORTS = {"s6a": 51821, "s11": 51822, "s1c": 51823, "sxab": 51824, "s1u": 51825}
KEY, OPC = "449c4b91aeacd0ace182cf3a5a72bfa1", "9245cd6283cc53ce24ac1186a60dee6b"
USIM = """
UE0 : {{
    SIM : {{ MSIN = "{msin}"; USIM_API_K = "{key}"; OPC = "{opc}"; MSISDN = "1"; }};
    HPLMN = "24288";
}};
"""
START = """#!/bin/bash
set -eu
cd /opt/oai-lte-ue
/opt/oai-lte-ue/bin/conf2uedata -c /opt/oai-lte-ue/etc/ue_usim.conf -o /opt/oai-lte-ue
exec /opt/oai-lte-ue/bin/lte-uesoftmodem --rfsim
"""


@pytest.fixture(scope="module")
def oai(lab: Lab) -> Iterator[Service]:
    lab.onboard(*EPC)
    service = lab.create("oai", "epc_ns", "epc_oai")
    enb = service["enb"]
    for path, text in (("/root/ue.env", "RFSIMULATOR=127.0.0.1\n"), ("/root/start-ue.sh", START)):
        enb.out("tee", path, input=text)
    yield service
    stop_ue(service)
    gone(service)


def start_ue(service: Service, msin: str = "1234500000", key: str = KEY) -> None:
    enb = service["enb"]
    enb.out("tee", "/root/ue_usim.conf", input=USIM.format(msin=msin, key=key, opc=OPC))
    image = "docker.io/oaisoftwarealliance/oai-lte-ue:2022.w46"
    enb.out(
        *("systemd-run", "--unit", "lab-ue", "--collect", "/usr/bin/podman", "run", "--rm"),
        *("--name", "lab-ue", "--network", "host", "--privileged", "--env-file", "/root/ue.env"),
        *("--volume", "/root/ue_usim.conf:/opt/oai-lte-ue/etc/ue_usim.conf:ro"),
        *("--volume", "/root/start-ue.sh:/opt/oai-lte-ue/bin/start-ue.sh:ro"),
        *("--entrypoint", "/bin/bash", image, "/opt/oai-lte-ue/bin/start-ue.sh"),
    )


def stop_ue(service: Service) -> None:
    service["enb"].run("systemctl", "stop", "lab-ue")


def told(service: Service) -> str:
    return service["enb"].run("journalctl", "--no-pager", "-o", "cat", "-u", "lab-ue").stdout


def pings(service: Service, address: str) -> bool:
    return service["enb"].pings(address, "-I", "oaitun_ue1")


@pytest.fixture(scope="module")
def sgi(dist: Path) -> str:
    """The SPGW-U's address at the internet's side."""
    document = yaml.safe_load((dist / "params" / "epc_oai.yaml").read_text(encoding="utf-8"))
    text = json.dumps(document)
    assert "10.254.1.203" in text
    return "10.254.1.203"


def test_a_ue_attaches_through_all_tunnels_and_nothing_is_in_clear(
    oai: Service, sgi: str, tmp_path: Path
) -> None:
    captures: dict[str, Capture] = {}
    with ExitStack() as stack:
        for link in PORTS:
            context = captured(oai, link, tmp_path / f"{link}.pcap")
            captures[link] = stack.enter_context(context)
        start_ue(oai)
        wait(lambda: pings(oai, sgi), f"the UE reaches SGi: {told(oai)}", 60)
    for link, port in PORTS.items():
        assert captures[link].count(wireguard_only(port)) > 1, link
        other = f"not {NEIGHBOURS} and not {wireguard_only(port)}"
        assert captures[link].count(other) == 0, f"{link}: {captures[link].sample(other)}"

    def connected() -> bool:
        shown = oai["mme"].action("show-connected")
        return [shown[row]["now"] for row in ("enbs", "attached-ues", "s1u-bearers")] == [1, 1, 1]

    wait(connected, "the MME's table shows the UE", 60)


def test_a_peer_that_restarts_heals_without_the_others(oai: Service, sgi: str) -> None:
    oai["spgwu"].out("systemctl", "restart", "spgwu")
    wait(lambda: pings(oai, sgi), f"packets flow again: {told(oai)}", 60)


def test_without_the_hss_the_attach_is_refused_and_the_status_says_so(oai: Service) -> None:
    stop_ue(oai)
    oai["hss"].out("systemctl", "stop", "hss")
    with oai.controller() as controller:
        controller.update_status()
        assert "hss does not run" in controller.status("hss")[1]
        start_ue(oai)
        wait(lambda: "Network failure" in told(oai), "the attach is refused", 60)
        oai["hss"].out("systemctl", "start", "hss")
        wait(lambda: "is attached" in told(oai).rpartition("failure")[2], "it heals", 90)
        controller.update_status()
        assert "hss ready" in controller.status("hss")[1]
        assert "mme ready" in controller.status("mme")[1]


def test_a_wrong_key_and_an_unknown_subscriber(oai: Service) -> None:
    for how, text in (({"key": "0" * 32}, "Illegal UE"), ({"msin": "9999999999"}, "not allowed")):
        stop_ue(oai)
        start_ue(oai, **how)
        wait(lambda: text in told(oai).rpartition("Started")[2], text, 60)  # noqa: B023
