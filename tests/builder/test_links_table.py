"""The table of links, from what VNFs answer to show-status."""

from __future__ import annotations

from typing import Any

from builder.link_table import COLUMNS, Answer, links, span

SINCE = "2026-11-28T04:00:00Z"
AT = 1795839000.0  # 2026-11-28T04:10:00Z


def end(key: str, inner: str, *peers: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "state": "up", "reason": "", "technology": "wireguard", "since": SINCE, "key-since": SINCE,
        "inner-address": f"{inner}/24", "public-key": key, "peers": list(peers), **more,
    }  # fmt: skip


def peer(name: str, key: str, prefix: str, **more: Any) -> dict[str, Any]:
    return {
        "peer": name, "public-key": key, "prefixes": f"{prefix}/32", "endpoint": f"{name}:51820",
        "state": "up", "last-handshake-s": 5, "received-bytes": 1000, "sent-bytes": 500, **more,
    }  # fmt: skip


def answers(at: float = AT, **more: Any) -> list[Answer]:
    server = {"vpn-server": end("S", "10.77.0.1", peer("client", "C", "10.77.0.2"))}
    far = peer("server", "S", "10.77.0.1", **{"loss-percent": 20, **more})
    client = {"vpn-client": end("C", "10.77.0.2", far), "vpn-server": {"state": "unconfigured",
              "peers": []}, "network-function": {"state": "ready"}}  # fmt: skip
    return [Answer("b", "server", at, server), Answer("b", "client", at, client)]


def test_two_ends_are_one_link() -> None:
    before = answers(AT - 10, **{"received-bytes": 0, "sent-bytes": 0})
    (link,) = links(answers(), before)
    assert (link.ends, link.inner) == (
        "server:vpn-server - client:vpn-client",
        "10.77.0.1 - 10.77.0.2",
    )
    assert link.outer == "server:51820 - client:51820"
    assert (link.state, link.since, link.handshake, link.loss) == ("up", SINCE, 5, 20)
    assert (link.key_age, link.rate, link.looked) == (600, 0.0, 0)
    assert set(link.cells()) == set(COLUMNS)
    assert link.cells()["key age"] == "10 min"


def test_the_worse_end_counts_and_its_reason_is_shown() -> None:
    server, client = answers()
    client.shown["vpn-client"].update(state="down", reason="no answer from server", since="x")
    client.shown["vpn-client"]["peers"][0].update(state="down")
    (link,) = links([server, client], now=AT + 300)
    assert (link.state, link.reason, link.since) == ("down", "no answer from server", "x")
    assert link.cells()["state"] == "down, seen 5 min ago"


def test_a_reason_is_shown_whichever_end_has_it_and_though_both_are_up() -> None:
    for index, name in enumerate(("vpn-server", "vpn-client")):
        both = answers()
        both[index].shown[name]["reason"] = "large packets vanish"
        assert links(both)[0].reason == "large packets vanish"


def test_each_peer_of_a_gateway_has_a_row_with_its_own_state() -> None:
    peers = [peer(f"cell{n}", f"K{n}", f"10.42.0.{n}") for n in range(1, 4)]
    peers[1]["state"] = "down"
    peers[2]["reason"] = "its packets come one by one"
    shown = {"s1c": end("G", "10.42.0.254", *peers, state="down", reason="no answer from cell2")}
    found = links([Answer("g", "secgw", AT, shown), *answers()])
    assert [link.state for link in found] == ["down", "up", "up", "up"]
    assert found[0].ends == "secgw:s1c - cell2"
    told = {link.ends: (link.since, link.reason) for link in found if link.ns == "g"}
    # The others were up before; since when, the gateway does not say.
    assert told == {
        "secgw:s1c - cell1": ("", ""),
        "secgw:s1c - cell2": (SINCE, "no answer from cell2"),
        "secgw:s1c - cell3": ("", "its packets come one by one"),
    }


def test_links_in_clear_are_joined_by_their_addresses() -> None:
    clear = {"technology": "none", "state": "clear", "public-key": ""}
    one = end("", "10.1.0.1", {"peer": "b", "prefixes": "10.1.0.2/32", "state": "clear"}, **clear)
    two = end("", "10.1.0.2", {"peer": "a", "prefixes": "10.1.0.1/32", "state": "clear"}, **clear)
    (link,) = links([Answer("n", "a", AT, {"s11": one}), Answer("n", "b", AT, {"s11": two})])
    assert (link.ends, link.state, link.handshake) == ("a:s11 - b:s11", "clear", None)


def test_an_end_may_name_what_lies_behind_a_gateway_before_the_gateway() -> None:
    clear = {"technology": "none", "state": "clear", "public-key": ""}
    behind = {"peer": "gw", "prefixes": "10.81.0.0/16,10.82.0.1/32", "state": "clear"}
    host = {"peer": "host", "prefixes": "10.82.0.10/32,10.82.1.0/24", "state": "clear"}
    answered = [
        Answer("n", "gw", AT, {"lan": end("", "10.82.0.1", host, **clear)}),
        Answer("n", "host", AT, {"vpn-client": end("", "10.82.0.10", behind, **clear)}),
    ]
    assert [link.ends for link in links(answered)] == ["gw:lan - host:vpn-client"]


def test_a_vnf_that_does_not_answer_is_a_row_too_and_the_first_one() -> None:
    found = links([*answers(), Answer("b", "other", AT, {}, "its charm does not answer")])
    assert (found[0].ends, found[0].state) == ("other", "unknown")
    assert found[0].reason == "its charm does not answer"


def test_counters_that_were_reset_give_no_rate() -> None:
    (link,) = links(answers(), answers(AT - 10)[1:])
    assert link.rate is None
    more = [Answer(a.ns, a.member, AT - 10, a.shown) for a in answers(**{"received-bytes": 9999})]
    more[0].shown["vpn-server"]["peers"][0]["sent-bytes"] = 900
    (link,) = links(answers(), more)
    assert link.rate is None


def test_what_was_seen_before_the_clock_jumped_back_is_no_less_than_now() -> None:
    assert [span(seconds) for seconds in (-3600, 0, 119, 7200)] == ["0 s", "0 s", "119 s", "2 h"]
