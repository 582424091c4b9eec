"""A VDU that is hostile answers with any JSON: each reader gives a result or one sentence."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from oai import cql, logs, n3iwf, n3ue, pdn, plan, sql
from oai.params import Secrets
from oai.subscribers import HssSubscribers
from oai.subscribers_5g import AmfSubscribers
from support.functions import acting, function_state
from vpnaas.base import fields
from vpnaas.base.errors import VpnaasError
from vpnaas.features import qos
from vpnaas.features.gateway import gateway
from vpnaas.features.measure import measure
from vpnaas.features.pair import gateway_pair
from vpnaas.features.pair.params import PairParams
from vpnaas.params.qos import link_qos
from vpnaas.peers.peer import Peer, read_record
from vpnaas.tunnels import nesting
from vpnaas.tunnels.ipsec import observed
from vpnaas.tunnels.wireguard import interface
from vpnaas.vdu import facts
from vpnaas.vdu.steps import Results, Step

from experiments.vdu import orders as experiments
from experiments.vdu import signalling as meters

PEER = Peer("rel-1", "mme", (fields.networks("", "172.16.6.2/32")), "wireguard")
TCP = measure.ThroughputTest.parse({"link": "s6a"})
LINK = measure.LinkTest.parse({"link": "s6a"})
STATE = function_state("nr-ue")
OWN = fields.address("", "172.16.6.1")
SHARE = qos.Share(link_qos({"link": "s6a", "five-qi": 9}), "wireguard", "wg-s6a", "ens4", 1, OWN)
JUNK = {
    "nested": "[" * 100_000,
    "number": "1e999",
    "text": '"x"',
    "null": "null",
    "numbers": "[1, 1e999]",
    "lists": "[[], [[]]]",
    "rows": '[{"dst": 5, "dev": [], "ifname": 1, "mtu": 1e999, "addr_info": ["x"]}, {}]',
    "rows-of-lists": '[{"dst": [], "dev": "wg-s6a", "ifname": "wg-s6a", "addr_info": 5}]',
    "report": '{"start": [], "end": [], "error": 0, "nftables": [5], "ue": {}}',
    "report-of-lists": '{"start": {}, "end": {"sum_received": [], "sum_sent": []}}',
    "report-of-numbers": '{"start": {}, "end": {"sum_received": {"bits_per_second": 1e999}}}',
    "rules": '{"nftables": [{"rule": []}, {"rule": {"comment": 5, "expr": 5}}]}',
    "record": '{"version": 1, "peers": [[], {"name": []}]}',
    "reasons": '{"reasons": 5}',
    "no-reasons": '{"units": {}}',
    "reason-of-half-a-character": '{"reasons": ["\\ud800"]}',
    "units": '{"reasons": [], "units": []}',
    "unit": '{"reasons": [], "units": {"hss": 1}}',
    "restarts": '{"reasons": ["x"], "restarts": null}',
    "late": '{"reasons": ["x"], "not-ready-seconds": "abc"}',
    "late-for-ever": '{"reasons": ["x"], "not-ready-seconds": 1e999}',
    "connections": "a b c d:1",
    "rows-of-a-table": 'ueid\tsingleNssai\tdnnConfigurations\n1\t{}\t{"a": 5}\n',
    "slice-of-a-table": 'ueid\tsingleNssai\tdnnConfigurations\n1\t{"sst": []}\t{"a": {}}\n',
    "other-table": "x\ty\n1\t2\n",
    "digits": "9" * 5000,
    "statistics": "".join("{} | {} |\n".format(name, "9" * 5000) for name in logs.ROWS),
    "class": f"class htb 5c1e:10 Sent {'9' * 5000} bytes 5 pkt (dropped 0, overlimits 0 ",
    "device": "1: gretun-id-{}-1 inet 10.46.0.2/32".format("9" * 5000),
}
READERS: dict[str, Any] = {
    "facts": facts.parse,
    "known paths": lambda results: nesting.learned(results, None),
    "routes": nesting._table,
    "wireguard": lambda results: interface.parse_live("s6a", results),
    "routes of a device": lambda results: facts.routes(results, "s6a"),
    "associations": lambda results: observed.parse_sas("s6a", results),
    "pair": lambda results: gateway_pair._own("ens4", results),
    "throughput": lambda results: TCP.summary(PEER, results),
    "link": lambda results: LINK.summary(PEER, results),
    "load": lambda results: experiments.loaded(experiments.LOAD.result(results)),
    "queues": lambda results: qos.shown([SHARE], results),
    "signalling": lambda results: meters.answer("s6a", results),
    "firewall of NWu": lambda results: n3iwf._packets(results.output("nf/counters")),
    "probe": lambda results: plan.conclude(STATE, plan.Plan(), results),
    "keys": lambda results: Secrets.from_json(results.text("nf/secrets")),
    "NAS connections": n3iwf.connected,
    "time": n3iwf._now,
    "sessions": lambda results: sql.held(sql.table(results.output("rows"))),
    "subscribers": lambda results: cql.shown(cql.table(results.output("rows")), 100),
    "statistics": lambda results: logs.statistics(results.output("log")),
    "devices": lambda results: n3ue.devices(results, 2),
    "address": pdn.address,
    "record of peers": lambda results: read_record(results.text("s6a/applied")),
}


class Always(dict[str, Any]):
    """The same result for each step."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.result = {"code": 0, "out": text, "err": "", "text": text, "found": {}}

    def get(self, key: str, default: Any = None) -> Any:
        return self.result

    def __contains__(self, key: object) -> bool:
        return True


@pytest.mark.parametrize("junk", JUNK)
@pytest.mark.parametrize("reader", READERS)
def test_a_reader_gives_a_result_or_one_sentence(reader: str, junk: str) -> None:
    try:
        READERS[reader](Results(Always(JUNK[junk])))
    except VpnaasError as error:
        assert str(error)


REPORT = '{"start": {"version": "3.12"}, "end": {"sum_sent": {}, "sum": %s, "sum_received": %s}}'
RATE = '{"bits_per_second": 1e6, "jitter_ms": 1, "lost_percent": 0, "packets": 5}'
COUNTS = "5 packets transmitted, 5 received"
PINGS = {
    "no times": f"{COUNTS}\nrtt = 1/1/1/1 ms\n",
    "time of two points": f"time=1.2.3 ms\n{COUNTS}\nrtt = 1/1/1/1 ms\n",
    "sums of points": f"time=1 ms\n{COUNTS}\nrtt = ./1.2.3/1/1 ms\n",
    "long sums": f"time=1 ms\n{COUNTS}\nrtt = {'9' * 400}/1/1/1 ms\n",
    "long time": f"time={'9' * 400} ms\n{COUNTS}\nrtt = 1/1/1/1 ms\n",
    "long counts": f"{'9' * 5000} packets transmitted, {'9' * 5000} received\nrtt = 1/1/1/1 ms\n",
    "good": f"time=1 ms\n{COUNTS}\nrtt = 1/1/1/1 ms\n",
}


@pytest.mark.parametrize("text", PINGS)
def test_ping_may_print_anything(text: str) -> None:
    report = REPORT % (RATE, RATE)
    results = {name: {"code": 0, "out": report} for name in ("tcp", "udp")}
    try:
        results["ping"] = {"code": 0, "out": PINGS[text]}
        figures = LINK.summary(PEER, Results(results))
        json.dumps(figures, allow_nan=False)
    except VpnaasError as error:
        assert text != "good"
        assert str(error).startswith("ping to mme ")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999", "-Infinity"])
@pytest.mark.parametrize("key", ["bits_per_second", "jitter_ms", "lost_percent"])
def test_numbers_that_json_lacks_are_no_report(key: str, number: str) -> None:
    part = json.dumps({**json.loads(RATE), key: "HERE"}).replace('"HERE"', number)
    test = measure.ThroughputTest.parse({"link": "s6a", "protocol": "udp"})
    results = Results({"iperf3": {"code": 0, "out": REPORT % (part, part)}})
    with pytest.raises(VpnaasError, match="printed a report that is not understood"):
        test.summary(PEER, results)


@pytest.mark.parametrize("digits", ["²", "9" * 5000, "--5", "5"])
def test_files_of_a_pair_may_have_anything_for_numbers(digits: str) -> None:
    assert gateway_pair._record(f"active {digits} {digits}") in (("", 0, 0), ("active", 5, 5))
    assert gateway._cpus(Results(Always(digits))) in (1, 5)
    pair = {"role": "primary", "virtual-address": "10.254.1.1/24", "other-address": "10.254.1.3"}
    pair.update({"trusted-interface": "ens5", "untrusted-interface": "ens4"})
    ours = SimpleNamespace(params=PairParams.parse(pair), peers=0)
    seen = gateway_pair.conclude(ours, Files(digits))
    assert seen.details["priority"] in (60, 65)


def test_what_is_no_number_gets_into_no_statement_and_makes_no_row() -> None:
    assert len(cql.deletions("242881234500000", "49170")) == 2
    assert len(cql.deletions("242881234500000", "²")) == 1
    tables = "|-UEs' Information-|\n| Index |\n| ² |\n| 1 |\n|---|\n"
    tables += "|-gNBs' Information-|\n| Index |\n|---|\n"
    assert logs.connected(tables) == {"gnbs": [], "ues": [{}]}


class Files(Results):
    """A VDU each of whose files has the same text."""

    def __init__(self, text: str) -> None:
        super().__init__({"pair/addresses": {"code": 0, "out": '[{"ifname": "ens5"}]'}})
        self._text = text

    def text(self, id: str) -> str:
        return self._text


def test_listeners_of_a_hostile_vdu_are_one_sentence() -> None:
    results = Results({"tcp6": {"text": "h\n a b:xyz c 0A"}})
    with pytest.raises(VpnaasError, match="/proc/net/tcp6 of the VDU has an unexpected line"):
        experiments.listening(results)


class Failing:
    """A VDU whose client of a database fails."""

    def __init__(self, error: str) -> None:
        self.error = error

    def execute(self, steps: list[Step], exclusive: bool) -> Results:
        failed = {"code": 1, "out": "", "err": self.error, "found": {"podman": "/usr/bin/podman"}}
        return Results({step.id: failed for step in steps})


@pytest.mark.parametrize("group", [HssSubscribers, AmfSubscribers])
@pytest.mark.parametrize(
    ("error", "said"),
    [
        (" \n", "its program on the VDU failed with exit code 1"),
        ("E 2002\n", "its program on the VDU failed with exit code 1"),
        ("Error: no such container\n", "its container does not run"),
    ],
)
def test_a_client_that_fails_is_a_sentence(group: type, error: str, said: str) -> None:
    database = acting(group, "").database
    with pytest.raises(VpnaasError, match=f"(Cassandra|MySQL) did not answer: {said}"):
        database.rows(Failing(error), "SELECT;")


def test_a_list_of_other_columns_names_no_subscriber() -> None:
    group = acting(AmfSubscribers, "amf")
    group.database.rows = lambda *_: [{"x": "1"}]
    with pytest.raises(VpnaasError, match="not the rows of the UDR"):
        group.list_subscribers({})
