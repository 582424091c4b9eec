"""Network functions of 5GS: slices, rows of the UDR, what logs tell, and the order of starts."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attr
import pytest
import yaml
from oai import logs, model, n3iwf, n3ue, nssai, plan, provision_5g, sql, units, user_traffic
from oai.n3iwf import N3iwf
from oai.nf_actions import ConnectedActions
from oai.params import expect, opc
from oai.part import decode, disagreements, encode, of
from oai.subscribers_5g import AmfSubscribers
from oai.user_traffic import SessionActions
from support.functions import (
    AUTHORITY,
    DATABASE,
    GIVEN_5G,
    OP,
    OWN,
    K,
    Vdu,
    acting,
    columns,
    function_state,
    params,
    parts,
    reconcile,
    rendered,
)
from vpnaas.base import fields, x509
from vpnaas.base.errors import InputError, VpnaasError
from vpnaas.base.links import reference_point
from vpnaas.params.intent import link_params
from vpnaas.tunnels.technology import LinkPlan
from vpnaas.vdu.steps import Results, Step

BASE = "/etc/osm-vpnaas/nf/"


# -- slices ---------------------------------------------------------------------------------------


def test_a_slice_has_one_spelling() -> None:
    assert str(nssai.snssai("x", "1-00000a")) == "1-00000A"
    for text in ("128", "128-FFFFFF", "128-ffffff"):
        one = nssai.snssai("x", text)
        assert (str(one), one.differentiator) == ("128", "FFFFFF")
    text = "1-000001/internet/6, 1-000002/factory/80"
    assert nssai.text(nssai.parse("x", text, 3)) == "1-000001/internet/6,1-000002/factory/80"


@pytest.mark.parametrize(
    ("text", "parts", "said"),
    [
        ("0", 1, "no S-NSSAI"),
        ("256-000001", 1, "no S-NSSAI"),
        ("1-1", 1, "no S-NSSAI"),
        ("1-000001; reboot", 1, "no S-NSSAI"),
        ("", 1, "no S-NSSAI"),
        ("1,1", 1, "is repeated"),
        ("1,1-ffffff", 1, "is repeated"),
        ("1-000001", 2, "is not SST-SD/DNN"),
        ("1-000001/rac/6", 3, "not an APN"),
        ("1-000001/internet/11", 3, "no standardised 5QI"),
        ("1-000001/internet/3", 3, "5QI 3 is GBR, and a default QoS flow is non-GBR"),
        ("2-000002/factory/82", 3, "5QI 82 is delay-critical GBR, and a default"),
        ("1-000001/internet/x", 3, "not a whole number"),
        ("1-000001/internet,1-000002/internet", 2, "one SST and one DNN"),
        (",".join(str(sst) for sst in range(1, 10)), 1, "more than 8 slices"),
    ],
)
def test_what_is_no_slice_is_a_sentence(text: str, parts: int, said: str) -> None:
    with pytest.raises(InputError) as caught:
        nssai.parse("slices", text, parts)
    assert said in str(caught.value)
    assert str(caught.value).startswith("slices: ")


@pytest.mark.parametrize(
    ("mine", "theirs", "text"),
    [
        ("1-000001/internet,2-000002/factory", "1-000001/internet", None),
        ("1-000001/internet", "1-000001", None),
        ("1-000001,3-000003", "1-000001,2-000002", "slices"),
        ("1-000001/internet", "1-000001/other", "DNN of slice 1-000001"),
    ],
)
def test_ends_of_a_link_agree_on_slices(mine: str, theirs: str, text: str | None) -> None:
    assert nssai.disagreement(mine, theirs) == text
    assert nssai.disagreement(theirs, mine) == text


@pytest.mark.parametrize("kind", GIVEN_5G)
def test_what_is_told_in_a_relation_is_read_back(kind: str) -> None:
    result = of(kind, params(kind), True)
    bag = encode(result)
    assert decode(bag, "x") == result
    assert not any(secret in json.dumps(bag) for secret in (K, OP))
    with pytest.raises(InputError):
        decode({**bag, "nf-slices": "1-000001/$(reboot)"}, "x")


def test_an_smf_of_another_slice_is_named() -> None:
    own = of("amf", params("amf"), True)
    other = of("smf", params("smf", slice="3-000003"), True)
    assert disagreements(own, other, "sbi", "smf") == [
        "sbi: slices of smf is 3-000003/internet; allowed: "
        "1-000001/internet,2-000002/factory, as here"
    ]
    area = of("gnb", params("gnb", tac=2), True)
    assert "tracking area code of gnb is 2" in disagreements(own, area, "n2", "gnb")[0]


# -- files ----------------------------------------------------------------------------------------


def read(kind: str, name: str, **changes: Any) -> Any:
    return yaml.safe_load(rendered(kind, **changes)[f"{BASE}{name}.yaml"])


def test_each_function_of_the_core_finds_the_others_at_inner_addresses() -> None:
    amf, smf, upf = read("amf", "amf"), read("smf", "smf"), read("upf", "upf")
    assert amf["nfs"]["amf"]["n2"] == {"interface_name": "wg-n2", "port": 38412}
    assert amf["nfs"]["amf"]["sbi"]["interface_name"] == "wg-sbi"
    assert smf["nfs"]["nrf"]["host"] == amf["nfs"]["nrf"]["host"] == "172.16.23.10"
    assert smf["nfs"]["nrf"]["sbi"]["port"] == amf["nfs"]["nrf"]["sbi"]["port"]
    assert upf["upf"]["smfs"] == [{"host": "172.16.22.20"}]
    assert (smf["register_nf"], upf["register_nf"]) == ({"general": True}, {"general": False})
    # What only its own VDU calls is on loopback, and each has a port of its own.
    assert {amf["nfs"][name]["host"] for name in ("ausf", "udr")} == {"127.0.0.1"}
    ports = [entry["sbi"]["port"] for entry in amf["nfs"].values()]
    assert len(set(ports)) == len(ports)
    outside = {e["sbi"]["port"] for e in amf["nfs"].values() if e["host"] != "127.0.0.1"}
    assert outside == {*reference_point("sbi").ports}


def test_a_slice_is_the_same_in_all_of_them() -> None:
    expected = {"sst": 1, "sd": "000001"}
    served = read("amf", "amf")["amf"]["plmn_support_list"][0]
    assert served["nssai"] == [expected, {"sst": 2, "sd": "000002"}]
    assert (served["mcc"], served["mnc"], served["tac"]) == ("242", "88", 40960)
    smf = read("smf", "smf")["smf"]["smf_info"]["sNssaiSmfInfoList"][0]
    upf = read("upf", "upf")["upf"]["upf_info"]["sNssaiUpfInfoList"][0]
    assert smf == {"sNssai": expected, "dnnSmfInfoList": [{"dnn": "internet"}]}
    assert upf == {"sNssai": expected, "dnnUpfInfoList": [{"dnn": "internet"}]}
    assert read("smf", "smf")["dnns"] == read("upf", "upf")["dnns"]
    gnb = rendered("gnb")[BASE + "gnb.conf"]
    assert "snssaiList = ({ sst = 1; sd = 0x000001; }, { sst = 2; sd = 0x000002; });" in gnb
    ue = rendered("nr-ue")[BASE + "nr-ue.conf"]
    assert 'dnn = "internet"; nssai_sst = 1; nssai_sd = 0x000001;' in ue


def test_the_ue_knows_how_long_the_mnc_is() -> None:
    assert "    nmc_size = 2;\n" in rendered("nr-ue")[BASE + "nr-ue.conf"]
    american = params("nr-ue", mcc="310", mnc="410", imsi="310410000000001")
    assert "    nmc_size = 3;\n" in rendered("nr-ue", params=american)[BASE + "nr-ue.conf"]


def test_signalling_is_never_without_integrity() -> None:
    assert "NIA0" not in read("amf", "amf")["amf"]["supported_integrity_algorithms"]


@pytest.mark.parametrize(("asked", "level"), [("error", "info"), ("debug", "debug")])
def test_who_is_connected_is_logged_at_every_level(asked: str, level: str) -> None:
    for kind in ("amf", "smf"):
        changed = params(kind, **{"log-level": asked})
        assert read(kind, kind, params=changed)["log_level"]["general"] == level
    assert read("amf", "udm", params=params("amf", **{"log-level": "error"}))["log_level"] == {
        "general": "error"
    }


# -- order ----------------------------------------------------------------------------------------


def test_the_password_of_the_database_is_made_on_the_vdu_and_kept() -> None:
    asked = function_state("amf")
    steps = {step.id: step.body for step in plan.observe_steps(asked)}
    assert steps["nf/database/make"]["unless"] == model.DATABASE_FILE
    vdu = Vdu()
    vdu.files[model.DATABASE_FILE] = DATABASE + "\n"
    outcome = reconcile(vdu, asked)
    assert outcome.state == "ready"
    assert DATABASE in vdu.files[BASE + "udr.yaml"]
    assert not any(DATABASE in text for text in outcome.files.values())
    assert not any(secret in text for text in outcome.files.values() for secret in (OP, K))


@pytest.mark.parametrize(("kind", "link"), [("smf", "sbi"), ("upf", "n4"), ("gnb", "n2")])
def test_the_first_start_waits_for_whom_it_registers_with(kind: str, link: str) -> None:
    vdu = Vdu()
    outcome = reconcile(vdu, function_state(kind, parts=parts(kind, ready=False)))
    assert (outcome.state, vdu.restarted) == ("waiting", [])
    assert f"of {link} to be ready" in outcome.reason
    assert reconcile(vdu, function_state(kind)).state == "ready"


def test_a_first_start_that_waits_for_an_added_function_says_how_to_go_on() -> None:
    waiting = function_state("smf", parts=parts("smf", ready=False), added={"sbi": ("core",)})
    reason = reconcile(Vdu(), waiting).reason
    assert reason.endswith("of sbi to be ready; repeat add-function when it is")
    related = function_state("smf", parts=parts("smf", ready=False))
    assert "add-function" not in reconcile(Vdu(), related).reason


def test_a_ue_waits_for_its_gnb() -> None:
    assert reconcile(Vdu(), function_state("nr-ue", parts={})).reason == "waiting for the gNB"


def test_another_slice_restarts_the_amf_and_the_udr_with_its_rows() -> None:
    vdu = Vdu()
    reconcile(vdu, function_state("amf"))
    vdu.restarted.clear()
    changed = params("amf", slices="1-000001/internet/6")
    assert reconcile(vdu, function_state("amf", params=changed)).state == "ready"
    assert vdu.restarted == ["udr", "amf"]
    assert vdu.files[units.UNIT_FILE.format("udr")].count("udr-provision.json") == 1


# -- rows of the UDR ------------------------------------------------------------------------------


DOCUMENT = json.loads(rendered("amf")[BASE + "udr-provision.json"])


def test_rows_have_the_columns_of_the_tables() -> None:
    tables = columns(provision_5g.schema())
    lines = list(provision_5g.statements({**DOCUMENT, "subscribers": 102}))
    assert all(line.endswith(";") and "\n" not in line for line in lines)
    rows = [re.match(r"(?:INSERT|INSERT IGNORE|REPLACE) INTO (\w+) \(([^)]*)\)", x) for x in lines]
    found = [row for row in rows if row]
    assert len(found) == 2 * 3, "keys, access and session management, in two batches"
    assert sum(line.count('"five_qi"') + line.count('"5qi"') for line in lines) == 2 * 102
    for row in found:
        assert set(row[2].split(", ")) <= tables[row[1]]
    assert "'242881234500101'" in lines[-1]
    assert opc(K, OP) in "".join(lines)


def test_a_subscriber_that_is_there_keeps_its_keys() -> None:
    line = provision_5g.authentication(["242881234500000"], K, "ab" * 16)
    assert line.startswith("INSERT IGNORE INTO AuthenticationSubscription ")


def test_a_text_in_a_statement_cannot_end_it() -> None:
    assert provision_5g.literal("o'; DROP TABLE x; -- \\") == "'o''; DROP TABLE x; -- \\\\'"


def test_what_a_subscriber_may_use_is_read_back() -> None:
    sessions = DOCUMENT["sessions"]
    lines = provision_5g.subscription(["242881234500000"], "24288", sessions, 1000)
    assert '"5qi": 80' in lines[-1]
    assert '"uplink": "1000Mbps"' in lines[-1]
    configuration = provision_5g.dnn_configuration(sessions[0], 1000)
    row = {
        "ueid": "242881234500000",
        "singleNssai": json.dumps({"sst": 1, "sd": "000001"}),
        "dnnConfigurations": json.dumps({"internet": configuration}),
    }
    text = "\t".join(row) + "\n" + "\t".join(row.values()) + "\n"
    assert sql.held(sql.table(text)) == {"242881234500000": [sessions[0]]}


# -- logs -----------------------------------------------------------------------------------------


def amf_tables(state: str) -> str:
    """Return what OAI's AMF logs, as its source renders it."""
    return f"""[2026-10-05 11:45:03.845] [amf_app] [info]
   |---------------------------------------------------------------------------------------|
   |---------------------------------gNBs' Information------------------------------------|
   |  Index |       Status       |      Global Id     |      gNB Name      |     PLMN      |
   |    1   |      Connected     |       0x0E00       |     osm-vpnaas     |    242,88     |
   |---------------------------------------------------------------------------------------|

   |---------------------------------------------------------------------------------------|
   |----------------------------------UEs' Information------------------------------------|
   | Index |  5GMM State |  IMSI/SUPI  |  GUTI  | RAN UE NGAP ID | AMF UE NGAP ID | PLMN | Cell Id |
   |   1   | {state} | 242881234500000 | 24288010041304846098 | 0x01 | 0x03 | 242,88 | 000E0001 |
   |---------------------------------------------------------------------------------------|
"""


def test_the_last_complete_tables_of_the_amf_count() -> None:
    log = amf_tables("5GMM-DEREGISTERED") + amf_tables("5GMM-REGISTERED")
    result = logs.connected(log + amf_tables("x")[:420])
    assert result["gnbs"] == [
        {"status": "Connected", "id": "0x0E00", "name": "osm-vpnaas", "plmn": "242,88"}
    ]
    assert [(ue["imsi"], ue["state"]) for ue in result["ues"]] == [
        ("242881234500000", "5GMM-REGISTERED")
    ]


def test_tables_without_rows_and_no_tables() -> None:
    none = "   |    -   |   -   |   -   |   -   |   -   |\n"
    empty = re.sub(r" +\| +1 +\|.*\n", none, amf_tables("x"))
    assert logs.connected(empty) == {"gnbs": [], "ues": []}
    with pytest.raises(VpnaasError, match="has shown no tables yet"):
        logs.connected("nothing")


CONTEXT = """[2026-09-19 19:31:15.922] [smf_app] [info] SMF context:\x20

SMF CONTEXT:
SUPI:\t\t\t\timsi-{imsi}
PDU SESSION:\t\t\t\t
\tPDU Session ID:\t\t\t1
\tDNN:\t\t\tinternet
\tS-NSSAI:\t\t\tsst, sd: 1, 00000a
\tPDN type:\t\tIPV4
\tPAA IPv4:\t\t{address}
\tDefault QFI:\t\t6
\tSEID:\t\t\t2
"""


@pytest.mark.parametrize(
    ("start", "shown"),
    [("0", [0, 1]), ("since", [1]), ("all", []), ("999999", [0, 1]), ("", [0, 1]), ("²", [0, 1])],
)
def test_sessions_are_those_of_the_smf_that_runs(
    start: str, shown: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log goes on in the file of the one before; a shorter file was rotated."""
    imsis = ("242881234500000", "242881234500001")
    parts = [CONTEXT.format(imsi=imsi, address="10.46.0.2") for imsi in imsis]
    log = "".join(parts)
    offset = {"since": str(len(parts[0])), "all": str(len(log))}.get(start, start)
    results = Results(
        {
            "active": {"code": 0, "out": "active"},
            "start": {"text": offset + "\n"},
            "size": {"code": 0, "out": f"{len(log)} 1796120000\n"},
            "now": {"code": 0, "out": "1796120060\n"},
            "log": {"code": 0, "out": log},
        }
    )
    vdu = SimpleNamespace(execute=lambda steps, exclusive: results)
    answer = acting(ConnectedActions, "smf", vdu).show_connected({})
    sessions = answer["sessions"]
    assert answer["seconds-since-logged"] == 60
    assert [one["imsi"] for one in sessions.get("1-00000A", [])] == [imsis[n] for n in shown]


@pytest.mark.parametrize("kind", ["mme", "amf", "smf"])
def test_tables_of_a_function_that_hangs_are_not_shown_as_those_of_now(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It logs one every 10 s. An SMF is silent while no session changes."""
    log = tmp_path / "log"
    log.write_text("a table\n")
    monkeypatch.setitem(logs.CONNECTED, kind, lambda text: {"shown": text})

    def execute(steps: list[Step], exclusive: bool) -> Results:
        found: dict[str, Any] = {"active": {"code": 0, "out": "active"}, "start": {"text": "0"}}
        for step in steps[2:]:
            argv = [word.replace(f"/var/log/{kind}.log", str(log)) for word in step.body["argv"]]
            done = subprocess.run(argv, capture_output=True, text=True, check=True)
            found[step.id] = {"code": 0, "out": done.stdout}
        return Results(found)

    action = acting(ConnectedActions, kind, SimpleNamespace(execute=execute))
    for age in (20, 40, -7200):  # The last one: the clock jumped back by two hours since.
        at = time.time() - age
        os.utime(log, (at, at))
        if kind != "smf" and age != 20:
            with pytest.raises(VpnaasError, match="has logged nothing for half a minute"):
                action.show_connected({})
        else:
            answer = action.show_connected({})
            assert answer.pop("seconds-since-logged", None) in (
                range(abs(age) - 1, abs(age) + 2) if kind == "smf" else (None,)
            )
            assert answer == {"shown": "a table\n"}


def test_sessions_are_those_of_the_last_context_of_each_subscriber() -> None:
    log = "".join(
        CONTEXT.format(imsi=imsi, address=address)
        for imsi, address in (("242881234500000", "10.46.0.2"), ("242881234500001", "10.46.0.3"))
    )
    gone = "SMF CONTEXT:\nSUPI:\t\t\t\timsi-242881234500001\n"
    assert logs.sessions(log + gone) == {
        "1-00000A": [
            {
                "imsi": "242881234500000",
                "id": "1",
                "dnn": "internet",
                "address": "10.46.0.2",
                "qfi": "6",
            }
        ]
    }


def test_a_change_of_translation_restarts_no_upf() -> None:
    vdu = Vdu()
    reconcile(vdu, function_state("upf"))
    vdu.restarted.clear()
    asked = attr.evolve(function_state("upf"), params=params("upf", **{"n6-nat": False}))
    reconcile(vdu, asked)
    assert vdu.restarted == []
    assert "masquerade" not in vdu.files[units.RULES_FILE]


# -- non-3GPP access ------------------------------------------------------------------------------


def test_an_n3iwf_tells_where_it_is_and_whom_its_ues_have_to_trust() -> None:
    vdu, asked = Vdu(), function_state("n3iwf")
    vdu.uu = OWN
    trust = n3iwf.files(expect(N3iwf, params("n3iwf")))[2]
    vdu.files[trust] = x509.armour(AUTHORITY, x509.CERTIFICATE)
    outcome = reconcile(vdu, asked)
    assert outcome.uu == OWN
    assert outcome.part is not None
    assert (outcome.part.inner, outcome.part.authority) == ("10.45.0.1", AUTHORITY)
    result = attr.evolve(outcome.part, address=OWN)
    assert decode(encode(result), "x") == result
    document = json.loads(vdu.files[BASE + "n3iwfcfg.yaml"])["configuration"]
    assert document["ikeBindAddress"] == OWN


@pytest.mark.parametrize("lacking", ["inner", "authority", "address"])
def test_a_ue_waits_until_its_n3iwf_told_everything(lacking: str) -> None:
    vdu, asked = Vdu(), function_state("n3ue")
    ((name, result),) = asked.parts["nwu"]
    outcome = reconcile(
        vdu, attr.evolve(asked, parts={"nwu": ((name, attr.evolve(result, **{lacking: ""})),)})
    )
    assert (outcome.state, outcome.reason) == ("waiting", "waiting for the N3IWF")
    assert not vdu.restarted
    assert reconcile(vdu, asked).state == "ready"


def test_an_authority_that_is_none_is_refused() -> None:
    bag = encode(attr.evolve(of("n3iwf", params("n3iwf"), True), authority="bm8="))
    with pytest.raises(InputError, match="x: nf-authority"):
        decode(bag, "x")


@pytest.mark.parametrize("kind", ["amf", "upf"])
def test_an_n3iwf_stands_where_a_gnb_does(kind: str) -> None:
    link = {"amf": "n2", "upf": "n3"}[kind]
    own, other = (of(name, params(name), True) for name in (kind, "n3iwf"))
    assert disagreements(own, other, link, "n3iwf") == []
    (said,) = disagreements(own, attr.evolve(other, kind="n3ue"), link, "it")
    assert said == f"{link}: it is a network function n3ue; allowed: gnb or n3iwf"
    if kind == "amf":
        (said,) = disagreements(own, attr.evolve(other, tac="7"), link, "n3iwf")
        assert "tracking area code" in said


def test_an_n3iwf_and_ike_of_a_link_cannot_have_the_same_ports() -> None:
    address = fields.interface_address("x", "172.16.20.40/24")
    assert plan.unfit("n3iwf", "n2", "wireguard", address) == ""
    assert plan.unfit("gnb", "n2", "ipsec", address) == ""
    said = plan.unfit("n3iwf", "n2", "ipsec", address)
    assert said.startswith("n2: ipsec takes the ports 500 and 4500")
    six = fields.interface_address("x", "fd00::1/64")
    assert "not IPv4" in plan.unfit("gnb", "n2", "wireguard", six)


@pytest.mark.parametrize(
    ("kind", "technology", "carries", "has"),
    [
        ("smf", "wireguard", "wg-n4", "wg-n4"),
        ("smf", "ipsec", "ipsec0", "xf-n4"),
        ("smf", "ipsec", "ens4", "xf-n4"),
        ("smf", "none", "ens4", "ens4:n4"),
        ("smf", "none", "a-long-one-0", "a-long-one-0:n4"),
        ("smf", "none", "a-longer-one-0", "a-longer-one-0"),
        ("gnb", "none", "ens4", "ens4"),
    ],
)
def test_a_function_is_told_the_interface_that_has_its_address(
    kind: str, technology: str, carries: str, has: str
) -> None:
    given = {"link": "n4", "inner-address": "172.16.22.20/24", "technology": technology}
    assert plan.address_interface(kind, LinkPlan(link_params(given), interface=carries)) == has


def test_slices_that_the_wifi_ue_cannot_write_are_refused() -> None:
    with pytest.raises(InputError, match="sessions: slice 128: .*SST 1 to 15"):
        params("n3ue", sessions="128/internet")


def test_a_session_that_could_not_be_read_back_is_not_stored() -> None:
    changes: list[Any] = []
    group = acting(SessionActions, "n3ue")
    group.function.params = lambda: params("n3ue", sessions="1/internet")
    group.function.change = changes.append
    with pytest.raises(InputError, match="establish-session: sessions: slice 16: .*SST 1 to 15"):
        group.establish_session({"slice": "16", "dnn": "factory"})
    group.establish_session({"slice": "2", "dnn": "factory"})
    assert [change.sessions for change in changes] == ["1/internet,2/factory"]


def test_devices_of_sessions_are_found_by_their_identity() -> None:
    shown = (
        "2: ens4    inet 192.168.25.50/24 brd 192.168.25.255 scope global ens4\n"
        "9: ipsec-default    inet 10.45.0.2/32 scope global ipsec-default\n"
        "10: gretun-id-3-1@NONE    inet 10.47.0.2/32 scope global gretun-id-3-1\n"
        "11: gretun-id-2-6    inet 10.46.0.2/32 scope global gretun-id-2-6\n"
    )
    results = Results({"nf/devices": {"code": 0, "out": shown}})
    assert n3ue.devices(results, 2) == {
        1: ("gretun-id-2-6", "10.46.0.2"),
        2: ("gretun-id-3-1", "10.47.0.2"),
    }


def test_all_sessions_of_a_ue_are_one_round_trip() -> None:
    asked = params("nr-ue", sessions="1-000001/internet,2-000002/factory")
    trips: list[list[str]] = []

    def execute(steps: list[Step], exclusive: bool) -> Results:
        trips.append([step.id for step in steps])
        shown = json.dumps([{"addr_info": [{"local": "10.46.0.2"}]}])
        gone = {"code": 1, "out": "", "err": "Device does not exist"}
        return Results({"oaitun_ue1": {"code": 0, "out": shown}, "oaitun_ue1p2": gone})

    vdu: Any = SimpleNamespace(execute=execute)
    function = acting(SessionActions, "nr-ue").function
    function.params = lambda: asked
    found = {1: ("oaitun_ue1", "10.46.0.2"), 2: ("oaitun_ue1p2", "")}
    assert user_traffic._devices("nr-ue", vdu, asked) == found
    for slice in ("first", "1-000001"):
        assert user_traffic._connection(function, vdu, {"slice": slice}) == found[1]
    assert trips == [["oaitun_ue1", "oaitun_ue1p2"]] * 3
    with pytest.raises(VpnaasError, match="not attached: oaitun_ue1p2 has no address"):
        user_traffic._connection(function, vdu, {"slice": "2-000002"})
    with pytest.raises(InputError, match="slice: no session in 3"):
        user_traffic._connection(function, vdu, {"slice": "3"})


def test_a_list_of_a_thousand_subscribers_fits_an_answer() -> None:
    imsis = [f"24288123450{number:04}" for number in range(1001)]
    own = {"singleNssai": '{"sst": 1, "sd": "000001"}', "dnnConfigurations": '{"internet": {}}'}
    group = acting(AmfSubscribers, "amf")

    def answered(_: object, statement: str) -> list[dict[str, str]]:
        return [{"ueid": imsi, **own} for imsi in imsis]

    group.database.rows = answered
    answer = group.list_subscribers({"limit": 1000})
    assert answer["more"] is True
    assert 400 < len(answer["subscribers"]) < 1000
    few = group.list_subscribers({"limit": 3})
    assert ([one["imsi"] for one in few["subscribers"]], few["more"]) == (imsis[:3], True)


def test_connections_of_nas_are_the_registered_ues() -> None:
    shown = "0 0 10.45.0.1:20000 10.45.0.10:4001\n0 0 10.45.0.1:20000 10.45.0.9:4000\n"
    results = Results({"nf/nas": {"code": 0, "out": shown}})
    listed = [{"inner-address": "10.45.0.9"}, {"inner-address": "10.45.0.10"}]
    assert n3iwf.connected(results) == listed
