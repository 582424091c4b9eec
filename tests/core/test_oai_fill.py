"""The program that fills the databases of HSS and UDR, and what actions change in them."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import attr
import oai
import pytest
import sqlglot
from oai.params import opc
from oai.subscribers import HssSubscribers
from oai.subscribers_5g import AmfSubscribers
from support.functions import OP, SECRETS, K, acting, params, rendered
from vpnaas.base.errors import VpnaasError
from vpnaas.vdu.steps import Results, Step

from simulators.core5g import database
from simulators.epc.cassandra import Database
from simulators.programs import cqlsh
from simulators.shared.identity import tbcd

PROGRAM = Path(oai.__file__).with_name("fill.py")
BASE = "/etc/osm-vpnaas/nf/"
IMSI = [f"24288123450000{number}" for number in range(10)]
MSISDN = [f"2428888000000{number}" for number in range(10)]
OWN_KEY, NEW_KEY = "0f" * 16, "7c" * 16


def run_program(tmp_path: Path, engine: str, module: str, document: dict[str, Any]) -> str:
    """Run the program with a script as the container engine; return the statements."""
    script, file, statements = (tmp_path / name for name in ("engine", "rows.json", "taken"))
    script.write_text(f"#!/bin/sh\n{engine}\ncat > {statements}\n")
    script.chmod(0o755)
    file.write_text(json.dumps(document))
    words = [str(script), f"/usr/local/lib/{module}", str(file), str(tmp_path)]
    subprocess.run([sys.executable, "-B", str(PROGRAM), *words], check=True, timeout=60)
    return statements.read_text()


@pytest.mark.parametrize(
    ("kind", "module", "rows", "probe"),
    [
        ("hss", "provision.py", "provision.json", "SELECT idmmeidentity"),
        ("amf", "provision_5g.py", "udr-provision.json", "SELECT ueid"),
    ],
)
def test_a_database_is_filled_once_for_each_content(
    kind: str, module: str, rows: str, probe: str, tmp_path: Path
) -> None:
    def fill(document: dict[str, object]) -> str:
        return run_program(tmp_path, f'echo "$@" > {tmp_path}/words', module, document)

    document = json.loads(rendered(kind)[BASE + rows])
    first = fill(document)
    assert (tmp_path / "words").read_text().startswith("exec --interactive ")
    assert str(document["first_imsi"]) in first
    assert fill(document).startswith(probe)
    assert fill({**document, "subscribers": 3}) != first


def test_systemd_waits_until_the_most_subscribers_are_filled_in() -> None:
    unit = rendered("hss", params=params("hss", subscribers=100000))[
        "/etc/systemd/system/hss.service"
    ]
    seconds = int(unit.partition("TimeoutStartSec=")[2].split()[0])
    assert seconds > 100000 * 0.03, "what a subscriber takes in Cassandra"


class Core:
    """A VDU with a database: the charm's actions and the program work on it.

    The database of the UDR is SQLite, as in the lab.
    """

    group: type
    filling = "hss.service"
    state = "running"
    kind, module, rows, folder = "", "", "", ""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tmp_path = tmp_path
        self.given: dict[str, object] = {"subscribers": 4}
        self.secrets = SECRETS
        self.acting = acting(self.group, self.kind, self)
        self.acting.function.params = lambda: params(self.kind, **self.given)
        self.fill()

    def act(self, name: str, **given: object) -> None:
        getattr(self.acting, name.replace("-", "_"))(
            {key.replace("_", "-"): value for key, value in given.items()}
        )

    def fill(self, key: str = K, **changes: object) -> None:
        """Start the containers after `configure-nf` or `fetch-keys`."""
        self.given.update({name.replace("_", "-"): value for name, value in changes.items()})
        self.secrets = attr.evolve(SECRETS, subscriber_key=key)
        files = rendered(self.kind, params=params(self.kind, **self.given))
        text = files[BASE + self.rows].replace(K, key).replace(opc(K, OP), opc(key, OP))
        for line in run_program(self.tmp_path, "", self.module, json.loads(text)).splitlines():
            self.run(line)

    def execute(self, steps: list[Step], exclusive: bool = True) -> Results:
        answers: dict[str, Any] = {}
        for step in steps:
            body = step.body
            if body["do"] == "run" and body["argv"][:2] == ["systemctl", "show"]:
                assert body["argv"][-1] == self.filling
                answers[step.id] = {"code": 0, "out": self.state + "\n"}
            elif body["do"] == "which":
                answers[step.id] = {"found": {"podman": "/usr/bin/podman"}}
            elif body["do"] == "read":
                found = body["path"].endswith("/secrets.json")
                answers[step.id] = {"text": self.secrets.to_json() if found else None}
            elif body["do"] == "run" and body["argv"][1] == "exec":
                out = [self.run(line) for line in body["stdin"].splitlines()]
                answers[step.id] = {"code": 0, "out": "".join(out)}
            elif body["do"] == "run" and body["argv"][0] == "tee":
                words = [word.replace(self.folder, str(self.tmp_path)) for word in body["argv"]]
                given = body["stdin"].encode()
                subprocess.run(
                    words, input=given, stdout=subprocess.DEVNULL, check=True, timeout=60
                )
                answers[step.id] = {"code": 0, "out": ""}
        return Results(answers)

    def run(self, statement: str) -> str:
        """Run a statement; return what the client prints."""
        raise NotImplementedError


class Hss(Core):
    group, kind, module, rows = HssSubscribers, "hss", "provision.py", "provision.json"
    folder = "/var/lib/osm-vpnaas/cassandra"

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.database = Database(tmp_path / "cassandra")
        super().__init__(tmp_path, monkeypatch)

    def run(self, statement: str) -> str:
        return cqlsh.draw(self.database.execute(statement))

    def subscribers(self) -> dict[str, tuple[str, str, list[str]]]:
        """Return MSISDN, K and APNs by IMSI; S6a and list-subscribers show the same MSISDN."""
        result = {}
        columns = "imsi, msisdn, key, opc, subscription_data"
        for imsi, msisdn, key, derived, data in self.database.execute(
            f"SELECT {columns} FROM vhss.users_imsi;"
        ).rows:
            assert derived == opc(key, OP)
            assert f'"MSISDN":"0x{tbcd(str(msisdn)).hex()}"' in data
            apns = re.findall(r'"Service-Selection":"([^"]*)"', data)
            result[imsi] = (str(msisdn), key, apns)
        return result

    def numbers(self) -> dict[str, str]:
        rows = self.database.execute("SELECT msisdn, imsi FROM vhss.msisdn_imsi;").rows
        return {str(msisdn): imsi for msisdn, imsi in rows}


class Udr(Core):
    group, kind, module, rows = AmfSubscribers, "amf", "provision_5g.py", "udr-provision.json"
    filling = "udr.service"
    folder = "/var/lib/osm-vpnaas/mysql"

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.database = sqlite3.connect(":memory:", isolation_level=None)
        super().__init__(tmp_path, monkeypatch)

    def run(self, statement: str) -> str:
        done = self.database.execute(
            database._translated(sqlglot.parse_one(statement, read="mysql"))
        )
        if not done.description:
            return ""
        rows = [[one[0] for one in done.description], *done]
        return "".join("\t".join(row) + "\n" for row in rows)

    def keys(self) -> dict[str, str]:
        rows = self.database.execute(
            "SELECT ueid, encPermanentKey, protectionParameterId, encOpcKey"
            " FROM AuthenticationSubscription"
        )
        result = {}
        for imsi, key, parameter, derived in rows:
            assert (parameter, derived) == (key, opc(key, OP))
            result[imsi] = key
        return result

    def sqns(self) -> list[tuple[str]]:
        rows = self.database.execute("SELECT sequenceNumber FROM AuthenticationSubscription")
        return list(rows)

    def sessions(self) -> dict[str, dict[str, tuple[int, str]]]:
        """Return 5QI and AMBR by DNN and IMSI."""
        result: dict[str, dict[str, tuple[int, str]]] = {}
        rows = "SELECT ueid, dnnConfigurations FROM SessionManagementSubscriptionData"
        for imsi, text in self.database.execute(rows):
            for dnn, one in json.loads(text).items():
                shown = (one["5gQosProfile"]["5qi"], one["sessionAmbr"]["uplink"])
                result.setdefault(imsi, {})[dnn] = shown
        return result


@pytest.fixture
def hss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hss:
    return Hss(tmp_path, monkeypatch)


@pytest.fixture
def udr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Udr:
    return Udr(tmp_path, monkeypatch)


def test_other_rows_of_the_hss_leave_what_actions_changed(hss: Hss) -> None:
    hss.act("remove-subscriber", imsi=IMSI[1])
    hss.act("remove-subscriber", imsi=IMSI[2])
    hss.act("add-subscriber", imsi=IMSI[2], msisdn="4799999999")
    hss.act("add-subscriber", imsi=IMSI[7], msisdn=MSISDN[1])
    hss.act("add-subscriber", imsi=IMSI[8], msisdn="4788888888", subscriber_key=OWN_KEY)
    hss.act("add-subscriber", imsi=IMSI[9], msisdn="4777777777")
    hss.act("remove-subscriber", imsi=IMSI[9])
    apns = ["internet"]
    expected = {
        IMSI[0]: (MSISDN[0], K, apns),
        IMSI[2]: ("4799999999", K, apns),
        IMSI[3]: (MSISDN[3], K, apns),
        IMSI[7]: (MSISDN[1], K, apns),
        IMSI[8]: ("4788888888", OWN_KEY, apns),
    }
    assert hss.subscribers() == expected
    hss.fill(second_apn="ims")
    apns.append("ims")
    assert hss.subscribers() == expected
    numbers = {msisdn: imsi for imsi, (msisdn, _, _) in expected.items()}
    assert hss.numbers() == numbers
    # Who was added again is as the range until an action gives another number.
    hss.act("add-subscriber", imsi=IMSI[1], msisdn="4766666666")
    hss.fill(subscribers=5)
    expected[IMSI[1]] = ("4766666666", K, apns)
    expected[IMSI[4]] = (MSISDN[4], K, apns)
    assert hss.subscribers() == expected


def test_a_number_of_another_subscriber_stays_its_own(hss: Hss) -> None:
    hss.act("add-subscriber", imsi=IMSI[9], msisdn=MSISDN[5])
    hss.fill(subscribers=6)
    assert hss.numbers()[MSISDN[5]] == IMSI[9]
    hss.act("remove-subscriber", imsi=IMSI[5])
    assert hss.numbers()[MSISDN[5]] == IMSI[9]
    hss.act("remove-subscriber", imsi=IMSI[9])
    assert MSISDN[5] not in hss.numbers()


def test_other_numbers_of_the_range_reach_its_subscribers(hss: Hss) -> None:
    hss.fill(first_msisdn="4711111110")
    assert hss.subscribers()[IMSI[3]] == ("4711111113", K, ["internet"])


def test_new_keys_reach_the_subscribers_of_the_hss_without_a_key_of_their_own(hss: Hss) -> None:
    hss.act("add-subscriber", imsi=IMSI[7], msisdn="4777777777")
    hss.act("add-subscriber", imsi=IMSI[8], msisdn="4788888888", subscriber_key=OWN_KEY)
    hss.database.execute(f"UPDATE vhss.users_imsi SET sqn = 4096 WHERE imsi = '{IMSI[0]}'")
    hss.fill(key=NEW_KEY)
    keys = {imsi: key for imsi, (_, key, _) in hss.subscribers().items()}
    assert keys == {**dict.fromkeys((*IMSI[:4], IMSI[7]), NEW_KEY), IMSI[8]: OWN_KEY}
    sqn = hss.database.execute(f"SELECT sqn FROM vhss.users_imsi WHERE imsi = '{IMSI[0]}'")
    assert sqn.rows == [[4096]], "a higher number is fresh for any USIM"


def test_a_row_that_an_action_did_not_make_is_not_made_in_part(hss: Hss) -> None:
    hss.act("add-subscriber", imsi=IMSI[7], msisdn="4777777777")
    hss.database.execute(f"DELETE FROM vhss.users_imsi WHERE imsi = '{IMSI[7]}'")
    hss.fill(second_apn="ims")
    assert sorted(hss.subscribers()) == IMSI[:4]


@pytest.mark.parametrize("kind", ["hss", "udr"])
def test_no_subscriber_changes_while_the_program_fills_the_database(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The program would bring back a removed subscriber: it has read the changes before."""
    core: Hss | Udr = request.getfixturevalue(kind)
    tried: dict[str, dict[str, object]] = {
        "remove-subscriber": {"imsi": IMSI[1]},
        "add-subscriber": {"imsi": IMSI[9], "msisdn": MSISDN[9]},
    }
    if kind == "udr":
        tried["set-5qi"] = {"imsi": IMSI[1], "slice": "1-000001", "five-qi": 7}
    core.state = "start-pre"
    for name, given in tried.items():
        with pytest.raises(VpnaasError, match="the database is being filled with subscribers; try"):
            core.act(name, **given)
    assert not (tmp_path / "osm-vpnaas-changes").exists()
    core.state = "running"
    core.act("remove-subscriber", imsi=IMSI[1])
    assert (tmp_path / "osm-vpnaas-changes").exists()


def test_other_rows_of_the_udr_leave_what_actions_changed(udr: Udr) -> None:
    udr.act("add-subscriber", imsi=IMSI[0], slices="1-000001")
    udr.act("remove-subscriber", imsi=IMSI[1])
    udr.act("set-5qi", imsi=IMSI[2], slice="2-000002", five_qi=9)
    udr.act("remove-subscriber", imsi=IMSI[3])
    udr.act("add-subscriber", imsi=IMSI[3], subscriber_key=OWN_KEY)
    udr.act("add-subscriber", imsi=IMSI[9], slices="2-000002")
    before = udr.sessions()
    all_slices = {"internet": (6, "1000Mbps"), "factory": (80, "1000Mbps")}
    assert before == {
        IMSI[0]: {"internet": (6, "1000Mbps")},
        IMSI[2]: {"internet": (6, "1000Mbps"), "factory": (9, "1000Mbps")},
        IMSI[3]: all_slices,
        IMSI[9]: {"factory": (80, "1000Mbps")},
    }
    udr.fill(ambr_mbps=500, subscribers=5)
    slower = {"internet": (6, "500Mbps"), "factory": (80, "500Mbps")}
    assert udr.sessions() == {**before, IMSI[3]: slower, IMSI[4]: slower}
    assert sorted(udr.keys()) == [IMSI[0], *IMSI[2:5], IMSI[9]]
    assert udr.keys()[IMSI[3]] == OWN_KEY
    # With slices: all, a subscriber is again as the range.
    udr.act("add-subscriber", imsi=IMSI[0], slices="all")
    udr.fill(ambr_mbps=1000)
    assert udr.sessions()[IMSI[0]] == all_slices


def test_new_keys_reach_the_subscribers_of_the_udr_without_a_key_of_their_own(udr: Udr) -> None:
    udr.act("set-5qi", imsi=IMSI[0], slice="2-000002", five_qi=9)
    udr.act("add-subscriber", imsi=IMSI[7])
    udr.act("add-subscriber", imsi=IMSI[8], subscriber_key=OWN_KEY)
    udr.act("add-subscriber", imsi=IMSI[8], slices="1-000001")
    udr.act("add-subscriber", imsi=IMSI[9])
    udr.act("remove-subscriber", imsi=IMSI[9])
    udr.database.execute("UPDATE AuthenticationSubscription SET sequenceNumber = 'high'")
    udr.fill(key=NEW_KEY)
    assert udr.keys() == {**dict.fromkeys((*IMSI[:4], IMSI[7]), NEW_KEY), IMSI[8]: OWN_KEY}
    assert udr.sqns() == [("high",)] * 6, "a higher number is fresh for any USIM"


def test_no_key_is_in_the_file_of_changes(hss: Hss) -> None:
    hss.act("add-subscriber", imsi=IMSI[8], msisdn="4788888888", subscriber_key=OWN_KEY)
    held = (hss.tmp_path / "osm-vpnaas-changes").read_text()
    assert IMSI[8] in held
    assert not any(key in held for key in (OWN_KEY, K, opc(K, OP)))
