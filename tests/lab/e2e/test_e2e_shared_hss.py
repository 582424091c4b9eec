"""Two slices whose cores share an HSS, which is a service of its own.

S6a is joined afterwards.

Cast: hss (`hss_ns`); mme, spgwc, spgwu, enb (`embb_shared_nst`, `urllc_shared_nst`).

Seen:
- a UE attaches in each slice by the one HSS.
"""

import pytest
from e2e_support import SHARED_HSS, InBackground, Lab, Service, Vnf, make_together, wait
from e2e_ue import DEVICE, FIRST_IMSI, LONG, OP, SGI, K
from oai import ue
from oai.params import Secrets
from oai.ue import Ue
from oai.values import Plmn

from operate.client import Client
from operate.join import End, join, part

pytestmark = [pytest.mark.lab, pytest.mark.long]

HSS = "192.168.8.129"


def attach(enb: Vnf, number: int) -> None:
    """Let a subscriber's UE attach at a cell, on the VDU of the eNB."""
    asked = Ue(Plmn("242", "88"), "", imsi=str(FIRST_IMSI + number), msisdn="24288880000001")
    enb.out("mkdir", "-p", "/tmp/ue")
    enb.out("tee", "/tmp/ue/.ue_usim.conf", input=ue.configuration(asked, Secrets(OP, K)))
    enb.out(
        *("systemd-run", "--unit=test-ue", "--working-directory=/tmp/ue"),
        *("--setenv=RFSIMULATOR=127.0.0.1", "/usr/lib/osm-lab/launch", "ue", "--rfsim"),
    )
    wait(lambda: pings(enb, 1) == 1, f"{enb.index}: the UE reaches SGi", LONG)


def pings(enb: Vnf, count: int) -> int:
    """Return how many echo requests of the UE were answered."""
    words = ("ping", "-n", "-c", str(count), "-i", "0.5", "-W", "2", "-I", DEVICE, SGI)
    return enb.run(*words, timeout=count + 60).stdout.count("bytes from")


def sessions(hss: Vnf) -> list[str]:
    return hss.out("ss", "-Htn", "state", "established", "sport = :3868").splitlines()


def leave(lab: Lab, client: Client, hss: End, name: str) -> None:
    part(client, hss, End.parse(f"{name}.core/mme:s6a"))
    lab.done("nsi-delete", name, "--wait")


def test_a_ue_attaches_in_each_slice_of_a_shared_hss(lab: Lab) -> None:
    lab.onboard(*SHARED_HSS)
    make_together(
        lab,
        ("embb", "embb_shared_nst", "embb_shared_oai"),
        ("urllc", "urllc_shared_nst", "urllc_shared_oai"),
    )
    names = {row["name"] for row in lab.engine.store.all("nsrs")}
    (hub,) = names & {"embb.hss", "urllc.hss"}
    hss = Service(lab, hub)
    cores = {name: Service(lab, f"{name}.core") for name in ("embb", "urllc")}
    for core in cores.values():
        answer = core["mme"].action("health")
        assert (answer["state"], "end of s6a" in answer["reason"]) == ("waiting", True)
    client = lab.client()
    one = End.parse(f"{hub}/hss:s6a@{HSS}")
    for name, core in cores.items():
        lines = join(client, one, End.parse(f"{name}.core/mme:s6a"))
        assert len(lines) == 4, lines
        mme = core["mme"]
        wait(mme.ready, f"{name}: MME ready", LONG)
    assert len(join(client, one, End.parse("embb.core/mme:s6a"))) == 4, "again does no harm"
    # Two MMEs of one HSS, each by its own name.
    assert len(sessions(hss["hss"])) == 2
    for number, core in enumerate(cores.values(), start=1):
        enb = core["enb"]
        wait(enb.ready, "the eNB is ready", LONG)
        attach(enb, number)
    # One leaves while the other has traffic.
    leaving = InBackground(lambda: leave(lab, client, one, "embb"))
    while not leaving.ended:
        assert pings(cores["urllc"]["enb"], 10) >= 9
    leaving.result()
    assert cores["urllc"]["mme"].ready()
    assert any("172.16.6.3" in row for row in sessions(hss["hss"])), "of the MME that stays"
    lab.done("nsi-delete", "urllc", "--wait")
