"""A UE in networks as tenants have on OpenStack (1450 bytes), and in smaller ones.

Cast: spgwu, enb, ue (`epc_ue_ns`); upf, gnb, ue (`5gc_ue_ns`).

Seen:
- the user plane's tunnel has the MTU that fits into its network;
- echo requests of every size get their answers through GTP-U inside the tunnel;
- TCP runs in both directions.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e_labs import open_lab
from e2e_support import CORE_5G, EPC, Lab, Secrets, wait
from e2e_ue import LONG

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.schedule(order=-3)]

#: Service, parameters, user plane, its interface to the data network and links with their overhead.
CASES = {
    "4g": (EPC, "epc_ue_ns", "epc_ue", "spgwu", "s1u"),
    "5g": (CORE_5G, "5gc_ue_ns", "5gc_ue", "upf", "n3"),
    "5g-ipsec": (CORE_5G, "5gc_ue_ns", "5gc_ue_ipsec", "upf", "n3"),
}
OVERHEAD = {1450: 80, 1400: 60}
"""Of WireGuard; IPv4's shorter header counts in the smaller network."""


@pytest.fixture(scope="module", params=OVERHEAD)
def small(
    request: pytest.FixtureRequest,
    dist: Path,
    secrets: Secrets,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[int, Lab]]:
    config = f"{{network_mtu: {request.param}}}"
    home = tmp_path_factory.mktemp("mtu")
    for lab in open_lab(home, dist, secrets, "--config", config):
        yield request.param, lab


@pytest.mark.parametrize("case", CASES)
def test_a_ue_sends_packets_of_every_size(small: tuple[int, Lab], case: str) -> None:
    size, lab = small
    packages, nsd, params, plane, link = CASES[case]
    lab.onboard(*packages)
    service = lab.create(case, nsd, params, experiments=True)
    ue, upf = service["ue"], service[plane]
    wait(ue.ready, "the UE has a session", LONG)
    shown = upf.action("show-status", link=link)[link]
    expected = size - (85 if "ipsec" in case else OVERHEAD[size])
    assert (shown["state"], shown["mtu"]) == ("up", expected)
    server = upf.action("serve-throughput", seconds=300)["address"]
    # The UE's own MTU is 1320: larger inside GTP-U than the tunnel in the smaller network.
    for payload in (56, 1200, 1320 - 28, 1400):
        given = {"server": server, "count": 10, "interval-ms": 50, "size": payload}
        answer = ue.action("measure-latency", **given)
        assert (answer["sent"], answer["received"]) == (10, 10), payload
    for direction in ("upload", "download"):
        answer = ue.action("measure-throughput", server=server, duration=3, direction=direction)
        assert answer["mbps"] > 1, direction
    lab.done("ns-delete", case, "--wait")
