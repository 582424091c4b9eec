"""Acceptance against the lab's own server: what must be there, what breaks, what is left behind.

Operations end at once here, as `Outcome` says: no VDU and no charm is behind them.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from starlette.types import Message, Receive, Scope, Send
from support.dist import built
from support.nbi_server import BASIC, PASSWORD, Site

from builder import packages
from builder.tree import Tree
from lab.api.app import create_app
from lab.api.tokens import Tokens
from lab.nbi.engine import Engine
from lab.records import jobs
from lab.records.ids import admin
from lab.records.journal import Tail
from lab.records.store import NSDS, NSRS, OPS, VIMS, VNFDS, VNFRS, Document, Store
from operate.acceptance.reasons import remedy
from operate.acceptance.report import Report
from operate.acceptance.run import Acceptance
from operate.acceptance.samples import samples
from operate.cli import main
from operate.client import OperateError
from operate.nbi import Nbi, Refused

pytestmark = pytest.mark.slow

VIM = "11111111-2222-4333-8444-555555555555"


@dataclass
class Outcome:
    instantiate: str = ""
    """Reason of a failure, "" for none."""
    actions: dict[str, str] = field(default_factory=dict)
    """Primitive to the reason of its failure."""
    pressed: list[str] = field(default_factory=list)

    def start(self, store: Store, operation: Document, collection: str = OPS) -> Tail:
        """End an operation instead of starting its worker."""
        kind, ns = operation["lcmOperationType"], operation["nsInstanceId"]
        if kind == "instantiate":
            self._instantiate(store, ns)
            self._end(store, operation, self.instantiate, "Done")
        elif kind == "action":
            name = operation["operationParams"]["primitive"]
            self.pressed.append(name)
            output = {"vpn-client": {"state": "up"}} if name == "show-status" else {}
            self._end(store, operation, self.actions.get(name, ""), {"output": json.dumps(output)})
        else:
            for vnfr in store.all(VNFRS):
                store.delete(VNFRS, vnfr["_id"])
            for other in store.all(OPS):
                store.delete(OPS, other["_id"])
            store.delete(NSRS, ns)
        return Tail(store.home / "events")

    def _instantiate(self, store: Store, ns: str) -> None:
        def service(nsr: Document) -> None:
            nsr["_admin"]["nsState"] = "INSTANTIATED"
            nsr["nsState"] = "BROKEN" if self.instantiate else "READY"
            nsr["_admin"]["deployed"]["VCA"] = [
                {
                    "application": "vpn-ee-z0-server-vnf",
                    "ee_id": None,
                    "charm_name": "vpn-server",
                    "member-vnf-index": "server",
                    "vdu_id": None,
                    "vdu_count_index": None,
                    "status": "READY",
                }
            ]

        def member(vnfr: Document) -> None:
            for vdur in vnfr["vdur"]:
                vdur["status"], vdur["ip-address"] = "ACTIVE", "10.250.1.2"

        with store.edit(NSRS, ns) as document:
            service(document)
        for vnfr in store.all(VNFRS):
            with store.edit(VNFRS, vnfr["_id"]) as document:
                member(document)

    def _end(self, store: Store, operation: Document, reason: str, detail: Any) -> None:
        def change(document: Document) -> None:
            document["operationState"] = "FAILED" if reason else "COMPLETED"
            document["detailed-status"] = reason or detail
            document["errorMessage"] = reason or None

        with store.edit(OPS, operation["_id"]) as document:
            change(document)


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory, BASIC)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("site"))
    yield site
    site.stop()


@pytest.fixture
def outcome(monkeypatch: pytest.MonkeyPatch) -> Outcome:
    outcome = Outcome()
    monkeypatch.setattr(jobs, "start", outcome.start)
    monkeypatch.setattr(jobs, "alive", lambda operation: False)
    return outcome


@pytest.fixture
def engine(tmp_path: Path, outcome: Outcome, site: Site) -> Engine:
    engine = Engine(tmp_path / "home")
    state = {**admin(), "operationalState": "ENABLED"}
    engine.store.put(VIMS, {"_id": VIM, "name": "north", "vim_type": "openstack", "_admin": state})
    site.app = create_app(engine, Tokens(PASSWORD))
    return engine


@dataclass
class Result:
    report: Report
    lines: list[str]

    def failed(self) -> tuple[str, str, str]:
        """Return title, sentence and command of the one step that failed."""
        [step] = [s for s in self.report.steps if s.state == "failed"]
        return step.title, step.sentence, step.command


def accept(site: Site, dist: Path, vim: str = "north", password: str = PASSWORD) -> Result:
    lines: list[str] = []
    report = Report(site.url, vim, lines.append)
    nbi = Nbi(site.url, str(site.certificate), pause=0.05, timeout=120, tries=2)
    passed = Acceptance(nbi, dist, vim, report, 30).run("admin", password, "admin", False)
    assert passed == report.passed
    return Result(report, lines)


def nothing_left(engine: Engine) -> None:
    for collection in (VNFDS, NSDS, NSRS, VNFRS, OPS):
        assert engine.store.all(collection) == []


def refuse(outcome: Outcome) -> None:
    """Let the charms refuse what they must refuse on the smallest service."""
    for name in ("show-csr", "set-certificate", "set-enrolment"):
        outcome.actions[name] = "no credentials certificate on this link"
    outcome.actions["fetch-preshared-key"] = "vpn-client has no such peer"
    for name in samples("vpn-client", "10.77.0.2/24", "server"):
        if name.startswith(("start-", "stop-")) or name in ("probe", "inject-fault"):
            outcome.actions[name] = "its parameter allow_experiments must be yes"


def test_all_is_well(engine: Engine, site: Site, dist: Path, outcome: Outcome) -> None:
    refuse(outcome)
    result = accept(site, dist)
    assert result.report.passed, result.lines
    skipped = [s.title for s in result.report.steps if s.state == "skipped"]
    assert skipped == []  # a primitive that is new needs a sample
    assert outcome.pressed[-1] == "revoke-peer"
    nothing_left(engine)
    page = result.report.page()
    assert "Acceptance: passed" in page
    assert PASSWORD not in page


def test_without_vca(engine: Engine, site: Site, dist: Path) -> None:
    site.app = create_app(engine, Tokens(PASSWORD), vca=False)
    title, sentence, command = accept(site, dist).failed()
    assert title == "VCA"
    assert sentence.startswith("No Juju controller is registered, and charms need one; packages ")
    assert command.startswith("osm vca-add osm-vca ")
    nothing_left(engine)


def test_vca_by_the_command_that_acceptance_names(
    engine: Engine, site: Site, dist: Path, outcome: Outcome
) -> None:
    """What the command sends to OSM is enough to go on."""
    refuse(outcome)
    site.app = create_app(engine, Tokens(PASSWORD), vca=False)
    _, _, command = accept(site, dist).failed()
    words = shlex.split(command.replace("$(cat ca.pem)", "PEM"))
    options = {
        name.removeprefix("--"): value for name, value in zip(words[3::2], words[4::2], strict=True)
    }
    options["endpoints"] = [options["endpoints"]]  # osmclient splits it at commas
    nbi = Nbi(site.url, str(site.certificate))
    nbi.log_in("admin", PASSWORD, "admin")
    vca = nbi.post("/admin/v1/vca", {"name": words[2], **options})
    [unnamed] = [s for s in accept(site, dist).report.steps if s.title == "VCA"]
    assert unnamed.state == "unknown"
    assert unnamed.sentence.startswith("osm-vca; VIM account 'north' does not name it (`osm vim-")
    with engine.store.edit(VIMS, VIM) as record:
        record.update(vca=vca["id"])
    result = accept(site, dist)
    assert result.report.passed, result.lines
    [named] = [s for s in result.report.steps if s.title == "VCA"]
    assert (named.state, named.sentence) == ("passed", "osm-vca")


def test_without_vca_and_with_pods(
    engine: Engine, site: Site, outcome: Outcome, tmp_path: Path
) -> None:
    """OSM 19 as it is installed, with packages for its own Kubernetes."""
    refuse(outcome)
    outcome.actions["restart"] = "no"
    site.app = create_app(engine, Tokens(PASSWORD), vca=False)
    packages.build(Tree.find(Path(__file__).resolve().parent), tmp_path, BASIC[:2], image="x/y:1")
    result = accept(site, tmp_path)
    [vca] = [s for s in result.report.steps if s.title == "VCA"]
    assert (vca.state, vca.sentence) == ("passed", "not needed: the packages bring pods, no charms")
    title, _, command = result.failed()
    assert title == "primitive restart"
    assert command.startswith("kubectl -n ")
    nothing_left(engine)


def test_no_such_vim(engine: Engine, site: Site, dist: Path) -> None:
    title, sentence, command = accept(site, dist, vim="south").failed()
    assert (title, sentence) == ("VIM account", "There is no VIM account 'south'; there is north.")
    assert command.startswith("osm vim-create --name south ")
    assert command.endswith(" --vca osm-vca")


def test_vim_that_osm_cannot_reach(engine: Engine, site: Site, dist: Path) -> None:
    def change(vim: Document) -> None:
        vim["_admin"]["operationalState"] = "ERROR"

    with engine.store.edit(VIMS, VIM) as document:
        change(document)
    title, sentence, command = accept(site, dist).failed()
    assert (title, sentence) == ("VIM account", "OSM's connection to it is in state ERROR.")
    assert command.startswith("osm vim-update north ")


def test_full_quota(engine: Engine, site: Site, dist: Path, outcome: Outcome) -> None:
    def change(vim: Document) -> None:
        vim["resources"] = {"compute": {"vcpus": {"total": 8, "used": 7}}}

    with engine.store.edit(VIMS, VIM) as document:
        change(document)
    outcome.instantiate = "Error at VIM: Quota exceeded for cores"
    result = accept(site, dist)
    failed = [(s.title, s.sentence, s.command) for s in result.report.steps if s.state == "failed"]
    assert failed == [
        (
            "quotas",
            "Of 8 vcpus 7 are in use, and the smallest service needs 2.",
            "openstack quota set --cores 9 PROJECT",
        ),
        (
            "smallest service",
            "A quota of the project is full.",
            "openstack quota show && openstack limits show --absolute",
        ),
    ]
    nothing_left(engine)


def test_wrong_password(engine: Engine, site: Site, dist: Path) -> None:
    result = accept(site, dist, password="wrong")
    title, sentence, _ = result.failed()
    assert (title, result.report.steps[-1].detail) == ("token", "Invalid username/password")
    assert "'admin'" in sentence
    assert len(result.report.steps) == 2


def test_package_that_is_not_built(engine: Engine, site: Site, tmp_path: Path) -> None:
    title, sentence, command = accept(site, tmp_path).failed()
    assert (title, command) == ("packages", "./run build vpn_endpoint_vnf")
    assert sentence.endswith("vpn_endpoint_vnf.tar.gz is not there.")


def test_packages_of_others_stay(engine: Engine, site: Site, dist: Path, outcome: Outcome) -> None:
    engine.catalogue.onboard(VNFDS, dist / "vpn_endpoint_vnf.tar.gz")
    outcome.instantiate = "Timeout"
    accept(site, dist)
    assert [d["id"] for d in engine.store.all(VNFDS)] == ["vpn_endpoint_vnf"]
    assert engine.store.all(NSDS) == []


def test_primitive_that_fails(engine: Engine, site: Site, dist: Path, outcome: Outcome) -> None:
    refuse(outcome)
    outcome.actions["restart"] = "wg-quick said no"
    title, sentence, command = accept(site, dist).failed()
    assert (title, sentence) == ("primitive restart", "It failed.")
    assert command.startswith("juju debug-log -m ")
    assert "revoke-peer" in outcome.pressed  # the others are pressed all the same
    nothing_left(engine)


def test_long_operation_is_told(
    engine: Engine, site: Site, dist: Path, outcome: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service takes minutes; its stage is shown all the while."""
    refuse(outcome)
    monkeypatch.setattr("operate.client.SILENCE", 0.0)
    ended: list[str] = []

    def end(store: Store, operation: Document, reason: str, detail: Any) -> None:
        if operation["lcmOperationType"] == "instantiate":
            later = threading.Timer(0.3, Outcome._end, (outcome, store, operation, reason, detail))
            later.start()
            ended.append(operation["_id"])
            return
        Outcome._end(outcome, store, operation, reason, detail)

    monkeypatch.setattr(outcome, "_end", end)
    monkeypatch.setattr(jobs, "alive", lambda operation: operation["_id"] in ended)
    result = accept(site, dist)
    assert result.report.passed, result.lines
    assert "        0 s: in progress" in result.lines


class Breaking:
    """A server whose connection breaks inside some answers."""

    def __init__(self, site: Site, path: str, method: str, times: int) -> None:
        assert site.app is not None
        self._app, self._path, self._method, self.left = site.app, path, method, times
        site.app = self

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        hit = self._path in scope["path"] and scope["method"] == self._method
        if not hit or not self.left:
            await self._app(scope, receive, send)
            return
        self.left -= 1

        async def swallow(message: Message) -> None:
            """Let the order be done, and its answer be lost."""

        await self._app(scope, receive, swallow)
        headers = [(b"content-length", b"100"), (b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"{", "more_body": True})
        raise ConnectionResetError


@pytest.mark.parametrize("path", ["vim_accounts", "ns_lcm_op_occs", "vnf_packages/"])
def test_connection_that_breaks_in_an_answer(
    engine: Engine, site: Site, dist: Path, outcome: Outcome, path: str
) -> None:
    refuse(outcome)
    breaking = Breaking(site, path, "GET", 2)
    result = accept(site, dist)
    assert breaking.left == 0
    assert result.report.passed, result.lines
    nothing_left(engine)


@pytest.mark.parametrize(
    ("path", "step"),
    [("ns_instances_content", "smallest service"), ("ns_descriptors_content", "packages")],
)
def test_connection_that_breaks_in_an_order(
    engine: Engine, site: Site, dist: Path, path: str, step: str
) -> None:
    """It was made though the answer is lost: it is deleted all the same."""
    Breaking(site, path, "POST", 1)
    title, sentence, _ = accept(site, dist).failed()
    assert title == step
    assert "does not answer" in sentence
    nothing_left(engine)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_proxy_without_an_answer_is_asked_again(engine: Engine, site: Site, method: str) -> None:
    app, answers = site.app, [502, 503]
    assert app is not None

    async def proxy(scope: Scope, receive: Receive, send: Send) -> None:
        if not answers or scope["method"] != method or "tokens" in scope["path"]:
            await app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": answers.pop(), "headers": []})
        await send({"type": "http.response.body", "body": b"<html>"})

    site.app = proxy
    nbi = Nbi(site.url, str(site.certificate), pause=0.05, tries=2)
    nbi.log_in("admin", PASSWORD, "admin")
    if method == "GET":
        assert nbi.get("/admin/v1/vim_accounts")[0]["name"] == "north"
    else:
        with pytest.raises(Refused, match="503"):
            nbi.post("/admin/v1/vim_accounts", {})
        assert answers == [502]


def test_osm_that_goes_away(engine: Engine, site: Site, dist: Path, outcome: Outcome) -> None:
    Breaking(site, "ns_lcm_op_occs", "GET", 1000)
    result = accept(site, dist)
    failed = [s for s in result.report.steps if s.state == "failed"]
    assert failed[0].title == "smallest service"
    # What may be left there is named, for whoever deletes it by hand.
    assert failed[-1].title == "cleaning up"
    assert failed[-1].command.startswith("osm ns-delete acceptance-")


def test_a_run_that_is_interrupted_has_not_passed(
    engine: Engine, site: Site, dist: Path, outcome: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Acceptance, "_check_records", interrupted)
    report = Report(site.url, "north", lambda _: None)
    nbi = Nbi(site.url, str(site.certificate), pause=0.05)
    with pytest.raises(KeyboardInterrupt):
        Acceptance(nbi, dist, "north", report, 30).run("admin", PASSWORD, "admin", False)
    assert (report.steps[-1].title, report.steps[-1].state) == ("records", "failed")
    assert "Acceptance: failed" in report.page()
    nothing_left(engine)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OperateError("no charm of server")])
def test_a_run_that_ends_between_two_steps_has_not_passed(
    engine: Engine,
    site: Site,
    dist: Path,
    outcome: Outcome,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
) -> None:
    def application(*_: object) -> None:
        raise error

    monkeypatch.setattr(Acceptance, "_application", application)
    report = Report(site.url, "north", lambda _: None)
    nbi = Nbi(site.url, str(site.certificate), pause=0.05)
    with contextlib.suppress(KeyboardInterrupt, OperateError):
        assert not Acceptance(nbi, dist, "north", report, 30).run("admin", PASSWORD, "admin", False)
    [failed] = [step for step in report.steps if step.state == "failed"]
    assert failed.sentence == (str(error) or "It was interrupted.")
    assert "Acceptance: failed" in report.page()
    nothing_left(engine)


def test_certificate_nobody_vouches_for(site: Site, dist: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    words = ["acceptance", "--osm", site.url, "--vim", "north", "--out", str(page)]
    done = CliRunner().invoke(main, [*words, "--dist", str(dist)])
    assert done.exit_code == 1
    assert "is not trusted" in done.output
    assert "--ca FILE, or --insecure" in done.output
    assert "Acceptance: failed" in page.read_text()


@pytest.mark.parametrize("url", ["https://127.0.0.1:1", "https://no-such-host.invalid:9999"])
def test_nobody_there(dist: Path, tmp_path: Path, url: str) -> None:
    words = ["acceptance", "--osm", url, "--vim", "north", "--out", str(tmp_path / "page.html")]
    done = CliRunner().invoke(main, [*words, "--dist", str(dist)])
    assert (done.exit_code, "does not answer" in done.output) == (1, True)


@pytest.mark.parametrize(
    ("text", "command"),
    [
        (
            "Image not found with this criteria: 'ubuntu22.04' (this VIM has: x).",
            "openstack image create",
        ),
        ("Error at VIM, x: vimconnNotFoundException image not found", "openstack image create"),
        ("Quota exceeded for instances", "openstack quota show"),
        (
            "IP address 192.168.120.1 already allocated in subnet x",
            "openstack subnet set --no-dhcp",
        ),
        ("IpAddressAlreadyAllocated", "openstack subnet set --no-dhcp"),
        (
            '{"problem": "s6a: underlay: ens4 has no address yet; allowed: x"}',
            "openstack server show",
        ),
        ("Cannot inject ssh-key to target VM", "openstack security group rule create"),
        ("Network not found with this criteria: 'mgmt'", "osm vim-update"),
        ("Deploying VCA vnf.x: N2VC error", "osm vca-add"),
        ("The request you have made requires authentication: Unauthorized", "osm vim-update"),
    ],
)
def test_reasons(text: str, command: str) -> None:
    found = remedy(text)
    assert found is not None
    assert found.command.startswith(command)
