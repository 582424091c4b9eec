"""Metrics from what programs on a VDU print; what they print here was recorded from real ones."""

from __future__ import annotations

import ipaddress
import itertools
import json
import re
import socket
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from nft_support import gateway
from oai import n3iwf
from support.juju import pair
from vpnaas.base.errors import InputError
from vpnaas.features import guard, monitoring
from vpnaas.features.gateway import gateway_firewall
from vpnaas.features.pair import standby
from vpnaas.params.gateway import PORT, effective, exporter_port
from vpnaas.status import link_status

pytest.importorskip("prometheus_client", reason="`./run setup` installs it")
from prometheus_client.parser import text_string_to_metric_families
from vpnaas.vdu.programs import exporter
from vpnaas.vdu.programs.exporter import ALERT, Exporter, Gain, Look, Meter

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
DASHBOARD = ROOT / "operate/grafana/osm-vpnaas.json"
CHILD = (
    "{{name=s1u uniqueid={id} reqid=2 state={state} mode=TUNNEL protocol=ESP spi-in=5a7cecb6"
    " encr-alg=AES_GCM_16 bytes-in={into} packets-in=4 bytes-out={out} packets-out=4"
    " local-ts=[10.43.2.0/24] remote-ts=[10.42.0.11/32]}}"
)
COUNTERS = (
    "counters reply {counters {s1u_rel-1_aa_bb {ike-rekey-init=2 ike-rekey-resp=1 child-rekey=5"
    " invalid=0} s1u_rel-1_aa_cc {ike-rekey-init=0 ike-rekey-resp=1 child-rekey=1 invalid=0}}"
    " success=yes}\n"
)
STATS = "stats reply {uptime {running=3 seconds} ikesas {total=9 half-open=7} plugins=[vici]}\n"
FIREWALL = json.dumps(
    {
        "nftables": [
            {"metainfo": {"version": "1.0.6"}},
            {
                "rule": {
                    "chain": "from_untrusted",
                    "expr": [{"counter": {"packets": 5}}, {"drop": None}],
                }
            },
            {
                "rule": {
                    "chain": "from_untrusted",
                    "expr": [{"counter": {"packets": 2}}, {"drop": None}],
                }
            },
            {"rule": {"chain": "forward", "expr": [{"counter": {"packets": 9}}, {"accept": None}]}},
        ]
    }
)


def record(technology: str, *labels: str) -> str:
    items = [
        {
            "name": f"rel-{number}",
            "label": label,
            "technology": technology,
            "public-key": f"key{number}=",
            "next-public-key": "",
        }
        for number, label in enumerate(labels, 1)
    ]
    return json.dumps({"version": 1, "peers": items})


def sas(*children: str, state: str = "ESTABLISHED", name: str = "s1u_rel-1_aa_bb") -> str:
    inside = " ".join(f"s1u-{number} {child}" for number, child in enumerate(children))
    return (
        f"list-sa event {{{name} {{uniqueid=4 version=2 state={state} remote-vips=[10.1.1.1]"
        f" child-sas {{{inside}}}}}}}\nlist-sas reply {{}}\n"
    )


def child(id: int, into: int, out: int, state: str = "INSTALLED") -> str:
    return CHILD.format(id=id, into=into, out=out, state=state)


def seen(**more: object) -> Look:
    given = {"now": 1000.0, "records": {"s1u": record("ipsec", "cell1", "cell2")}, "stats": STATS}
    return Look(**{**given, **more})  # type: ignore[arg-type]


def value(meter: Meter, sample: str, **labels: str) -> float | None:
    """Return a sample of what the meter tells, None where there is none."""
    found = [
        s.value
        for family in meter.collect()
        for s in family.samples
        if s.name == sample and labels.items() <= s.labels.items()
    ]
    assert len(found) <= 1, (sample, labels)
    return found[0] if found else None


def test_a_peer_is_up_with_a_child_sa_and_its_loss_is_counted() -> None:
    meter = Meter()
    meter.update(seen(sas=sas(child(1, 10, 20)), counters=COUNTERS))
    cell = {"link": "s1u", "peer": "cell1"}
    assert value(meter, "vpnaas_peer_up", **cell, technology="ipsec") == 1
    assert value(meter, "vpnaas_peer_up", link="s1u", peer="cell2") == 0
    assert value(meter, "vpnaas_ike_sas", **cell) == value(meter, "vpnaas_child_sas", **cell) == 1
    assert value(meter, "vpnaas_rekeys_total", **cell, kind="ike") == 4
    assert value(meter, "vpnaas_rekeys_total", **cell, kind="child") == 6
    assert value(meter, "vpnaas_ike_half_open") == 7
    assert value(meter, "vpnaas_ike_sas_all") == 9
    assert value(meter, "vpnaas_ike_daemon_up") == 1
    for state in ("CONNECTING", "DELETING"):
        meter.update(seen(sas=sas(child(1, 10, 20), state=state)))
        assert value(meter, "vpnaas_peer_up", **cell) == 0
        assert value(meter, "vpnaas_peer_losses_total", **cell) == 1
    meter.update(seen(stats=""))
    assert value(meter, "vpnaas_ike_daemon_up") == 0
    assert value(meter, "vpnaas_ike_half_open") is None


def test_bytes_are_kept_over_rekeyings_and_restarts_of_the_daemon() -> None:
    meter = Meter()
    cell = {"link": "s1u", "peer": "cell1"}
    meter.update(seen(sas=sas(child(1, 100, 1000))))
    meter.update(seen(sas=sas(child(1, 150, 1500, "DELETED"), child(2, 7, 70))))
    meter.update(seen(sas=sas(child(2, 10, 100))))
    assert value(meter, "vpnaas_received_bytes_total", **cell) == 160
    assert value(meter, "vpnaas_sent_bytes_total", **cell) == 1600
    meter.update(seen(sas=""))
    meter.update(seen(sas=sas(child(2, 3, 30))))
    assert value(meter, "vpnaas_received_bytes_total", **cell) == 163
    meter.update(seen(sas=sas(child(2, 1, 10))))
    assert value(meter, "vpnaas_sent_bytes_total", **cell) == 1640


@pytest.mark.parametrize(
    ("technology", "good"),
    [
        ("ipsec", {"sas": sas(child(1, 5000, 70))}),
        (
            "wireguard",
            {"transfer": "wg-s1u\tkey1=\t5000\t70\n", "handshakes": "wg-s1u\tkey1=\t980\n"},
        ),
    ],
)
def test_a_program_that_hung_says_nothing_of_bytes_and_tunnels(
    technology: str, good: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    meter, records = Meter(), {"s1u": record(technology, "cell1")}

    def hang(argv: Any, **_: object) -> None:
        raise exporter.subprocess.TimeoutExpired(argv, 10)

    monkeypatch.setattr(exporter.subprocess, "run", hang)
    late = dict.fromkeys(good, exporter.output("swanctl", "--list-sas", "--raw"))
    for look in (good, late, good):
        meter.update(seen(records=records, **look))
        assert value(meter, "vpnaas_peer_up", peer="cell1") == 1, "nothing says that it is down"
    assert value(meter, "vpnaas_received_bytes_total", peer="cell1") == 5000
    assert value(meter, "vpnaas_sent_bytes_total", peer="cell1") == 70


@given(
    steps=st.lists(st.integers(0, 100), min_size=1, max_size=30), resets=st.sets(st.integers(0, 29))
)
def test_what_is_added_up_is_what_was_counted(steps: list[int], resets: set[int]) -> None:
    gain, raw, true = Gain(), 0, 0
    for number, step in enumerate(steps):
        if number in resets:
            gain.update({})  # A look in between, when the source is gone.
            raw = 0
        raw, true = raw + step, true + step
        gain.update({(("s1u", "rel-1"), "7"): raw})
    assert gain.totals["s1u", "rel-1"] == true


@pytest.mark.parametrize("age", [0, 149, 209, 210, 239, 240, -209, -210])
def test_a_wireguard_peer_is_up_for_as_long_as_in_show_status(age: int) -> None:
    _, hss, _, _ = pair()
    hss.reconcile()
    (live,) = hss.interface("s6a").peers.values()
    now = live.handshake + age
    details = dict(link_status("s6a", hss.plans["s6a"], now).details)
    meter, row = Meter(), f"wg-s6a\tkey1=\t{live.handshake}\n"
    meter.update(seen(now=now, records={"s6a": record("wireguard", "mme")}, handshakes=row))
    shown = value(meter, "vpnaas_peer_up", link="s6a", peer="mme")
    assert bool(shown) == (details["peers"][0]["state"] == "up")


def test_wireguard_tells_of_handshakes_and_bytes() -> None:
    meter = Meter()
    result = {"records": {"s1c": record("wireguard", "mme", "other")}}
    shown = {
        "handshakes": "wg-s1c\tkey1=\t980\nwg-s1c\tkey2=\t0\nwg-s1c\tstranger=\t990\n",
        "transfer": "wg-s1c\tkey1=\t11\t22\nwg-s1c\tkey2=\t0\t0\n",
    }
    meter.update(seen(**result, **shown))
    mme = {"link": "s1c", "peer": "mme"}
    assert value(meter, "vpnaas_peer_up", **mme, technology="wireguard") == 1
    assert value(meter, "vpnaas_handshake_age_seconds", **mme) == 20
    assert value(meter, "vpnaas_handshake_age_seconds", link="s1c", peer="other") is None
    # The clock jumped back by two hours: a handshake in the future is no new one.
    meter.update(meter.last._replace(now=meter.last.now - 7200))
    assert value(meter, "vpnaas_handshake_age_seconds", **mme) == 7180
    assert value(meter, "vpnaas_peer_up", **mme) == 0
    assert value(meter, "vpnaas_received_bytes_total", **mme) == 11
    assert value(meter, "vpnaas_ike_sas", **mme) is None
    # Too long ago, or of before the clock was set back.
    for now in (1300.0, 500.0):
        meter.update(seen(now=now, **result, **shown))
        assert value(meter, "vpnaas_peer_up", **mme) == 0


def nwu_rules() -> str:
    """The rules of an N3IWF's firewall, with packets that they counted."""

    def rule(comment: str, packets: int, verdict: str) -> dict[str, Any]:
        expr = [{"counter": {"packets": packets, "bytes": 1}}, {verdict: None}]
        return {"rule": {"chain": "input", "comment": comment, "expr": expr}}

    rules = [rule("nwu-ike", 8, "accept"), rule("nwu-esp", 21, "accept")]
    rules += [rule("nwu-dropped", 3, "drop"), rule("nwu-dropped", 4, "drop")]
    return json.dumps({"nftables": rules})


def test_an_n3iwf_tells_its_ues_and_what_the_wifi_sends() -> None:
    row = "0 0 10.45.0.1:20000 10.45.0.2:4000\n"
    meter = Meter()
    meter.update(seen(firewall={n3iwf.TABLE: nwu_rules()}, nas=row * 2))
    assert value(meter, "vpnaas_wifi_ues") == 2
    for kind, packets in (("ike", 8), ("esp", 21), ("dropped", 7)):
        assert value(meter, "vpnaas_nwu_packets_total", kind=kind) == packets
    assert value(meter, "vpnaas_dropped_packets_total", table=n3iwf.TABLE) == 7
    meter.update(seen(firewall={n3iwf.TABLE: "{}"}))
    assert value(meter, "vpnaas_wifi_ues") is None


def test_drops_and_takeovers_are_told() -> None:
    meter = Meter()
    meter.update(seen(firewall={"osm_vpnaas_gateway": FIREWALL}, standby="active 1795257600 3\n"))
    result = {"table": "osm_vpnaas_gateway", "chain": "from_untrusted"}
    assert value(meter, "vpnaas_dropped_packets_total", **result) == 7
    assert value(meter, "vpnaas_dropped_packets_total", chain="forward") is None
    assert value(meter, "vpnaas_standby_active") == 1
    assert value(meter, "vpnaas_standby_takeovers_total") == 3
    meter.update(seen(standby="fault 1795257600 3\n"))
    assert value(meter, "vpnaas_standby_active") == 0


@given(text=st.text(max_size=200))
def test_garbage_is_no_metric_and_no_crash(text: str) -> None:
    meter = Meter()
    meter.update(
        Look(0, {"s1u": text}, text, text, text, text, text, {"osm_vpnaas_guard": text}, text)
    )
    list(meter.collect())


@pytest.mark.parametrize("virtual", ["127.9.9.9/24", "192.0.2.200/24", "2001:db8:9::200/64"])
def test_a_gateway_that_lost_its_virtual_address_is_not_active(
    virtual: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As after a boot where keepalived does not start, or where it was killed."""
    address = ipaddress.ip_interface(virtual)
    own, other = address.network[2], address.network[3]
    conf = standby.keepalived_conf(gateway(virtual=address, own=own, other=other))
    for name, text in (("STANDBY", "active 1795257600 3\n"), ("KEEPALIVED", conf)):
        (tmp_path / name).write_text(text)
        monkeypatch.setattr(exporter, name, str(tmp_path / name))
    here = virtual.startswith("127.")
    meter = Meter()
    for _ in ("as it was recorded", "and not"):
        meter.update(exporter.look())
        assert (value(meter, "vpnaas_standby_active"), meter.last.passive) == (here, not here)
        assert value(meter, "vpnaas_standby_takeovers_total") == 3
        (tmp_path / "STANDBY").write_text("standby 1795257600 3\n")


def test_the_exporter_looks_where_the_charm_writes() -> None:
    assert standby.RECORD_FILE == exporter.STANDBY
    assert standby.KEEPALIVED_FILE == exporter.KEEPALIVED
    assert set(exporter.TABLES) == {gateway_firewall.TABLE, guard.TABLE, n3iwf.TABLE}


def test_peers_that_share_a_label_stay_apart() -> None:
    meter = Meter()
    meter.update(seen(records={"s1u": record("ipsec", "cell", "cell", "mme")}))
    shown = [
        s.labels["peer"] for f in meter.collect() for s in f.samples if s.name == "vpnaas_peer_up"
    ]
    assert sorted(shown) == ["cell/rel-1", "cell/rel-2", "mme"]


def test_failures_are_read_from_the_daemons_socket(tmp_path: Path) -> None:
    """Five messages in pieces that do not end where messages do."""
    path = str(tmp_path / "enfy")
    result = Exporter()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        threading.Thread(target=result.listen, args=(path,), daemon=True).start()
        stream, _ = listener.accept()
        text = b"".join(ALERT.pack(kind, b"", b"", b"", b"") for kind in (3, 3, 8, 13, 77))
        with stream:
            for start in range(0, len(text), 500):
                stream.sendall(text[start : start + 500])
        listener.settimeout(30)
        listener.accept()[0].close()  # It came back, so it has read all.
    alerts = result._meter.alerts
    assert (alerts["peer-authentication"], alerts["ike-proposal"], alerts["other"]) == (2, 1, 1)
    assert sum(alerts.values()) == 4


# -- the exporter on the VDU -------------------------------------------------------------------


def monitored():
    juju, hss, mme, _ = pair("wireguard")
    hss.vdu.files[monitoring.LIBRARY] = ""
    hss.reconcile(monitoring=9815)
    return hss


def test_the_exporter_is_installed_once_and_listens_on_management_only() -> None:
    hss = monitored()
    assert "--address 10.0.0.1 --port 9815" in hss.vdu.files[monitoring.UNIT_FILE]
    assert monitoring.UNIT in hss.vdu.enabled & hss.vdu.active
    hss.vdu.commands.clear()
    assert hss.reconcile(monitoring=9815) == 1
    assert not [c for c in hss.vdu.commands if "restart" in c]
    hss.reconcile(monitoring=9900)
    assert "--port 9900" in hss.vdu.files[monitoring.UNIT_FILE]
    hss.vdu.active.discard(monitoring.UNIT)
    hss.reconcile(monitoring=9900)
    assert monitoring.UNIT in hss.vdu.active
    hss.reconcile()
    assert monitoring.UNIT_FILE not in hss.vdu.files
    assert monitoring.UNIT not in hss.vdu.active | hss.vdu.enabled


def test_a_unit_that_systemd_did_not_read_is_read_by_the_next_reconcile() -> None:
    hss = monitored()
    hss.vdu.fail_on = "monitoring/reload"
    hss.reconcile(monitoring=9900)
    assert "--port 9900" in hss.vdu.files[monitoring.UNIT_FILE]
    hss.vdu.fail_on = None
    for restarts in (1, 0):
        hss.vdu.commands.clear()
        hss.reconcile(monitoring=9900)
        assert len([c for c in hss.vdu.commands if "restart" in c]) == restarts


def test_without_the_library_the_reason_is_told_and_links_stay() -> None:
    _, hss, _, _ = pair("wireguard")
    hss.reconcile(monitoring=9815)
    (problem,) = hss.problems
    assert "python3-prometheus-client" in problem
    assert hss.states() == {"s6a": "up"}
    assert monitoring.UNIT_FILE not in hss.vdu.files


@pytest.mark.parametrize(
    ("place", "users", "owner"),
    [
        ("0.0.0.0", ' users:(("node_exporter",pid=7,fd=3))', "node_exporter"),
        ("10.0.0.1", "", "the kernel"),
        ("*", ' users:(("a",pid=7,fd=3),("b",pid=8,fd=3))', "a"),
        ("127.0.0.1", ' users:(("x",pid=7,fd=3))', ""),
        ("10.0.0.1%lo", ' users:(("x",pid=7,fd=3))', ""),
    ],
)
def test_who_has_the_port_of_the_exporter_is_named(place: str, users: str, owner: str) -> None:
    hss = monitored()
    line = f"LISTEN 0      5      {place}:{{}}      0.0.0.0:*   {users}\n"
    hss.vdu.listeners = {port: line.format(port) for port in ("9815", "9900")}
    hss.reconcile(monitoring=9815)
    assert hss.problems == ()  # That is the exporter itself.
    hss.reconcile(monitoring=9900)
    said = f"monitoring: exporter-port: TCP port 9900 of the VDU is used by {owner}"
    assert hss.problems == ((f"{said}; allowed: another port, or 0",) if owner else ())
    assert ("--port 9900" in hss.vdu.files[monitoring.UNIT_FILE]) is not bool(owner)
    # As systemd starts it again and again.
    hss.vdu.active.discard(monitoring.UNIT)
    hss.reconcile(monitoring=9815)
    assert bool(hss.problems) is bool(owner)


@pytest.mark.parametrize("port", [-1, 22, 65536, "x", True])
def test_ports_that_cannot_be_are_refused(port: object) -> None:
    with pytest.raises(InputError, match="configure-monitoring: exporter-port"):
        exporter_port({"exporter-port": port})


def test_gateways_are_monitored_unless_told_otherwise() -> None:
    assert effective(None, True) == PORT
    assert effective(None, False) == 0
    assert effective(0, True) == 0


# -- dashboard and rules -----------------------------------------------------------------------


def exported() -> set[str]:
    """Return the names of all samples there can be."""
    meter = Meter()
    meter.update(
        seen(
            records={"s1u": record("ipsec", "cell"), "s1c": record("wireguard", "mme")},
            sas=sas(child(1, 1, 1)),
            handshakes="wg-s1c\tkey1=\t980\n",
            firewall={"osm_vpnaas_gateway": FIREWALL, n3iwf.TABLE: nwu_rules()},
            standby="active 1 1",
        )
    )
    meter.answers = {peer.key: True for peer in meter.peers}
    return {s.name for family in meter.collect() for s in family.samples}


def metrics_in(text: str) -> set[str]:
    return set(re.findall(r"\bvpnaas_[a-z_]+\b", text))


def test_each_metric_of_the_dashboard_is_exported_and_each_exported_one_is_shown() -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    used = {m for p in panels for t in p.get("targets", ()) for m in metrics_in(t["expr"])}
    assert used == exported()


def test_the_dashboard_has_the_form_grafana_loads() -> None:
    board = json.loads(DASHBOARD.read_text())
    assert {"title", "uid", "schemaVersion", "panels", "templating", "time"} <= set(board)
    assert board["id"] is None  # Grafana gives the number.
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    variables = {variable["name"] for variable in board["templating"]["list"]}
    used: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & used, panel["title"]
        used |= cells
        assert panel["title"]
        assert panel["targets"]
        refs = [target["refId"] for target in panel["targets"]]
        assert len(refs) == len(set(refs))
        for target in panel["targets"]:
            assert set(re.findall(r"\$(\w+)", target["expr"])) <= variables | {"__rate_interval"}
            assert target["expr"].count("(") == target["expr"].count(")")


def test_rules_and_job_use_what_is_exported() -> None:
    rules = yaml.safe_load((ROOT / "operate/prometheus/rules.yaml").read_text())
    found = [rule for group in rules["groups"] for rule in group["rules"]]
    assert found
    for rule in found:
        assert metrics_in(rule["expr"]) <= exported(), rule["alert"]
        assert metrics_in(rule["expr"]) or "up{" in rule["expr"]
        assert rule["annotations"]["summary"]
    job = yaml.safe_load((ROOT / "operate/prometheus/scrape.yaml").read_text())
    (scrape,) = job["scrape_configs"]
    assert scrape["scrape_interval"] == "15s"
    targets = yaml.safe_load((ROOT / "operate/prometheus/targets.yaml").read_text())
    assert all(t.endswith(f":{PORT}") for group in targets for t in group["targets"])


def test_metrics_are_documented_with_their_labels() -> None:
    from builder.pages import on_page_markdown

    text = on_page_markdown((ROOT / "docs/reference/metrics.md").read_text())
    rows = dict(re.findall(r"^\| `(vpnaas_\w+)` \|([^|]*)\|", text, re.M))
    assert set(rows) == exported()
    meter = Meter()
    meter.update(seen(sas=sas(child(1, 1, 1)), firewall={"osm_vpnaas_gateway": FIREWALL}))
    for family in meter.collect():
        for sample in family.samples:
            assert set(re.findall(r"`(\w+)`", rows[sample.name])) == set(sample.labels)


def test_a_scrape_is_text_that_prometheus_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    import urllib.request

    monkeypatch.setattr(exporter, "look", lambda: seen(sas=sas(child(1, 5, 6)), counters=COUNTERS))
    for address, url in (("127.0.0.1", "127.0.0.1"), ("::1", "[::1]")):
        if ":" in address and not Path("/proc/net/if_inet6").read_text().strip():
            continue
        server = exporter.serve(Exporter(), address, 0)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with urllib.request.urlopen(
            f"http://{url}:{server.server_port}/metrics", timeout=30
        ) as got:
            families = list(text_string_to_metric_families(got.read().decode()))
        server.shutdown()
        server.server_close()
        samples = {(s.name, s.labels.get("peer", "")): s.value for f in families for s in f.samples}
        assert samples["vpnaas_received_bytes_total", "cell1"] == 5
        assert samples["vpnaas_peer_up", "cell2"] == 0


def test_a_peer_that_does_not_answer_is_not_up_though_it_is_heard() -> None:
    """WireGuard's handshake counts for minutes, and packets may pass one way only."""
    meter = Meter()

    def looked(now: int, received: int, sent: int) -> None:
        meter.update(
            Look(
                now,
                {"s6a": record("wireguard", "mme")},
                handshakes="wg-s6a\tkey1=\t1000\n",
                transfer=f"wg-s6a\tkey1=\t{received}\t{sent}\n",
            )
        )

    looked(1010, 500, 500)
    meter.answers[meter.peers[0].key] = False
    for now, received in ((1015, 500), (1020, 532)):
        looked(now, received, 1300)
        assert value(meter, "vpnaas_peer_up", peer="mme") == 0
        assert value(meter, "vpnaas_peer_answers", peer="mme") == 0
        assert value(meter, "vpnaas_peer_losses_total", peer="mme") == 1
    meter.answers[meter.peers[0].key] = True
    looked(1025, 564, 1700)
    assert value(meter, "vpnaas_peer_up", peer="mme") == 1


def test_a_peer_from_which_packets_come_is_asked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a cable cut one way, the end that hears its peer sees its bytes grow."""
    (item,) = json.loads(record("wireguard", "mme"))["peers"]
    item["inner-address"] = "192.0.2.2"
    records, received = {"s6a": json.dumps({"version": 1, "peers": [item]})}, itertools.count(1)

    def growing() -> Look:
        return Look(1010, records, transfer=f"wg-s6a\tkey1=\t{next(received)}\t5\n")

    monkeypatch.setattr(exporter, "look", growing)
    monkeypatch.setattr(
        exporter.Echo, "run", lambda asked: {name: [9, 0, None] for name in asked.asked}
    )
    asking = Exporter()
    for _ in range(2):
        asking.refresh()
        asking.ask()
    asking.refresh()
    assert asking._meter.answers == {("s6a", "rel-1"): False}


def test_the_exporter_asks_who_has_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    items = json.loads(record("wireguard", "here", "asleep"))["peers"]
    items[0]["inner-address"] = "127.0.0.1"
    outer = dict(items[0], name="rel-9", label="same", endpoint="127.0.0.1:4500")
    seen = Look(9, {"s6a": json.dumps({"version": 1, "peers": [*items, outer]})})
    looks = [seen]
    monkeypatch.setattr(exporter, "look", lambda: looks[-1])
    asking = Exporter()
    asking.refresh()
    asking.ask()
    assert asking._meter.answers == {("s6a", "rel-1"): True}
    # The answers to a standby gateway go to the active one.
    for text, kept in (("active 5 1", 1), ("standby 9 1", 0)):
        looks.append(seen._replace(now=10, standby=text))
        asking.refresh()
        asking.ask()
        assert len(asking._meter.answers) == kept
