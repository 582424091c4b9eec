"""A 5G core secures its own links, and a UE has a PDU session in its slice.

No manual step is needed. The lab's simulators stand for the network functions' images and speak the
real protocols.

Cast: amf, smf, upf, gnb, ue (`5gc_ue_ns`).

Seen:
- every function is ready after `ns-create`, and all its links are up;
- packets of the session pass every tunnel; a capture of each network has WireGuard only;
- a gNB of another tracking area and a wrong subscriber are refused with a sentence;
- keys and passwords are on their own VDUs only.
"""

from contextlib import ExitStack
from pathlib import Path

import pytest
from e2e_support import (
    CORE_5G,
    ActionError,
    Service,
    Vnf,
    own_service,
    wait,
)
from e2e_ue import DEVICE, FIRST_IMSI, LONG, OP, K
from e2e_wire import Capture, captured, esp, ipsec_only, wireguard_only
from support.filters import NEIGHBOURS
from vpnaas.base.links import REFERENCE_POINTS

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.schedule(order=-3)]

N6 = "10.254.2.30"
IMSI = str(FIRST_IMSI)
MARKER = b"a UE's own words"
LINKS = ("n2", "n3", "n4", "sbi")
MEMBERS = ("amf", "smf", "upf", "gnb", "ue")


def pings(ue: Vnf, count: int = 3) -> int:
    """Return how many echo requests through a PDU session were answered."""
    words = ("ping", "-n", "-c", str(count), "-i", "0.2", "-W", "2", "-I", DEVICE)
    shown = ue.run(*words, "-p", MARKER.hex(), "-s", "64", N6, timeout=count + 60)
    return shown.stdout.count("bytes from")


core = own_service(CORE_5G, "5g", "5gc_ue_ns", "5gc_ue", MEMBERS)
ipsec_core = own_service(CORE_5G, "5g-ipsec", "5gc_ue_ns", "5gc_ue_ipsec", MEMBERS)
by_technology = pytest.mark.parametrize("made", ["core", "ipsec_core"])


@by_technology
def test_every_network_function_is_ready_after_ns_create(
    made: str, request: pytest.FixtureRequest
) -> None:
    core = request.getfixturevalue(made)
    shown = core.record()["lab"]["charms"]
    for name in MEMBERS:
        assert shown[core[name].application]["status"] == "active"


@by_technology
def test_a_session_passes_all_tunnels_and_nothing_is_in_clear(
    made: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    core = request.getfixturevalue(made)
    captures: dict[str, Capture] = {}
    with ExitStack() as stack:
        for link in LINKS:
            context = captured(core, link, tmp_path / f"{link}.pcap")
            captures[link] = stack.enter_context(context)
        core["ue"].action("restart-nf")
        wait(lambda: pings(core["ue"], count=1) == 1, "the UE reaches N6", LONG)
        assert pings(core["ue"]) == 3
    for link in LINKS:
        port = REFERENCE_POINTS[link].listen_port
        packets, allowed = wireguard_only(port), wireguard_only(port)
        if made == "ipsec_core":
            packets, allowed = esp(), ipsec_only()
        assert captures[link].count(packets) > 1, link
        other = f"not {NEIGHBOURS} and not {allowed}"
        assert captures[link].count(other) == 0, f"{link}: {captures[link].sample(other)}"
        assert not captures[link].holds(MARKER)


def test_who_is_connected_is_told_by_slice(core: Service) -> None:
    def connected() -> bool:
        answer = core["amf"].action("show-connected")
        states = {ue["imsi"]: ue["state"] for ue in answer["ues"]}
        return len(answer["gnbs"]) == 1 and "REGISTERED" in states.get(IMSI, "")

    wait(connected, "the AMF's tables show gNB and UE", LONG)
    (session,) = core["smf"].action("show-connected")["sessions"]["1-000001"]
    (own,) = core["ue"].action("show-sessions")["sessions"]
    assert (session["imsi"], session["address"]) == (IMSI, own["address"])
    assert (own["slice"], own["dnn"], own["interface"]) == ("1-000001", "internet", DEVICE)


def test_rate_and_delay_through_the_slice(core: Service) -> None:
    server = core["upf"].action("serve-throughput", seconds=300)
    assert server["address"] == N6
    for direction in ("upload", "download"):
        answer = core["ue"].action(
            "measure-throughput", server=N6, duration=1, direction=direction, slice="1-000001"
        )
        assert (answer["interface"], answer["direction"]) == (DEVICE, direction)
        assert answer["mbps"] > 0
    answer = core["ue"].action("measure-latency", server=N6, count=5, interval_ms=20)
    assert (answer["sent"], answer["received"]) == (5, 5)
    with pytest.raises(ActionError, match="no session in 2-000002; allowed: 1-000001/internet"):
        core["ue"].action("measure-latency", server=N6, slice="2-000002")


def test_subscribers_and_their_5qis(core: Service) -> None:
    amf, ue = core["amf"], core["ue"]
    listed = amf.action("list-subscribers", limit=1)
    session = {"slice": "1-000001", "dnn": "internet", "five-qi": 6}
    assert listed == {"subscribers": [{"imsi": IMSI, "sessions": [session]}], "more": True}
    answer = amf.action("set-5qi", imsi=IMSI, slice="1-000001", five_qi=9)
    assert answer["sessions"] == [{**session, "five-qi": 9}]
    with pytest.raises(ActionError, match="11 is no standardised 5QI"):
        amf.action("set-5qi", imsi=IMSI, slice="1-000001", five_qi=11)

    amf.action("remove-subscriber", imsi=IMSI)
    with pytest.raises(ActionError, match=f"{IMSI} is no subscriber"):
        amf.action("remove-subscriber", imsi=IMSI)
    amf.action("add-subscriber", imsi=IMSI, subscriber_key="0" * 32)
    assert ue.action("restart-nf")["state"] == "starting"
    assert pings(ue, count=1) == 0
    amf.action("remove-subscriber", imsi=IMSI)
    assert amf.action("add-subscriber", imsi=IMSI)["slices"] == ["1-000001"]
    assert ue.action("restart-nf")["state"] == "ready"
    wait(lambda: pings(ue, count=1) == 1, "the UE reaches N6", LONG)


def test_a_gnb_of_another_area_is_refused_before_anything_changes(core: Service) -> None:
    gnb = core["gnb"]
    given = gnb.action("show-config")["parameters"]
    del given["log-level"]
    answer = gnb.action("configure-nf", **{**given, "tac": 7})
    assert answer["state"] == "failed"
    assert "tracking area code of" in answer["reason"]
    assert pings(core["ue"]) == 3
    answer = gnb.action("configure-nf", **given)
    assert answer["state"] == "ready"


def test_keys_and_passwords_are_nowhere_but_on_their_vdus(core: Service) -> None:
    shown = core["amf"].action("show-config")
    password = core["amf"].out("cat", "/etc/osm-vpnaas/nf/database-password").strip()
    assert len(password) == 32
    for text in (OP, K, password):
        assert text not in str(shown)
        assert text not in core["amf"].out("ps", "-eo", "args")
    listening = core["amf"].listening()
    assert "tcp 127.0.0.1:3306" in listening
