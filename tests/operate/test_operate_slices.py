"""Slices whose services are joined as OSM's records say, until their functions are ready."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any

import pytest
from operate_support import Answering, Instance

from operate.client import OperateError
from operate.slices import Joiner, Record, ends_of, follow, join_slices, statuses

POINTS = [
    {"nss-ref": "shared", "nsd-connection-point-ref": "sbi-sap"},
    {"nss-ref": "slice", "nsd-connection-point-ref": "sbi-sap"},
]
NSI = {
    "operational-status": "running",
    "network-slice-template": {
        "netslice-vld": [
            {"id": "sbi", "nss-connection-point-ref": POINTS},
            {"id": "mgmt", "mgmt-network": True, "nss-connection-point-ref": POINTS},
            # A data network: its VNFs have no link of that name.
            {"id": "n6", "nss-connection-point-ref": POINTS},
        ]
    },
    "_admin": {
        "nsrs-detailed-list": [
            {"nss-id": "shared", "nsrId": "id-1"},
            {"nss-id": "slice", "nsrId": "id-2"},
        ]
    },
}
MEMBERS = {"id-1": ("first.shared", "amf", "gnb"), "id-2": ("first.slice", "smf", "upf")}
ADDRESSES = {"amf": "192.168.23.10", "smf": "192.168.23.20"}


class Osm(Answering):
    """Records of one slice; its SMF becomes ready once it was told of a ready AMF."""

    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "asked", [])
        object.__setattr__(self, "slices", ["first"])
        object.__setattr__(self, "ready", {"amf"})
        object.__setattr__(self, "services", set())

    asked: list[tuple[str, str, str]]
    slices: list[str]
    ready: set[str]
    services: set[str]
    key = ""  # What the keys of all ends begin with.

    def verb(self, *words: str) -> str:
        rows = "".join(f"| {name} | id-of-{name} | running |\n" for name in self.slices)
        return f"+---+\n| netslice instance name | id | status |\n+---+\n{rows}+---+\n"

    def document(self, verb: str, id: str) -> dict[str, Any]:
        if verb == "nsi-show":
            if id not in self.slices:
                raise OperateError(f"no slice {id}")
            return dict(NSI)
        if verb == "vnf-show":
            interfaces = [{"ns-vld-id": "mgmt", "ip-address": "10.0.0.1"}]
            if id in ADDRESSES:
                interfaces.append({"ns-vld-id": "sbi", "ip-address": ADDRESSES[id] + ";fd00::1"})
            return {"member-vnf-index-ref": id, "vdur": [{"interfaces": interfaces}]}
        found = [i for i in MEMBERS if id in (i, MEMBERS[i][0])]
        if not found or (found == ["id-2"] and not self.slices):
            raise OperateError(f"ns-show: ERROR: ns '{id}' not found")
        name, *members = MEMBERS[found[0]]
        sapd = [{"id": "sbi-sap", "virtual-link-desc": "sbi"}]
        return {"name": name, "nsd": {"sapd": sapd}, "constituent-vnfr-ref": members}

    def answer(
        self, ns: str, vnf: str, name: str, params: dict[str, Any], instance: Instance
    ) -> dict[str, Any]:
        self.services.add(ns)
        if name == "show-status":
            result = {"nf-kind": vnf, "nf-ready": "yes" if vnf in self.ready else "no"}
            link = {
                "state": "up",
                "public-key": self.key + vnf,
                "inner-address": "172.16.23.9/24",
                "listen-port": 51829,
            }
            functions = {"functions": {"sbi": result}, "added": {"sbi": ["first-slice-smf"]}}
            return {"sbi": link, "network-function": functions}
        self.asked.append((vnf, name, params["name"]))
        if name == "add-function" and vnf == "smf" and '"nf-ready": "yes"' in params["function"]:
            self.ready.add("smf")
        return {"state": "ready", "reason": ""} if name == "add-function" else {}


def test_the_ends_are_the_vnfs_on_the_network_of_the_sap() -> None:
    ((one, other),) = ends_of(osm := Osm(), NSI, statuses(osm))
    assert (str(one), one.address) == ("first.shared/amf:sbi", "192.168.23.10")
    assert (str(other), other.address) == ("first.slice/smf:sbi", "192.168.23.20")


def test_a_slice_is_joined_until_both_ends_are_ready_and_then_left_alone() -> None:
    osm, lines = Osm(), list[str]()
    joiner = Joiner(osm, lines.append)
    join_slices(joiner, ["first"], timeout=60, pause=0)
    assert lines[-1] == "first: joined"
    # Once with an SMF that is not ready; then the AMF alone is told that it is.
    once = {("amf", "add-peer"), ("smf", "add-peer"), ("amf", "add-function")}
    assert once | {("smf", "add-function")} == {(vnf, name) for vnf, name, _ in osm.asked}
    assert len(osm.asked) == 5
    assert osm.asked[-1] == ("amf", "add-function", "first-slice-smf")
    assert osm.services == {"id-1", "id-2"}, "by name another service may be meant"
    follow(joiner, 0, range(2))
    assert len(osm.asked) == 5


def test_a_joined_slice_is_looked_at_again_for_new_keys_and_addresses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As of a VNF that was healed, or whose key was rotated."""
    osm, lines = Osm(), list[str]()
    joiner = Joiner(osm, lines.append)
    follow(joiner, 0, range(3))
    monkeypatch.setattr("operate.slices.AGAIN", 0.0)
    osm.asked.clear()
    lines.clear()
    follow(joiner, 0, range(3))
    assert (osm.asked, lines) == ([], [])
    monkeypatch.setattr(Osm, "key", "another")
    monkeypatch.setitem(ADDRESSES, "smf", "192.168.23.21")
    follow(joiner, 0, range(3))
    primitives = {("amf", "add-peer"), ("smf", "add-peer"), ("amf", "add-function")}
    assert {(vnf, name) for vnf, name, _ in osm.asked} == primitives | {("smf", "add-function")}
    assert len(osm.asked) == 4
    assert lines[-1] == "first: joined"
    assert joiner.leaving == {}
    # A function that is no longer ready is looked at until it is.
    osm.ready.discard("smf")
    lines.clear()
    follow(joiner, 0, range(1))
    assert (joiner.settled, [line for line in lines if "joined" in line]) == (set(), [])
    osm.ready.add("smf")
    monkeypatch.setattr("operate.slices.AGAIN", 600.0)
    follow(joiner, 0, range(1))
    assert (joiner.settled, lines[-1]) == ({"first"}, "first: joined")


def test_a_look_at_a_joined_slice_that_fails_is_not_repeated_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    osm, lines = Osm(), list[str]()
    joiner = Joiner(osm, lines.append)
    follow(joiner, 0, range(3))
    lines.clear()
    then = time.monotonic()
    moments = iter([700.0, *[701.0] * 9])
    monkeypatch.setattr("operate.slices.time.monotonic", lambda: then + next(moments))
    monkeypatch.setattr(osm, "answer", lambda *_: {"sbi": {"state": "blocked"}})
    follow(joiner, 0, range(3))
    assert lines == ["error: first.shared/amf:sbi has no WireGuard key, its state is blocked"]


def test_a_slice_takes_no_other_slices_place_at_a_shared_service(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`First` and `first` give their functions one name as peers."""

    class Two(Osm):
        def document(self, verb: str, id: str) -> dict[str, Any]:
            found = super().document(verb, id)
            if id == "First":
                services = [
                    {"nss-id": "shared", "nsrId": "id-1"},
                    {"nss-id": "slice", "nsrId": "3"},
                ]
                found["_admin"] = {"nsrs-detailed-list": services}
            return found

    monkeypatch.setitem(MEMBERS, "3", ("First.slice", "smf"))
    osm, lines = Two(), list[str]()
    osm.slices.append("First")
    joiner = Joiner(osm, lines.append)
    follow(joiner, 0, range(3))
    said = "error: First.slice/smf:sbi and first.slice/smf:sbi of first would be one peer"
    assert [line.startswith(said) for line in lines].count(True) == 3, lines
    assert joiner.settled == {"first"}
    # The other one may have the place when the first is gone.
    osm.slices.remove("first")
    monkeypatch.delitem(MEMBERS, "id-2")
    follow(joiner, 0, range(3))
    assert (joiner.settled, lines[-1]) == ({"First"}, "First: joined")


def test_what_a_deleted_slice_shared_forgets_it() -> None:
    osm, lines = Osm(), list[str]()
    joiner = Joiner(osm, lines.append)
    follow(joiner, 0, range(3))
    assert joiner.settled == {"first"}
    osm.asked.clear()
    osm.slices.clear()
    follow(joiner, 0, range(2))
    assert osm.asked == [
        ("amf", "delete-function", "first-slice-smf"),
        ("amf", "delete-peer", "first-slice-smf"),
    ]
    assert (joiner.pairs, joiner.introduced, joiner.settled) == ({}, {}, set())


@pytest.mark.parametrize("verb", ["delete-peer", "ns-show"])
def test_a_removal_that_fails_is_repeated_and_hinders_no_other(
    verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    osm, lines = Osm(), list[str]()
    joiner = Joiner(osm, lines.append)
    follow(joiner, 0, range(3))
    (pair,) = joiner.pairs["first"]
    joiner.pairs["first"].append((pair[0], dataclasses.replace(pair[1], vnf="upf")))
    osm.asked.clear()
    osm.slices.clear()
    answer, document, failing = Osm.answer, Osm.document, [True]

    def fail() -> None:
        if failing and failing.pop():
            raise OperateError(f"{verb}: https://osm does not answer")

    def answering(self: Osm, *words: Any) -> dict[str, Any]:
        if words[2] == verb:
            fail()
        return answer(self, *words)

    def showing(self: Osm, name: str, id: str) -> dict[str, Any]:
        if name == verb:
            fail()
        return document(self, name, id)

    monkeypatch.setattr(Osm, "answer", answering)
    monkeypatch.setattr(Osm, "document", showing)
    follow(joiner, 0, range(1))
    removed = [name for _, action, name in osm.asked if action == "delete-peer"]
    assert removed == ["first-slice-upf"]
    assert list(joiner.leaving) == ["first"]
    follow(joiner, 0, range(1))
    assert osm.asked[-1] == ("amf", "delete-peer", "first-slice-smf")
    assert joiner.leaving == {}


def test_a_new_slice_of_the_name_of_a_deleted_one_is_joined(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    osm, lines, answer = Osm(), list[str](), Osm.answer
    joiner = Joiner(osm, lines.append)
    follow(joiner, 0, range(3))

    def busy(self: Osm, *words: Any) -> dict[str, Any]:
        if words[2] == "delete-peer":
            raise OperateError("busy")
        return answer(self, *words)

    monkeypatch.setattr(Osm, "answer", busy)
    osm.slices.clear()
    follow(joiner, 0, range(1))
    osm.slices.append("first")
    osm.asked.clear()
    follow(joiner, 0, range(2))
    assert lines.count("error: busy") == 1
    assert ("amf", "add-peer", "first-slice-smf") in osm.asked
    assert joiner.settled == {"first"}


class Growing(Osm):
    """Slices get other ids each time they are made; services of a deleted slice are gone."""

    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "age", 1)

    age: int

    def anew(self) -> None:
        """Delete the slice, and make it again under its name; the shared service stays."""
        object.__setattr__(self, "age", self.age + 1)

    def verb(self, *words: str) -> str:
        return super().verb(*words).replace("id-of-", f"id-{self.age}-of-")

    def document(self, verb: str, id: str) -> dict[str, Any]:
        if verb == "ns-show" and "-of-" in id and (id != f"id-2-of-{self.age}" or not self.slices):
            raise OperateError(f"ns-show: ERROR: ns '{id}' not found")
        found = super().document(verb, id.partition("-of-")[0])
        if verb == "nsi-show":
            services = [{"nss-id": "shared", "nsrId": "id-1"},
                        {"nss-id": "slice", "nsrId": f"id-2-of-{self.age}"}]  # fmt: skip
            return {**found, "_id": f"id-{self.age}-of-{id}",
                    "_admin": {"nsrs-detailed-list": services}}  # fmt: skip
        if verb == "ns-show":
            return {**found, "_id": "id-1" if "shared" in found["name"] else f"id-2-of-{self.age}"}
        return found


def test_a_slice_made_again_under_its_name_between_two_looks_is_joined() -> None:
    osm, lines = Growing(), list[str]()
    joiner = Joiner(osm, lines.append)
    follow(joiner, 0, range(3))
    assert joiner.settled == {"first"}
    osm.asked.clear()
    osm.anew()
    follow(joiner, 0, range(3))
    # The old key goes from the shared service before the new one comes; the service that has the
    # old one's name now is not told to forget anything.
    assert osm.asked[:3] == [
        ("amf", "delete-function", "first-slice-smf"),
        ("amf", "delete-peer", "first-slice-smf"),
        ("amf", "add-peer", "first-slice-smf"),
    ]
    assert ("smf", "delete-peer", "first-shared-amf") not in osm.asked
    assert lines.count("first: joined") == 2


@pytest.mark.parametrize("again", [False, True])
def test_a_restarted_joiner_knows_what_it_joined(tmp_path: Path, again: bool) -> None:
    osm, lines, record = Growing(), list[str](), Record(tmp_path / "state" / "joined.json")
    follow(Joiner(osm, lines.append, record), 0, range(3))
    osm.asked.clear()
    if again:
        osm.anew()
    else:
        osm.slices.clear()
    joiner = Joiner(osm, lines.append, record)
    follow(joiner, 0, range(3))
    assert osm.asked[:2] == [
        ("amf", "delete-function", "first-slice-smf"),
        ("amf", "delete-peer", "first-slice-smf"),
    ]
    assert (joiner.settled, bool(record.read())) == (({"first"}, True) if again else (set(), False))


def test_a_removal_that_failed_is_repeated_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    osm, lines, record = Growing(), list[str](), Record(tmp_path / "joined.json")
    follow(Joiner(osm, lines.append, record), 0, range(3))
    osm.slices.clear()
    answer, failing = Osm.answer, [True, True]

    def busy(self: Osm, *words: Any) -> dict[str, Any]:
        if words[2] == "delete-peer":
            if failing and failing.pop():
                raise OperateError("busy")
            if ("amf", "delete-peer", "first-slice-smf") in self.asked:
                raise OperateError(
                    "delete-peer: name: link sbi has no manual peer 'first-slice-smf'"
                )
        return answer(self, *words)

    monkeypatch.setattr(Osm, "answer", busy)
    follow(Joiner(osm, lines.append, record), 0, range(1))
    for _ in range(2):
        joiner = Joiner(osm, lines.append, record)
        follow(joiner, 0, range(2))
    assert [name for _, name, _ in osm.asked].count("delete-peer") == 1
    assert (joiner.leaving, record.read()) == ({}, {})


def test_what_a_deleted_slice_left_is_removed_after_a_restart_beside_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new slice of the same name has another member at the shared service."""
    osm, lines, record = Growing(), list[str](), Record(tmp_path / "joined.json")
    follow(Joiner(osm, lines.append, record), 0, range(3))
    answer, failing = Osm.answer, ["now"]

    def busy(self: Osm, *words: Any) -> dict[str, Any]:
        if words[2] == "delete-peer" and failing:
            raise OperateError("busy")
        return answer(self, *words)

    monkeypatch.setattr(Osm, "answer", busy)
    monkeypatch.setattr(
        "test_operate_slices.ADDRESSES", {"gnb": "192.168.23.10", "smf": "192.168.23.20"}
    )
    osm.anew()
    osm.ready.add("gnb")
    follow(Joiner(osm, lines.append, record), 0, range(2))
    failing.clear()
    joiner = Joiner(osm, lines.append, record)
    follow(joiner, 0, range(3))
    assert ("amf", "delete-peer", "first-slice-smf") in osm.asked
    assert osm.asked.count(("gnb", "delete-peer", "first-slice-smf")) == 0
    assert (joiner.settled, joiner.leaving) == ({"first"}, {})
    ((one, _),) = record.read()["first"].pairs
    assert one.vnf == "gnb"


@pytest.mark.parametrize("write", [False, True])
def test_a_record_that_cannot_be_used_is_a_sentence(tmp_path: Path, write: bool) -> None:
    (tmp_path / "file").write_text("{}")
    record = Record(tmp_path / "file" / "joined.json" if write else tmp_path)
    with pytest.raises(OperateError, match="allowed: --record with a file that can be written"):
        record.write("first", "1", []) if write else record.read()


def test_a_record_that_is_none_says_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "joined.json"
    for text in ("[]", '{"first": {"id": 1, "pairs": [[]]}}', "{", '{"first": []}'):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(OperateError, match="is no record of join-slices; remove it"):
            Joiner(Osm(), print, Record(file))


def test_a_link_of_a_slice_that_nobody_has_is_named_once() -> None:
    """A data network, or a typing error in one link of several."""
    osm, lines = Osm(), list[str]()
    follow(Joiner(osm, lines.append), 0, range(3))
    named = "first: not joined, as VNFs at both sides have no such link: n6"
    assert (lines.count(named), lines[-1]) == (1, "first: joined")


def test_a_slice_without_anything_to_join_is_not_called_joined(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As with a typing error in a link, or links of other names than that of the network."""
    link = {"id": "sbj", "nss-connection-point-ref": POINTS}
    monkeypatch.setitem(NSI, "network-slice-template", {"netslice-vld": [link]})
    osm, lines = Osm(), list[str]()
    with pytest.raises(OperateError, match=r"^first: not joined$"):
        join_slices(Joiner(osm, lines.append), ["first"], timeout=60, pause=0)
    assert osm.asked == []
    (said,) = lines
    assert "nothing of first was joined" in said
    assert "netslice-vlds: sbj; links: first.shared/amf has sbi; first.slice/smf has sbi" in said
    # The service says it once, and goes on.
    follow(Joiner(osm, lines.append), 0, range(3))
    assert lines[1:] == [said.replace("first: ", "")]


def test_one_that_fails_does_not_stop_the_others() -> None:
    osm, lines = Osm(), list[str]()
    joiner = Joiner(osm, lines.append)
    joiner.pairs["lost"] = [next(iter(ends_of(osm, NSI, statuses(osm))))]
    osm.slices[:] = ["gone", "first"]
    real = osm.document

    def broken(verb: str, id: str) -> dict[str, Any]:
        if id == "gone":
            raise OperateError("no slice gone")
        return real(verb, id)

    object.__setattr__(osm, "document", broken)
    follow(joiner, 0, range(3))
    assert "error: no slice gone" in lines
    assert joiner.settled == {"first"}


def test_a_named_slice_that_fails_does_not_stop_the_others() -> None:
    osm, lines = Osm(), list[str]()
    joiner = Joiner(osm, lines.append)
    with pytest.raises(OperateError, match=r"^gone, lost: not joined$"):
        join_slices(joiner, ["gone", "first", "lost"], timeout=60, pause=0)
    assert {"error: gone: no slice gone", "error: lost: no slice lost"} < set(lines)
    assert joiner.settled == {"first"}


def test_a_template_with_a_dangling_reference_stops_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """OSM checks neither the references of a template nor those of a SAP."""
    osm = Osm()
    stray = {"nss-ref": "nowhere", "nsd-connection-point-ref": "sbi-sap"}
    link = {"id": "sbi", "nss-connection-point-ref": [*POINTS, stray]}
    monkeypatch.setitem(NSI, "network-slice-template", {"netslice-vld": [link]})
    [(one, other)] = ends_of(osm, NSI, statuses(osm))
    assert (one.vnf, other.vnf) == ("amf", "smf")


def test_names_are_those_of_the_table() -> None:
    assert [*Osm().slice_ids()] == ["first"]

    class Drawn(Osm):
        def verb(self, *words: str) -> str:
            return super().verb(*words).replace("|", "\u2502", 4).replace("|", "\u2503")

    assert [*Drawn().slice_ids()] == ["first"]
