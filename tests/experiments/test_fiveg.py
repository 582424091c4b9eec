"""Slices of a 5G network as campaigns make them, and what keeps their sessions apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
from support.dist import built

from builder import packages
from builder.check import archives
from builder.tree import Tree
from builder.validate import Catalog, validate_params
from experiments import dependability, fiveg, qos, reach, sessions
from experiments.slices import EMBB, MMTC, URLLC
from experiments.testbed import LINKS, Addresses, Slice, Vnf

SHARED_LINKS = {"n3", "sbi"}
TWO, THREE = (EMBB, URLLC), (EMBB, URLLC, MMTC)


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    names = [f"{name}_5g_nst" for name in THREE]
    return built(tmp_path_factory, ["5gc_shared_ns", fiveg.NSD, *names])


def test_slices_are_valid_and_their_own_links_share_no_address(dist: Path, tmp_path: Path) -> None:
    made = fiveg.packages(dist, tmp_path, THREE)[len(fiveg.VNFS) :]
    known = packages.catalogue(Tree.find(Path(__file__).parent)).values()
    catalog, problems = archives(made, [package for package in known if package.kind == "vnf"])
    assert problems == []
    used: dict[tuple[str, str], str] = {}
    for slice_ in fiveg.requests(dist, THREE):
        alone = Catalog(vnfds=catalog.vnfds, nsds=catalog.nsds,
                        nsts={slice_.descriptor: catalog.nsts[slice_.descriptor]})  # fmt: skip
        assert validate_params("nsi", slice_.document, alone) == []
        table = Addresses.of(slice_.parameters)
        for kind in (table.inner, table.outer):
            for (vnf, link), address in kind.items():
                assert used.setdefault((address, link), slice_.name) == slice_.name, (vnf, link)
        networks = {a.rpartition(".")[0] for (_, link), a in table.outer.items()
                    if link not in SHARED_LINKS}  # fmt: skip
        assert {used.setdefault((net, "net"), slice_.name) for net in networks} == {slice_.name}


def test_the_ue_is_the_first_subscriber_and_has_a_session_in_each_slice(dist: Path) -> None:
    first, second = fiveg.requests(dist, TWO)
    members = first.part(fiveg.SHARED)["additionalParamsForVnf"]
    values = {one["member-vnf-index"]: one["additionalParams"] for one in members}
    assert values["ue"]["nf_imsi"] == values["amf"]["nf_first_imsi"] == "24288" + fiveg.MSIN
    assert values["ue"]["nf_sessions"] == "1-000001/internet,2-000002/factory"
    served = {one["member-vnf-index"]: one["additionalParams"]
              for one in second.parameters["additionalParamsForVnf"]}  # fmt: skip
    assert f"{served['smf']['nf_slice']}/{served['smf']['nf_dnn']}" == fiveg.SESSIONS[URLLC]
    assert (served["upf"]["n3_five_qi"], served["upf"]["n3_guaranteed_mbps"]) == (
        qos.URLLC,
        qos.URLLC_MBPS,
    )
    assert served["upf"]["allow_experiments"] == values["gnb"]["allow_experiments"] == "yes"


class Ue(Vnf):
    """A UE whose session in one slice may lead to another data network as well."""

    leaks: tuple[str, str] = ("", "")
    answers = 5
    reason = "10.254.2.30 did not answer any of 5 echo requests"

    def action(self, primitive: str, /, **params: object) -> dict[str, Any]:
        way = str(params["slice"]), str(params["server"])
        leads = way[0][0] == way[1][-1] or way == self.leaks
        if leads and self.answers:
            return {"sent": params["count"], "received": self.answers}
        raise click.ClickException(self.reason)


class Smf(Vnf):
    """An SMF that has the sessions of its own slice."""

    told: tuple[str, ...] = ()

    def action(self, primitive: str, /, **params: object) -> dict[str, Any]:
        return {"sessions": {snssai: [] for snssai in self.told}}


class Bed:
    """Two slices whose UPFs have the last octet of their S-NSSAI's SST on N6."""

    def __init__(self, leaks: tuple[str, str] = ("", ""), foreign: str = "") -> None:
        ue = Ue("shared", *[""] * 8, None)  # type: ignore[arg-type]
        object.__setattr__(ue, "leaks", leaks)
        self.slices = {"shared": Slice("shared", "", Addresses({}, {}), {"ue": ue})}
        for number, name in enumerate((EMBB, URLLC), 1):
            smf = Smf(name, *[""] * 8, None)  # type: ignore[arg-type]
            own = f"{number}-00000{number}"
            object.__setattr__(smf, "told", (own, foreign) if foreign else (own,))
            member = {"member-vnf-index": "smf", "additionalParams": {"nf_slice": own}}
            self.slices[name] = Slice(
                name,
                "",
                Addresses({}, {("upf", "n6"): f"10.254.{number}.{number}"}),
                {"smf": smf, "upf": smf},
                {"additionalParamsForVnf": [member]},
            )


def test_sessions_hold_where_each_leads_to_its_own_data_network() -> None:
    result, good = sessions.run(Bed(), 5)  # type: ignore[arg-type]
    assert good
    assert result["answered"] == {
        "embb>embb": 5, "embb>urllc": 0, "urllc>embb": 0, "urllc>urllc": 5,
    }  # fmt: skip


@pytest.mark.parametrize(("answers", "holds"), [(1, True), (0, False)])
def test_a_lost_echo_is_no_leak_but_a_session_that_leads_nowhere_is_no_separation(
    monkeypatch: pytest.MonkeyPatch, answers: int, holds: bool
) -> None:
    monkeypatch.setattr(Ue, "answers", answers)
    result, good = sessions.run(Bed(), 5)  # type: ignore[arg-type]
    assert result["answered"]["embb>embb"] == answers
    assert good is holds


@pytest.mark.parametrize(
    "bed", [Bed(leaks=("1-000001", "10.254.2.2")), Bed(foreign="2-000002")]
)  # fmt: skip
def test_a_leak_and_a_session_of_another_slice_are_seen(bed: Bed) -> None:
    _, good = sessions.run(bed, 5)  # type: ignore[arg-type]
    assert not good


def test_a_ue_that_cannot_measure_gives_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ue, "reason", "no PDU session in slice 1-000001 yet")
    with pytest.raises(click.ClickException, match="no PDU session"):
        sessions.run(Bed(), 5)  # type: ignore[arg-type]


def test_mmtc_has_no_rates_of_its_own(dist: Path) -> None:
    *_, mmtc = fiveg.requests(dist, THREE)
    assert mmtc.name == MMTC
    assert mmtc.service == "mmtc.slice"


def network() -> dict[str, Slice]:
    """Return what two slices share, and the slices."""

    def vnfs(name: str, *members: str) -> dict[str, Vnf]:
        return {one: Vnf(name, name, one, *[""] * 6, None) for one in members}  # type: ignore[arg-type]

    shared = Slice("shared", "", Addresses({}, {}), vnfs("shared", "amf", "gnb", "ue"), {},
                   fiveg.SHARED_LINKS)  # fmt: skip
    made = {"shared": shared}
    for name in TWO:
        own = vnfs(name, "smf", "upf")
        made[name] = Slice(
            name, "", Addresses({}, {}), own, {}, fiveg.LINKS, shared=shared.vnfs
        )  # fmt: skip
    return made


def test_those_with_a_link_are_no_strangers_also_across_services() -> None:
    class Both:
        slices = network()

        def all_vnfs(self) -> list[Vnf]:
            return [vnf for one in self.slices.values() for vnf in one.vnfs.values()]

    pairs = {(str(one), str(other)) for one, other in reach.strangers(Both())}  # type: ignore[arg-type]
    for known in (
        ("embb/upf", "shared/gnb"),
        ("embb/smf", "shared/amf"),
        ("shared/gnb", "shared/amf"),
        ("embb/upf", "embb/smf"),
        ("shared/ue", "shared/gnb"),
    ):
        assert not {known, known[::-1]} & pairs
    for strange in (
        ("embb/upf", "urllc/upf"),
        ("embb/upf", "urllc/smf"),
        ("embb/upf", "shared/amf"),
        ("embb/smf", "shared/gnb"),
        ("shared/ue", "embb/upf"),
    ):
        assert {strange, strange[::-1]} <= pairs
    # Of seven VNFs: seven links and the radio.
    assert len(pairs) == 7 * 6 - 2 * (7 + 1)


def test_a_fault_is_at_the_end_that_is_the_slice_s_own() -> None:
    assert dependability._own_end(network()[EMBB]) == "upf"
    epc = {name: Vnf("a", "a", name, *[""] * 6, None) for name in ("enb", "spgwu")}  # type: ignore[arg-type]
    assert dependability._own_end(Slice("a", "", Addresses({}, {}), epc, {}, LINKS)) == "spgwu"
