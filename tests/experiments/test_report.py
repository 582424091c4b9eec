"""The report: what it says of runs, and that it stands alone."""

from __future__ import annotations

import csv
import dataclasses
import itertools
import math
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from support.campaigns import ENVIRONMENT, performance

from builder import packages
from builder.tree import Tree
from experiments import model, stats
from experiments.campaign import plan
from experiments.model import Cell, Run
from experiments.profiles import PROFILES
from experiments.report import figures, published, render, summary
from experiments.store import Campaign

DESCRIBED = {"profile": "quick", "seed": 1, "environment": ENVIRONMENT}
REAL_OSM = {
    "osm": {"url": "https://osm", "release": "19"},
    "vim": {"name": "v", "type": "openstack"},
    "versions": {},
}
VOID = {"meta", "br", "hr", "img", "input", "link", "use", "path", "circle", "rect"}


class Balance(HTMLParser):
    """Notes elements that are not closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


def test_ratios_are_to_the_own_baseline(runs: list[Run]) -> None:
    vpn = {r.label: r.value for r in summary.vpn_ratios(runs, "mbps")}
    assert vpn["s6a embb"].mean == pytest.approx(0.25)
    beside = {r.label: r.value for r in summary.neighbour_ratios(runs, "rtt_ms")}
    assert beside["s6a urllc, tunnel"].mean == pytest.approx(2.0)


def test_published_figures_are_ratios_too() -> None:
    rate = {(r.source, r.label): r.value.mean for r in published.over_plain("mbps")}
    assert rate["ntnu-2022", "s6a vpn"] == pytest.approx(918 / 21700)
    assert rate["ntnu-2022", "s6a vpn between sites"] == pytest.approx(156 / 179)
    delay = {(r.source, r.label): r.value.mean for r in published.over_plain("rtt_ms")}
    assert delay["ntnu-2022", "s1u vpn"] == pytest.approx(0.784 / 0.364)
    assert all(item["source"] for item in published.reference())


def test_double_resources_have_a_baseline_of_their_own() -> None:
    rate = {(r.source, r.label): r.value.mean for r in published.over_plain("mbps")}
    plain = (14600 + 19200) / 2
    assert rate["ntnu-2022", "s6a vpn double resources"] == pytest.approx(1070 / plain)
    assert rate["ntnu-2022", "s6a embb separate"] == pytest.approx((767 + 1050) / 2 / 21700)
    assert ("ntnu-2022", "s1u vpn") not in rate
    # S1-U of slices was measured without a VPN: eMBB alone, and both at the same time.
    assert rate["ntnu-2022", "s1u embb separate"] == pytest.approx(1480 / 17200)
    assert rate["ntnu-2022", "s1u urllc simultaneous"] == pytest.approx(1410 / 19800)
    assert ("ntnu-2022", "s1u urllc separate") not in rate
    gain = {r.label: r.value.mean for r in published.double()}
    assert gain["s6a, tunnel"] == pytest.approx(1070 / 918)


def test_the_vcpus_told_are_those_of_the_descriptors() -> None:
    known = packages.catalogue(Tree.find(Path(__file__).parent))
    (result,) = [item["vcpus"] for item in published.reference() if "vcpus" in item]
    for name, vcpus in result.items():
        for suffix, factor in (("", 1), ("_double", 2)):
            vnfd = known[f"{name}_vnf{suffix}"].descriptor["vnfd"]
            (compute,) = vnfd["virtual-compute-desc"]
            assert compute["virtual-cpu"]["num-virtual-cpu"] == factor * vcpus
    assert published.gaining(2) == ["spgwu"]


def test_the_matrix_has_every_set_up(runs: list[Run], matrix: list[Run]) -> None:
    measured = [r for r in (*runs, *matrix) if r.experiment == "performance"]
    signalling = [r for r in matrix if r.experiment == "signalling"]
    rows = {row.title: row for row in summary.matrix(measured, signalling)}
    assert len(rows) == 7
    assert not rows["one EPC, nothing beside it"].ours
    double, sites = rows["double resources"], rows["two sites"]
    assert double.ours["mbps"].mean == pytest.approx(3 / 8)
    assert double.ours["air"].mean == pytest.approx(1.5)
    assert double.published["air"].mean == pytest.approx(5.607 / 6.156)
    assert "rtt_ms" not in double.published
    assert sites.ours["rtt_ms"].mean == pytest.approx(2)
    assert sites.published["rtt_ms"].mean == pytest.approx(19.769 / 18.355)
    assert set(rows["URLLC, neighbour saturated"].ours) == {"mbps", "rtt_ms"}
    # Against the tunnel of the plain slice: 3000 over 2000, in each round.
    gain = {r.label: r.value for r in summary.double_ratios(measured, "mbps")}
    assert gain["s6a, tunnel"].high == pytest.approx(1.5)
    page = render.html(DESCRIBED, [*runs, *matrix])
    for text in ("The matrix, on S6a", "brings more to SPGW-U only", "HSS is at another site"):
        assert text in page
    assert summary.matrix([], []) == []


def test_response_times_are_ratios_too(matrix: list[Run]) -> None:
    made = [run for run in matrix if run.experiment == "signalling"]
    ours = {r.label: r.value for r in summary.signalling_ratios(made)}
    assert ours["ULR embb"].mean == pytest.approx(1)
    assert ours["AIR embb"].mean == pytest.approx(1.5)
    theirs = {r.label: r.value.mean for r in published.signalling()}
    assert theirs["AIR vpn"] == pytest.approx(5.377 / 6.156)
    page = render.html(DESCRIBED, made)
    assert "how long the HSS takes" in page


def test_the_page_stands_alone_and_is_well_formed(runs: list[Run], judged: list[Run]) -> None:
    page = render.html(DESCRIBED, [*runs, *judged])
    parser = Balance()
    parser.feed(page)
    assert (parser.wrong, parser.open) == ([], [])
    outside = [url for url in re.findall(r'(?:src|href)="([^"#]+)', page) if "w3.org" not in url]
    # Files beside the page, which shows the same without them.
    assert all(re.fullmatch(r"figures/figure-\d\.(svg|pdf|csv)", url) for url in outside)
    assert "<script" not in page
    assert 'name="viewport"' in page
    numbers = [int(number) for number in re.findall(r"<b>Figure (\d+)\.</b>", page)]
    assert numbers == list(range(1, page.count("<svg") + 1))
    assert len(numbers) == 7
    assert "0x7f" not in page  # no object's address where a figure should be


def test_what_does_not_hold_is_said(runs: list[Run], judged: list[Run]) -> None:
    page = render.html(DESCRIBED, judged)
    assert page.count("DOES NOT HOLD") == 1
    assert "a/hss reached b/&lt;mme&gt; at inner/s6a" in page
    assert "IMSI 001010000000001" in page
    assert summary.verdicts(judged, 2)[0] == ("confidentiality", 2, 2, 0, True)


def test_who_reached_whom_is_a_matrix(judged: list[Run]) -> None:
    page = render.html(DESCRIBED, judged)
    assert '<td class="good">tunnel</td>' in page
    assert '<td class="bad-text">1 REACHED</td>' in page
    assert '<td class="">SSH</td>' in page


def test_all_slices_are_drawn_also_those_that_were_only_attacked() -> None:
    made = [performance("urllc", path, "", 0, 900.0, 0.5) for path in ("underlay", "tunnel")]
    page = render.html(DESCRIBED, made)
    topology = page[page.index("<h2>What was measured") : page.index("Figure 1.")]
    assert [name for name in ("eMBB", "URLLC", "two sites") if f">{name}</text>" in topology] == [
        "eMBB",
        "URLLC",
    ]


def test_the_name_of_a_slice_stays_whole() -> None:
    made = [performance("embb-north", "tunnel", "", 0, 900.0, 0.5, link="s1u")]
    page = render.html({**DESCRIBED, "environment": {**REAL_OSM, "slices": ["embb-north"]}}, made)
    assert "S1-U embb-north, one flow: 900 Mbit/s" in page
    assert render._vnf("north/embb/mme") == "north/embb MME"


def test_dollar_signs_in_a_name_are_no_formula() -> None:
    made = figures.ratios([summary.Ratio("a$b$c", stats.single(0.5))], [], "title", "ratio")
    assert ">a$b$c</text>" in made.svg


def test_only_datagrams_that_were_sent_are_counted(judged: list[Run]) -> None:
    outcomes = {"forged": {"udp sent": 3, "udp eperm": 4}}
    run = dataclasses.replace(judged[2], result={**judged[2].result, "outcomes": outcomes})
    (row,) = cells(render.html(DESCRIBED, [run]), "forged source")
    assert row[-1] == "3"


def test_requirements_have_verdicts(runs: list[Run], matrix: list[Run]) -> None:
    made = [r for r in (*runs, *matrix) if r.experiment == "performance"]
    found = summary.requirements(made, [r for r in matrix if r.experiment == "signalling"], [])
    result = {(v.source, v.figure): v.met for v in found}
    assert result["ntnu-2022", "UE, end to end: 1.65 Mbit/s"] is False
    assert result["", "s6a urllc, round trip: 0.50 ms"] is True
    assert result["", "AIR embb, with its answer: 3.00 ms"] is True
    slow = [performance("urllc", "tunnel", "", 0, 900.0, 1.5)]
    (own,) = [v for v in summary.requirements(slow, [], []) if not v.source]
    assert (own.met, own.goal) == (False, "at most 1 ms")


@pytest.mark.parametrize(
    ("lost", "figure", "met"),
    [(0, "0.40 ms", True), (4, "0.60 ms", True), (9, "12.5 % lost", False), (400, "", False)],
)
def test_a_lost_datagram_came_too_late(lost: int, figure: str, met: bool) -> None:
    stream: dict[str, object] = {
        "sent": 800, "lost": lost, "loss_percent": 12.5, "delay_p99_ms": 0.4, "delay_max_ms": 3.0,
        "delay_within": [[99, 0.4], [99.5, 0.6], [100, 3.0]],
    }  # fmt: skip
    if not figure:
        stream |= {"lost": 800, "delay_p99_ms": None, "delay_max_ms": None, "delay_within": []}
    params = {"enforced": True}
    run = Run("qos", params, Cell("qos", params).key, 0, 0, 1e9, 1.0, 0.5, {"urllc": stream}, True)
    (own,) = [v for v in summary.requirements([], [], [run]) if not v.source]
    assert own.figure.endswith(f"99 %: {figure}" if figure else "% lost")
    assert own.met == met


def test_controls_alone_have_no_verdict(judged: list[Run]) -> None:
    tunnel, control = judged[:2]
    params = {"enforced": False}
    other = Run("qos", params, Cell("qos", params).key, 0, 0, 1e9, 1.0, 0.5, {}, True)
    assert summary.verdicts([control, other], 2) == []
    assert summary.verdicts([tunnel, control], 2) == [("confidentiality", 2, 2, 0, True)]
    failed = dataclasses.replace(other, passed=False)
    assert summary.verdicts([failed], 2) == [("qos", 0, 1, 0, True)]


def test_runs_that_are_missing_are_named(judged: list[Run]) -> None:
    steps = [step for step in plan(PROFILES["quick"], 1, 1) if step.cell.experiment != "qos"]
    made = [
        dataclasses.replace(judged[0], experiment=step.cell.experiment, key=step.cell.key)
        for step in steps
    ]
    lacking = render.missing(DESCRIBED, made[:-1])
    assert lacking.endswith("not made: 2 of 2 of qos, 1 of 1 of revocation.")
    assert render.missing({**DESCRIBED, "environment": REAL_OSM}, made) == ""
    assert "not made: 1 of 2 of confidentiality" in render.html(DESCRIBED, judged[1:])
    # On a real OSM there is no qos, and no fault of a charm.
    made = [run for run in made[:-1] if run.experiment != "dependability"]
    elsewhere = render.missing({**DESCRIBED, "environment": REAL_OSM}, made)
    assert elsewhere.endswith("not made: 3 of 3 of dependability, 1 of 1 of revocation.")
    named = {"profile": "slices", "seed": 1, "environment": {**REAL_OSM, "slices": ["a", "b"]}}
    assert render.missing(named, made) == ""


def test_a_control_that_was_not_made_shows_nothing(judged: list[Run]) -> None:
    assert "the control shows an identity (2 of 2 runs)" in render.html(DESCRIBED, judged)
    named = {"profile": "slices", "seed": 1, "environment": {**REAL_OSM, "slices": ["a", "b"]}}
    page = render.html(named, judged[:1])
    assert "address resolution (1 of 1 runs)" in page
    assert "There was no control" in page
    assert "Diameter request" not in page
    assert "<h2>Requirements" not in page  # none of our figures has one


def test_own_figures_come_first_and_the_cost_is_a_card(runs: list[Run]) -> None:
    page = render.html(DESCRIBED, runs)
    cards = page[page.index('class="cards"') : page.index("</ul>")]
    assert "of the throughput" in cards
    assert "the round trip" in cards
    assert page.index("<h2>Cost") < page.index("<h2>Requirements")


def test_the_host_is_told_with_memory_and_clock(runs: list[Run]) -> None:
    host = {**DESCRIBED["environment"]["host"], "mhz": 2400, "memory-gib": 8}
    environment = {**DESCRIBED["environment"], "host": host}
    page = render.html({**DESCRIBED, "environment": environment}, runs)
    assert ", 2400 MHz, 8 GiB of memory, Linux" in page
    assert model.host()["memory-gib"] >= 1


def test_a_busy_machine_is_told_at_the_top(runs: list[Run]) -> None:
    assert "busy with something else" not in render.html(DESCRIBED, runs)
    busy = [dataclasses.replace(run, busy=0.6) for run in runs[:3]]
    page = render.html(DESCRIBED, [*busy, *runs[3:]])
    assert f"Before 3 of {len(runs)}" in page
    assert page.index("busy with something else") < page.index('class="cards"')
    # On a real OSM the machine of the campaign carries nothing of it.
    elsewhere = {**ENVIRONMENT, "osm": {"url": "https://osm", "release": "19"}}
    del elsewhere["host"]
    assert "busy with" not in render.html({**DESCRIBED, "environment": elsewhere}, busy)


@pytest.mark.parametrize(
    ("low", "high"), [(0.03, 1.25), (0.8, 130), (0.3, 2.9), (0.8, 1.25), (0.01, 1000), (0.95, 1.3)]
)
def test_labels_of_an_axis_do_not_touch(low: float, high: float) -> None:
    found = figures.marks(low, high, 0.14)
    assert len(found) >= 2
    for one, other in itertools.pairwise(found):
        assert math.log(other / one) / math.log(high / low) >= 0.14


def test_double_resources_on_a_real_osm_have_a_page(runs: list[Run], matrix: list[Run]) -> None:
    page = render.html({**DESCRIBED, "environment": REAL_OSM}, [*runs, *matrix])
    assert "does not know the processors of the VIM's hosts" in page
    assert "one machine" not in page


def cells(page: str, row: str) -> list[list[str]]:
    """Return the texts of the cells after the first one, per row of tables that has this name."""
    rows = re.findall(f"<tr><td>{re.escape(row)}</td>(.*?)</tr>", page, re.DOTALL)
    return [[re.sub("<[^>]*>", " ", cell).strip() for cell in re.findall("<td.*?</td>", one)]
            for one in rows]  # fmt: skip


def test_a_revocation_shows_what_its_verdict_is_made_from(judged: list[Run]) -> None:
    made = next(run for run in judged if run.experiment == "revocation")
    assert cells(render.html(DESCRIBED, [made]), "embb") == [
        ["urllc", "500", "300", "180", "0", "no", "3.00"]
    ]
    known = dataclasses.replace(
        made, result={**made.result, "peer-still-known": True}, passed=False
    )
    assert cells(render.html(DESCRIBED, [known]), "embb")[0][5] == "yes"
    # Campaigns of earlier versions counted all datagrams together.
    del known.result["sent-after-deletion"]
    assert cells(render.html(DESCRIBED, [known]), "embb")[0][3] == "-"


def test_figures_without_a_baseline_are_in_the_tables() -> None:
    made = [performance("embb", "tunnel", "", 0, 40.0, 3.0, link="ue")]
    made += [
        performance("embb", path, "", n, 900.0, 0.5, link="n3")
        for path, rounds in (("tunnel", 3), ("underlay", 2))
        for n in range(rounds)
    ]
    made[0] = dataclasses.replace(made[0], result={**made[0].result, "rtt_within": []})
    page = render.html({**DESCRIBED, "profile": "5g-full"}, made)
    rate, jitter = cells(page, "UE eMBB")
    assert rate == ["idle", "40.0", "-", "-", "3.00", "-", "-", "1"]
    assert jitter == ["idle", "0.010", "-", "0", "-"]
    assert cells(page, "N3 eMBB")[0][-1] == "3, 2, 2"
    assert "of 20 Mbit/s, of a UE 10 Mbit/s uplink," in page
    # The distribution is of a link that has one, although another link was measured first.
    assert "N3 eMBB, tunnel" in page


def test_the_rate_of_the_udp_stream_is_that_of_the_machines() -> None:
    made = [performance("pair", path, "", 0, 90.0, 2.0, "data") for path in ("underlay", "tunnel")]
    page = render.html({**DESCRIBED, "profile": "machines"}, made)
    assert "a UDP stream of 5 Mbit/s, as" in page


def test_an_interval_of_a_rate_ends_at_zero() -> None:
    made = [
        performance("embb", path, "", n, mbps, mbps / 1000)
        for path in ("underlay", "tunnel")
        for n, mbps in enumerate((100.0, 900.0))
    ]
    (rate, *_) = cells(render.html(DESCRIBED, made), "S6a eMBB")
    assert rate[1] == "500 0\u20135582"


def test_rounds_of_signalling_alone_are_counted(matrix: list[Run]) -> None:
    made = [run for run in matrix if run.experiment == "signalling"]
    page = render.html({**DESCRIBED, "profile": "functions"}, made)
    assert "seed 1; 3 repetitions" in page
    assert "AIR eMBB, with its answer: 3.00 ms" in page


@pytest.mark.parametrize("name", ["urllc", "operator-production-urllc-slice-south", 70 * "x"])
def test_long_names_of_slices_leave_room_for_the_plot(name: str) -> None:
    label = f"x2 link {name}, neighbour saturated"
    points = [(0.0, 0.1), (50.0, 0.5), (100.0, 2.0)]
    times = {"fault_s": 1.0, "back_s": 2.0, "ended_s": 4.0, "silent": None}
    for made in (
        figures.ratios([summary.Ratio(label, stats.single(0.5))], [], "title", "ratio"),
        figures.distributions([(label, points), (f"{label}, 2", points)], "title", "ms"),
        figures.timeline([(f"tunnel, {name}", times)], "title"),
    ):
        made.drawn.canvas.draw()
        (axes,) = made.drawn.axes
        texts = list(axes.get_yticklabels())
        if axes.get_legend():
            texts += axes.get_legend().get_texts()
        width = made.drawn.bbox.width
        for text in texts:
            box = text.get_window_extent()
            assert 0 <= box.x0 < box.x1 <= width
        assert axes.get_window_extent().width > width / 3
        ticks = [text.get_window_extent() for text in axes.get_xticklabels()]
        assert all(one.x1 < other.x0 for one, other in itertools.pairwise(ticks))


def test_published_figures_are_seen_above_our_own() -> None:
    made = figures.ratios(
        [summary.Ratio("a", stats.mean([0.5, 0.6]))],
        [summary.Ratio("a", stats.single(0.55), "b")],
        "title",
        "ratio",
    )
    (axes,) = made.drawn.axes
    *_, last = axes.get_lines()
    assert (last.get_marker(), last.get_markerfacecolor()) == ("D", "none")


def test_a_figure_says_itself_whose_points_are_whose() -> None:
    ours, theirs = summary.Ratio("a", stats.single(0.5)), summary.Ratio("a", stats.single(0.6), "b")
    (axes,) = figures.ratios([ours], [theirs], "title", "ratio").drawn.axes
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    assert legend == ["this campaign", "published"]
    (axes,) = figures.ratios([ours], [], "title", "ratio").drawn.axes
    assert axes.get_legend() is None


def test_captions_name_intervals_where_there_are_some(runs: list[Run]) -> None:
    page = render.html(DESCRIBED, runs)
    assert "Lines are 95 % intervals." in page
    assert "95 % intervals." not in render.html(DESCRIBED, [r for r in runs if not r.repetition])


def test_one_epc_alone_has_a_page() -> None:
    made = [performance("epc", path, "", 0, 900.0, 0.5) for path in ("underlay", "tunnel")]
    page = render.html({**DESCRIBED, "profile": "epc"}, made)
    assert "<h1>One EPC" in page
    # Beside what was published of one EPC: in the same row of the matrix and of the figure.
    (row,) = summary.matrix(made, [])
    assert (row.ours["mbps"].mean, row.published["mbps"].mean) == (1, pytest.approx(918 / 21700))
    assert cells(page, "one EPC, nothing beside it") == [["1.00", "0.042", "1.00", "2.12"]]
    assert page.count(">S6a one EPC</text>") == 2  # once in each figure of ratios


def test_a_campaign_without_runs_has_a_page() -> None:
    assert "How this was measured" in render.html(DESCRIBED, [])


def test_files_of_a_campaign(tmp_path: Path, runs: list[Run]) -> None:
    campaign = Campaign(tmp_path)
    campaign.begin("quick", 1, ENVIRONMENT)
    for run in runs:
        campaign.add(run)
    page, table = render.write(campaign)
    rows = list(csv.DictReader(table.open(encoding="utf-8")))
    assert len(rows) == 9 * len(runs)
    for number in range(1, page.read_text(encoding="utf-8").count("<svg") + 1):
        file = tmp_path / "figures" / f"figure-{number}.pdf"
        assert file.read_bytes().startswith(b"%PDF")
        assert "</svg>" in file.with_suffix(".svg").read_text(encoding="utf-8")
        assert len(file.with_suffix(".csv").read_text(encoding="utf-8").splitlines()) > 1
    rates = [float(r["value"]) for r in rows if r["metric"] == "mbps" and r["path"] == "tunnel"]
    assert max(rates) == 2200
    # The same runs give the same page.
    first = page.read_bytes()
    printed = (tmp_path / "figures" / "figure-1.pdf").read_bytes()
    assert render.write(campaign)[0].read_bytes() == first
    assert (tmp_path / "figures" / "figure-1.pdf").read_bytes() == printed


def test_the_table_tells_runs_apart_and_has_every_number(judged: list[Run]) -> None:
    qos = {
        enforced: dataclasses.replace(
            judged[0], experiment="qos", params={"enforced": enforced, "seconds": 4},
            result={"urllc": {"delay_within": [[50, 0.3], [99.5, 2.0]]}, "budget_ms": 10},
            passed=enforced, busy=0.25,
        )
        for enforced in (True, False)
    }  # fmt: skip
    rows = [
        dict(zip(summary.CSV_HEAD, row, strict=True))
        for row in summary.csv_rows([*qos.values(), judged[3]])
    ]
    own = {(row["parameters"], row["passed"], row["metric"]): row["value"] for row in rows}
    assert own["enforced=True; seconds=4", "yes", "urllc.delay_within.99.5"] == 2
    assert own["enforced=False; seconds=4", "no", "budget_ms"] == 10
    fault = "fault=vnf; seconds=4; victim=embb"
    assert own[fault, "yes", "timeline.silent.1"] == 5.5
    assert {(row["seconds"], row["busy"]) for row in rows} == {("1.000", "0.25"), ("1.000", "")}


def fiveg_runs() -> list[Run]:
    """Runs of a 5G network: the UE's way is slow, procedures are quick, a storm saturates."""
    made = [
        performance(name, path, "", number, rate, rtt, link=link)
        for number in range(2)
        for name, link, rate, rtt in (("urllc", "n3", 900.0, 0.4), ("embb", "ue", 40.0, 3.0))
        for path in ("underlay", "tunnel")
    ]
    stream = {"delay_p50_ms": 0.5, "delay_p99_ms": 2.0, "loss_percent": 1.5}
    cells: list[tuple[str, dict[str, object], dict[str, object], bool | None]] = [
        (
            "sessions",
            {"count": 5},
            {
                "sent": 5,
                "answered": {"embb>embb": 5, "embb>urllc": 0},
                "smf": {"embb": {"snssai": "1-000001", "told": ["1-000001"]}},
            },
            True,
        ),
        (
            "sweep",
            {"five_qi": 82, "load": "saturated", "slices": 3, "seconds": 4},
            {"urllc": stream, "mmtc": stream, "within_percent": 99.5, "embb_mbps": 38.25},
            None,
        ),
    ]
    for path, registration in (("underlay", 15.0), ("tunnel", 30.0)):
        times = {f"{what}_{word}_ms": value for what, value in
                 (("registration", registration), ("session", 9.0))
                 for word in ("mean", "median", "p99")}  # fmt: skip
        cells.append(("procedures", {"slice": "embb", "path": path, "ues": 9}, times, None))
    for rate, served in ((40, 21.5), (10, 10.0)):
        figures = dict.fromkeys(
            ("ue_median_ms", "ue_p99_ms", "registration_mean_ms", "session_mean_ms"), 70.0
        )
        outcome = {"offered_per_second": float(rate), "served_per_second": served, "lost": 3}
        params = {"slice": "embb", "ues": 10 * rate, "rate": rate}
        cells.append(("storm", params, {**figures, **outcome}, None))
    for name, params, result, passed in cells:
        key = Cell(name, params).key
        made.append(Run(name, params, key, 0, 0, 1e9, 1.0, 0.5, result, passed))
    return made


def test_the_load_of_one_epc_is_compared_without_its_tunnels() -> None:
    made = []
    for number in range(3):
        for path, attach in (("underlay", 10.0), ("tunnel", 15.0)):
            params = {"slice": "epc", "path": path, "ues": 200, "links": "all"}
            times = {"air_mean_ms": 2.0 + number, "ulr_mean_ms": 2.0, "attach_mean_ms": attach}
            key = Cell("signalling", params).key
            made.append(Run("signalling", params, key, number, 0, 1e9, 1.0, 0.5, times, None))
    for path in ("underlay", "tunnel"):
        params = {"slice": "epc", "path": path, "ues": 100, "rate": 20}
        served = {"offered_per_second": 20.0, "served_per_second": 19.5, "lost": 0}
        served |= {"ue_median_ms": 14.0, "ue_p99_ms": 31.0, "air_mean_ms": 2.3, "ulr_mean_ms": 2.1}
        key = Cell("storm", params).key
        made.append(Run("storm", params, key, 0, 0, 1e9, 1.0, 0.5, served, None))
    page = render.html({**DESCRIBED, "profile": "epc-load"}, made)
    ratios = {one.label: one.value.mean for one in summary.signalling_ratios(made[:6])}
    assert (ratios["AIR epc"], ratios["attach epc"]) == (pytest.approx(1), pytest.approx(1.5))
    for links in ("no VPN", "tunnels"):
        cells = ("epc", links, 100, 20.0, 19.5, 0, 14, 31, 2.3, 2.1)
        row = "".join(
            f'<td class="text">{cell}</td>' if isinstance(cell, str) else f"<td>{cell}</td>"
            for cell in cells
        )
        assert row in page


def test_a_5g_network_has_a_page_of_its_own() -> None:
    page = render.html({**DESCRIBED, "profile": "5g-full"}, fiveg_runs())
    parser = Balance()
    parser.feed(page)
    assert (parser.wrong, parser.open) == ([], [])
    assert "<h1>Slices of a 5G network" in page
    assert "<td>N3 URLLC</td>" in page
    assert "<td>UE eMBB</td>" in page
    assert "S6a a Diameter" not in page
    assert page.index("<td>10.0</td>") < page.index("<td>21.5</td>")
    assert "<td>38.2</td><td>1.50</td><td>2.00</td>" in page
    assert "SMF of embb, S-NSSAI 1-000001, had sessions in 1-000001" in page


def test_a_requirement_that_a_5g_network_does_not_reach_is_said() -> None:
    runs = summary.by_experiment(fiveg_runs())
    found = summary.requirements(runs["performance"], [], [], runs["procedures"])
    own = {verdict.figure: verdict.met for verdict in found if not verdict.source}
    assert own == {
        "n3 urllc, one flow: 900 Mbit/s": True,
        "ue embb, one flow: 40 Mbit/s": False,
        "n3 urllc, round trip: 0.40 ms": True,
        "n2 embb, registration: 30.00 ms": False,
        "n2 embb, PDU session establishment: 9.00 ms": True,
    }
    ratios = summary.procedure_ratios(runs["procedures"])
    assert [(one.label, one.value.mean) for one in ratios] == [
        ("n2 embb, registration", 2.0),
        ("n2 embb, PDU session establishment", 1.0),
    ]
