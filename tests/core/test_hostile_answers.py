"""A VDU that is hostile answers with any JSON: each reader gives a result or one sentence."""

from __future__ import annotations

from typing import Any

import pytest
from oai import meters, n3iwf, pdn, plan
from vpnaas.base import fields
from vpnaas.base.errors import VpnaasError
from vpnaas.extras import experiments, gateway_pair, measure
from vpnaas.peers.peer import Peer, read_record
from vpnaas.tunnels import nesting
from vpnaas.tunnels.ipsec import observed
from vpnaas.tunnels.wireguard import interface
from vpnaas.vdu import facts
from vpnaas.vdu.steps import Results

PEER = Peer("rel-1", "mme", (fields.networks("", "172.16.6.2/32")), "wireguard")
TCP = measure.ThroughputTest.parse({"link": "s6a"})
LINK = measure.LinkTest.parse({"link": "s6a"})
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
}
READERS: dict[str, Any] = {
    "facts": facts.parse,
    "known paths": lambda results: nesting.learned(results, None),
    "routes": nesting._table,
    "wireguard": lambda results: interface.parse_live("s6a", results),
    "ipsec routes": lambda results: observed._routes("s6a", results),
    "associations": lambda results: observed.parse_sas("s6a", results),
    "pair": lambda results: gateway_pair._own("ens4", results),
    "throughput": lambda results: measure.throughput(TCP, PEER, "run", results),
    "link": lambda results: measure.link_figures(LINK, PEER, results),
    "load": experiments.loaded,
    "signalling": lambda results: meters.answer("s6a", results),
    "firewall of NWu": lambda results: n3iwf._packets(results.output("nf/counters")),
    "probe": plan._answer,
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


@pytest.mark.parametrize("junk", JUNK)
@pytest.mark.parametrize("reader", READERS)
def test_a_reader_gives_a_result_or_one_sentence(reader: str, junk: str) -> None:
    try:
        READERS[reader](Results(Always(JUNK[junk])))
    except VpnaasError as error:
        assert str(error)
