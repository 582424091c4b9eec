"""The reconcile of a network function: order, restarts, what is kept, and what is told."""

from __future__ import annotations

import json
import re
from typing import Any

import attr
import pytest
from oai import cql, enb, plan, sql, units
from oai.kinds import FUNCTIONS
from oai.params import Secrets, opc
from oai.part import of
from support.functions import (
    GIVEN,
    OP,
    SECRETS,
    K,
    Vdu,
    function_state,
    params,
    parts,
    reconcile,
)
from vpnaas.base.errors import InputError, VpnaasError
from vpnaas.vdu.steps import run

KINDS = tuple(GIVEN)


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_started_once_and_then_left_alone(kind: str) -> None:
    vdu, asked = Vdu(), function_state(kind)
    outcome = reconcile(vdu, asked)
    assert (outcome.state, outcome.summary()) == ("ready", f"{kind} ready")
    assert tuple(vdu.restarted) == FUNCTIONS[kind].names
    before = dict(vdu.files)
    assert reconcile(vdu, attr.evolve(asked, given=None)).state == "ready"
    assert tuple(vdu.restarted) == FUNCTIONS[kind].names
    assert vdu.files == before
    assert reconcile(vdu, attr.evolve(asked, restart=True)).state == "ready"
    assert tuple(vdu.restarted) == FUNCTIONS[kind].names * 2


@pytest.mark.parametrize(("kind", "link"), [("mme", "s6a"), ("spgwu", "sxab"), ("enb", "s1c")])
def test_the_first_start_waits_for_the_other_end_and_no_later_one_does(
    kind: str, link: str
) -> None:
    vdu = Vdu()
    unready = function_state(kind, parts=parts(kind, ready=False))
    for asked in (unready, function_state(kind, parts={})):
        outcome = reconcile(vdu, asked)
        assert outcome.state == "waiting"
        assert link in outcome.reason
        assert not outcome.bad
        assert vdu.restarted == []
    assert reconcile(vdu, function_state(kind)).state == "ready"
    started = list(vdu.restarted)
    # The other end went away: what runs goes on, and is still looked at.
    assert reconcile(vdu, unready).state == "ready"
    assert vdu.restarted == started


def test_links_and_addresses_that_are_missing_are_named() -> None:
    mme = function_state("mme")
    without = {name: end for name, end in mme.ends.items() if name != "s1c"}
    assert "s1c is not configured" in reconcile(Vdu(), attr.evolve(mme, ends=without)).reason
    silent = {name: attr.evolve(end, peers=()) for name, end in mme.ends.items()}
    reason = reconcile(Vdu(), attr.evolve(mme, ends=silent)).reason
    assert "waiting for the network function at the other end of s11" in reason
    assert reconcile(Vdu(), function_state("ue", parts={})).reason == "waiting for the eNB"


@pytest.mark.parametrize("kind", ["enb", "gnb"])
def test_a_base_station_tells_its_address_on_uu_once_it_has_one(kind: str) -> None:
    vdu = Vdu()
    vdu.uu = ""
    outcome = reconcile(vdu, function_state(kind))
    assert (outcome.state, outcome.reason) == ("waiting", "ens6 has no IPv4 address yet")
    assert (outcome.uu, vdu.restarted) == ("", [])
    vdu.uu = "192.168.77.10"
    outcome = reconcile(vdu, function_state(kind))
    assert (outcome.state, outcome.uu) == ("ready", "192.168.77.10")
    ports = f"tcp dport {{ {enb.RADIO_PORT} }} drop"
    assert f'iifname != {{ "lo", "ens6" }} {ports}' in vdu.files[units.RULES_FILE]


@pytest.mark.parametrize("software", ["oai", "none"])
def test_a_unit_of_somebody_else_keeps_its_file(software: str) -> None:
    path, theirs = units.UNIT_FILE.format("hss"), "[Unit]\nDescription=Our own HSS\n"
    vdu, asked = Vdu(), function_state("hss")
    vdu.files[path] = theirs
    if software == "none":
        reconcile(vdu, attr.evolve(asked, params=attr.evolve(asked.params, software="none")))
    else:
        with pytest.raises(InputError, match="hss.service: somebody else wrote this file"):
            reconcile(vdu, asked)
    assert (vdu.files[path], vdu.restarted) == (theirs, [])


@pytest.mark.parametrize(
    ("state", "file", "stays"),
    [
        ("active", "/usr/lib/systemd/system/mysql.service", True),
        ("activating", "/run/systemd/generator.late/mysql.service", True),
        ("inactive", "/usr/lib/systemd/system/mysql.service", False),
        ("active", units.UNIT_FILE.format("mysql"), False),
        ("active", "", False),  # Somebody removed our file.
    ],
)
def test_a_running_unit_of_a_package_stays(state: str, file: str, stays: bool) -> None:
    vdu, asked = Vdu(), function_state("amf")
    rows = f"ActiveState={state}", f"FragmentPath={file}", "Id=mysql.service"
    rest = "ActiveState=inactive\nFragmentPath=\nId=nrf.service"
    vdu.outputs["nf/units"] = "\n".join(rows) + "\n\n" + rest + "\n"
    if stays:
        with pytest.raises(InputError, match=f"{file}: somebody else wrote this file of the VDU"):
            reconcile(vdu, asked)
        assert (vdu.files, vdu.restarted) == ({}, [])
    else:
        assert reconcile(vdu, asked).state == "ready"


@pytest.mark.parametrize("kind", KINDS)
def test_no_container_of_somebody_else_has_the_name_of_ours(kind: str) -> None:
    vdu = Vdu()
    reconcile(vdu, function_state(kind))
    for name in FUNCTIONS[kind].names:
        unit = vdu.files[units.UNIT_FILE.format(name)]
        named = re.findall(r"(?:rm --force|run --rm --name|stop --time 10) (\S+)", unit)
        assert named == [f"osm-vpnaas-{name}"] * 3
        client = {"cassandra": cql, "mysql": sql}.get(name)
        assert client is None or client.COMMAND[0] == f"osm-vpnaas-{name}"


def test_a_unit_that_changes_stops_by_its_present_file() -> None:
    """The container of an earlier version has another name."""
    vdu, asked = Vdu(), function_state("hss")
    reconcile(vdu, asked)
    path = units.UNIT_FILE.format("cassandra")
    vdu.files[path] = vdu.files[path].replace("osm-vpnaas-cassandra", "cassandra")
    decided = plan.make_plan(asked, vdu.execute(plan.observe_steps(asked)))
    names = [step.body.get("path", step.id) for step in decided.steps]
    stop = names.index("nf/stop")
    assert stop < names.index(path) < names.index("nf/reload") < names.index("nf/restart")
    assert decided.steps[stop].body["argv"] == ["systemctl", "stop", "cassandra.service"]


def test_a_unit_that_somebody_put_in_place_of_ours_stays() -> None:
    vdu, asked = Vdu(), function_state("hss")
    reconcile(vdu, asked)
    path, theirs = units.UNIT_FILE.format("cassandra"), "[Unit]\nDescription=Our own rows\n"
    vdu.files[path] = theirs
    reconcile(vdu, attr.evolve(asked, params=attr.evolve(asked.params, software="none")))
    assert vdu.files[path] == theirs
    assert units.UNIT_FILE.format("hss") not in vdu.files


def test_only_the_container_whose_files_changed_is_restarted() -> None:
    vdu = Vdu()
    reconcile(vdu, function_state("mme"))
    vdu.restarted.clear()
    reconcile(vdu, function_state("mme", params=params("mme", **{"log-level": "debug"})))
    assert vdu.restarted == ["mme"]
    vdu.restarted.clear()
    reconcile(vdu, function_state("hss"))
    assert vdu.restarted == ["cassandra", "hss"]


def test_a_change_of_address_translation_restarts_nothing() -> None:
    vdu = Vdu()
    reconcile(vdu, function_state("spgwu"))
    vdu.restarted.clear()
    reconcile(vdu, function_state("spgwu", params=params("spgwu", **{"sgi-nat": False})))
    assert vdu.restarted == []
    assert "masquerade" not in vdu.files[units.RULES_FILE]


def test_what_somebody_edited_is_put_back_and_restarted() -> None:
    vdu = Vdu()
    reconcile(vdu, function_state("enb"))
    vdu.restarted.clear()
    vdu.files["/etc/osm-vpnaas/nf/enb.conf"] = "edited"
    assert reconcile(vdu, function_state("enb")).state == "ready"
    assert "edited" not in vdu.files["/etc/osm-vpnaas/nf/enb.conf"]
    assert vdu.restarted == ["enb"]


def test_ends_that_differ_stop_every_change_but_the_keys_are_kept() -> None:
    vdu = Vdu()
    wrong = {"s6a": (("mme", of("mme", params("mme", realm="other.example.org"), True)),)}
    outcome = reconcile(vdu, function_state("hss", parts=wrong))
    assert (outcome.state, outcome.bad) == ("failed", True)
    assert "realm of mme is other.example.org" in outcome.reason
    assert vdu.restarted == []
    assert Secrets.from_json(vdu.files["/etc/osm-vpnaas/nf/secrets.json"]) == SECRETS
    # Nobody has to give them again when the other end was put right.
    assert reconcile(vdu, function_state("hss", given=None)).state == "ready"


@pytest.mark.parametrize("kind", ["amf", "upf"])
def test_what_runs_is_ready_whatever_a_neighbour_says(kind: str) -> None:
    vdu = Vdu()
    assert reconcile(vdu, function_state(kind)).state == "ready"
    started = list(vdu.restarted)
    link = {"amf": "n2", "upf": "n3"}[kind]
    other = of("n3iwf", params("n3iwf", slices="7-000007"), True)
    around = {**parts(kind), link: (*parts(kind)[link], ("n3iwf", other))}
    outcome = reconcile(vdu, function_state(kind, parts=around, given=None))
    assert (outcome.state, outcome.bad, outcome.calm) == ("ready", False, True)
    assert f"{link}: slice" in outcome.summary()
    assert outcome.part is not None
    assert outcome.part.ready
    # Another neighbour's part that cannot be read is a remark too.
    outcome = reconcile(vdu, function_state(kind, unread=("x: nf-version: 9",), given=None))
    assert outcome.summary() == f"{kind} ready (x: nf-version: 9)"
    assert vdu.restarted == started
    # Where something has to change, the ends have to agree first.
    changed = params(kind, **{"log-level": "debug"})
    outcome = reconcile(vdu, function_state(kind, params=changed, parts=around, given=None))
    assert (outcome.state, vdu.restarted) == ("failed", started)


def test_a_ue_that_runs_is_ready_though_its_base_station_has_another_slice() -> None:
    vdu = Vdu()
    for slices, remark in (("", ""), ("7-000007", " (uu: slices of gnb is 7-000007; allowed: 1-0")):
        gnb = of("gnb", params("gnb", **({"slices": slices} if slices else {})), True)
        around = {"uu": (("gnb", attr.evolve(gnb, address="192.168.30.5")),)}
        outcome = reconcile(vdu, function_state("nr-ue", parts=around))
        assert (outcome.state, outcome.bad, outcome.calm) == ("ready", False, True)
        assert outcome.summary().startswith(f"nr-ue ready{remark}")
    assert vdu.restarted == ["nr-ue"]


def test_the_function_that_was_changed_is_the_one_that_failed() -> None:
    vdu = Vdu()
    assert reconcile(vdu, function_state("n3iwf")).state == "ready"
    asked = function_state("n3iwf", params=params("n3iwf", slices="7-000007"))
    outcome = reconcile(vdu, asked)
    assert outcome.state == "failed"
    assert "n3: slice" in outcome.reason
    assert vdu.restarted == ["n3iwf"]


def test_without_keys_or_engine_there_is_one_sentence() -> None:
    outcome = reconcile(Vdu(), function_state("hss", given=None))
    # Not refused: fetch-keys brings them.
    assert (outcome.bad, outcome.refused) == (True, False)
    assert outcome.reason.endswith("run configure-nf again, or fetch-keys")
    with pytest.raises(VpnaasError, match="no container engine"):
        reconcile(Vdu(engine=None), function_state("hss"))


def test_a_store_that_failed_is_told_and_what_runs_goes_on() -> None:
    vdu = Vdu()
    reconcile(vdu, function_state("hss"))
    vdu.files["/etc/osm-vpnaas/nf/secrets.json.state"] = "the store does not answer"
    vdu.restarted.clear()
    outcome = reconcile(vdu, function_state("hss", given=None))
    assert outcome.summary() == (
        "hss ready (the last fetch from the secret store failed, the earlier secrets stay: the"
        " store"
        " does not answer)"
    )
    assert vdu.restarted == []
    # Keys that the operator gives end the matter.
    other = attr.evolve(SECRETS, subscriber_key="0" * 32)
    assert reconcile(vdu, function_state("hss", given=other)).summary() == "hss ready"
    assert reconcile(vdu, function_state("hss", given=None)).summary() == "hss ready"


@pytest.mark.parametrize(
    ("seen", "state"),
    [
        ({"reasons": []}, "ready"),
        ({"reasons": ["mme is starting"], "not-ready-seconds": 10}, "starting"),
        ({"reasons": ["mme is starting"], "not-ready-seconds": 601}, "failed"),
        ({"reasons": ["mme ended"], "restarts": plan.MAX_RESTARTS}, "failed"),
    ],
)
def test_what_the_probe_saw_becomes_the_state(seen: dict[str, Any], state: str) -> None:
    vdu = Vdu()
    vdu.probe = {"units": {}, "restarts": 0, **seen}
    outcome = reconcile(vdu, function_state("mme"))
    assert outcome.state == state
    assert outcome.part is not None
    assert outcome.part.ready == (state == "ready")
    assert all(reason in outcome.summary() for reason in seen["reasons"])


def test_software_none_leaves_nothing_running_and_the_data_where_they_are() -> None:
    vdu = Vdu()
    reconcile(vdu, function_state("hss"))
    outcome = reconcile(vdu, function_state("hss", params=params("hss", software="none")))
    assert (outcome.state, outcome.summary(), outcome.part) == ("off", "", None)
    assert not any(path.startswith("/etc/systemd/system/") for path in vdu.files)
    before = dict(vdu.files)
    reconcile(vdu, function_state("hss", params=params("hss", software="none")))
    assert vdu.files == before


@pytest.mark.parametrize("kind", ["spgwu", "n3iwf"])
def test_rules_that_somebody_flushed_come_back_and_software_none_removes_them(kind: str) -> None:
    vdu = Vdu()
    reconcile(vdu, function_state(kind))
    tables, restarted = set(vdu.tables), list(vdu.restarted)
    assert len(tables) == 1
    again = vdu.files["/etc/systemd/system/nftables.service.d/osm-vpnaas-nf.conf"]
    assert f"\nExecStartPost=-/usr/sbin/nft -f {units.RULES_FILE}\n" in again
    vdu.tables.clear()  # `nft flush ruleset`
    assert reconcile(vdu, function_state(kind)).state == "ready"
    assert (vdu.tables, vdu.restarted) == (tables, restarted)
    reconcile(vdu, function_state(kind, params=params(kind, software="none")))
    assert vdu.tables == set()
    assert units.RULES_FILE not in vdu.files
    assert units.AFTER_FLUSH_FILE not in vdu.files


def test_an_n3iwf_reads_its_renewed_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    vdu, asked = Vdu(), function_state("n3iwf")
    reconcile(vdu, asked)
    made: list[list[str]] = []
    vdu._run = lambda argv, run=vdu._run: (made.append(argv), run(argv))[1]  # type: ignore[method-assign]
    renewal = [run("nf/certificate/renew", "openssl")]
    monkeypatch.setattr(plan.n3iwf, "renewal_steps", lambda params, results: renewal)
    reconcile(vdu, asked)
    assert vdu.restarted == ["n3iwf", "n3iwf"]
    assert made.index(["openssl"]) < [words[:2] for words in made].index(["systemctl", "restart"])


def test_files_are_shown_without_keys() -> None:
    outcome = reconcile(Vdu(), function_state("ue"))
    text = json.dumps(dict(outcome.files))
    assert "********" in text
    for secret in (OP, K, opc(K, OP)):
        assert secret not in text


def test_a_realm_that_comes_back_gets_a_certificate_of_its_own_again() -> None:
    vdu, made = Vdu(), []
    vdu._run = lambda argv, run=vdu._run: (made.append(argv), run(argv))[1]  # type: ignore[method-assign]
    for realm in ("a.example", "b.example", "b.example", "a.example"):
        asked = function_state("hss", params=params("hss", realm=realm), parts={})
        assert reconcile(vdu, asked).state == "ready"
    names = [words[words.index("-subj") + 1] for words in made if "-subj" in words]
    assert names == ["/CN=hss.a.example", "/CN=hss.b.example", "/CN=hss.a.example"]
