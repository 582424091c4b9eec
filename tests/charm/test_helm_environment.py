"""The code of charms in a Helm execution environment, from LCM's gRPC client to models of VDUs."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from helm_ee import offers, server
from helm_ee.environment import HelmEnvironment
from support.helm import Environment, InMemory, Namespace, certificates, declared
from support.juju import Juju
from support.model import ModelVdu
from support.over_model import OverModel
from support.ports import free_port
from support.waiting import PATIENCE, listens, wait_until
from vpnaas import edge, status, unit
from vpnaas.base.errors import UnreachableError
from vpnaas.plan import RECENT
from vpnaas.vdu.ssh import CommandResult
from vpnaas.vdu.steps import Step

from lab.certificates import Authority
from lab.errors import ClusterError

KIND = edge.kind_of("vpnaas.kinds.vnf.VNF", "experiments.vdu.actions.Experiments")
MANAGEMENT = {"server": "10.0.0.1", "client": "10.0.0.2"}
INNER = {"server": "10.77.0.1", "client": "10.77.0.2"}
OTHER = {"server": "client", "client": "server"}


@pytest.fixture(autouse=True)
def vdus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    wg = tmp_path / "wg"
    wg.write_text("#!/bin/sh\n", encoding="utf-8")
    wg.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    world = Juju().world
    for number, address in enumerate(MANAGEMENT.values(), start=1):
        nics = {"ens3": f"{address}/24", "ens4": f"192.168.100.1{number}/24"}
        OverModel.models[address] = ModelVdu(world, nics)
    monkeypatch.setattr(unit, "Vdu", OverModel)
    yield
    OverModel.models.clear()


@pytest.fixture
def namespace() -> Namespace:
    return Namespace()


def environment(namespace: Namespace, member: str, run: Path, name: str = "") -> Environment:
    name = name or f"vpn-endpoint-{member}"
    return Environment(namespace, name, KIND, "vpn-endpoint", run)


def config(member: str) -> dict[str, str]:
    other = OTHER[member]
    return {
        "ssh-hostname": MANAGEMENT[member],
        "ssh-username": "ubuntu",
        "ssh-password": "",
        "osm": yaml.safe_dump({"ns_id": "ns", "member_vnf_index": member}),
        "relations": f"vpn-{member}={other}:vpn-{other}",
    }


def day_1(ee: Environment, member: str, **link: object) -> None:
    assert ee.execution.ssh_key().startswith("ssh-ed25519 ")
    assert ee.execution.primitive("config", yaml.dump(config(member))) == ("OK", "CONFIG OK")
    status, answer = ee.ask(
        "configure",
        link=f"vpn-{member}",
        inner_address=f"{INNER[member]}/24",
        underlay_interface="ens4",
        **link,
    )
    assert status == "OK", answer


def settle(*environments: Environment) -> None:
    for _ in range(4):
        for ee in environments:
            ee.execution.reconcile(unless_settled=True)


def state(ee: Environment, member: str) -> str:
    status, answer = ee.ask("show-status")
    assert status == "OK", answer
    return str(json.loads(answer)[f"vpn-{member}"]["state"])


@pytest.fixture
def pair(namespace: Namespace, tmp_path: Path) -> tuple[Environment, Environment]:
    made = tuple(environment(namespace, member, tmp_path) for member in MANAGEMENT)
    for ee, member in zip(made, MANAGEMENT, strict=True):
        day_1(ee, member)
    settle(*made)
    return made[0], made[1]


def test_two_environments_bring_a_tunnel_up(pair: tuple[Environment, Environment]) -> None:
    assert [state(ee, member) for ee, member in zip(pair, MANAGEMENT, strict=True)] == ["up", "up"]


def test_a_dead_link_is_red_when_a_pod_is_asked(
    pair: tuple[Environment, Environment], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status, "SETTLING", 0)
    first, second = (OverModel.models[address] for address in ("10.0.0.1", "10.0.0.2"))
    assert first.world is second.world
    first.world.clock += RECENT
    first.world.ping = lambda *_: False  # type: ignore[method-assign]
    assert [state(ee, member) for ee, member in zip(pair, MANAGEMENT, strict=True)] == ["down"] * 2
    shown = json.loads(pair[0].ask("show-status")[1])["vpn-server"]
    assert (shown["reason"], shown["peers"][0]["loss-percent"]) == ("no answer from client", 100)


def test_a_second_reconcile_does_not_ask_the_vdu(pair: tuple[Environment, Environment]) -> None:
    vdu = OverModel.models["10.0.0.1"]
    before = vdu.round_trips
    pair[0].execution.reconcile(unless_settled=True)
    assert vdu.round_trips == before


def test_the_order_of_events_does_not_matter(namespace: Namespace, tmp_path: Path) -> None:
    first = environment(namespace, "server", tmp_path)
    first.execution.reconcile(unless_settled=False)
    day_1(first, "server")
    settle(first)
    assert state(first, "server") == "no-peers" or state(first, "server") == "waiting"
    second = environment(namespace, "client", tmp_path)
    day_1(second, "client")
    settle(second, first)
    assert (state(first, "server"), state(second, "client")) == ("up", "up")


def test_a_peer_that_leaves_is_taken_off(
    pair: tuple[Environment, Environment], namespace: Namespace
) -> None:
    vdu = OverModel.models["10.0.0.1"]
    assert vdu.interfaces["wg-vpn-server"].peers
    del namespace.offers[pair[1].name]
    settle(pair[0])
    assert not vdu.interfaces["wg-vpn-server"].peers


def test_data_that_come_back_after_a_failure_are_not_taken_for_those_in_force(
    pair: tuple[Environment, Environment], namespace: Namespace
) -> None:
    vdu = OverModel.models["10.0.0.1"]
    offer = namespace.offers.pop(pair[1].name)
    vdu.fail_on = "record"
    settle(pair[0])
    assert not vdu.interfaces["wg-vpn-server"].peers
    vdu.fail_on = None
    namespace.offers[pair[1].name] = offer
    settle(pair[0])
    assert vdu.interfaces["wg-vpn-server"].peers


def test_a_removal_that_fails_half_way_is_logged(
    pair: tuple[Environment, Environment], caplog: pytest.LogCaptureFixture
) -> None:
    OverModel.models["10.0.0.1"].fail_on = "forget"
    pair[0].execution._code().stop()
    assert "links were not taken down: forget" in caplog.text


def test_a_removal_waits_four_seconds_for_a_vdu_that_may_be_gone(
    pair: tuple[Environment, Environment], monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[int] = []

    def command(vdu: OverModel, *_: object) -> CommandResult:
        waits.append(vdu.connect_seconds)
        raise UnreachableError("gone")

    monkeypatch.setattr(OverModel, "command", command)
    pair[0].execution._code().stop()
    assert waits == [4]


def test_a_restarted_pod_goes_on(pair: tuple[Environment, Environment], tmp_path: Path) -> None:
    key = pair[0].execution.ssh_key()
    pair[0].restart()
    assert state(pair[0], "server") == "up"
    assert pair[0].execution.ssh_key() == key
    private = list(tmp_path.glob("vpn-endpoint-server-2/id_ed25519"))
    assert [oct(path.stat().st_mode & 0o777) for path in private] == ["0o600"]


def test_a_container_removes_the_key_that_a_dead_one_left_in_the_pod(tmp_path: Path) -> None:
    volume, other = tmp_path / "run", tmp_path / "run" / "other"
    volume.mkdir()
    other.write_text("stays", encoding="utf-8")
    first = Path(server.make_folder(str(volume)))
    (first / "id_ed25519").write_text("key", encoding="utf-8")
    second = Path(server.make_folder(str(volume)))
    assert sorted(volume.iterdir()) == sorted([second, other])
    assert first != second and second.stat().st_mode & 0o777 == 0o700


def test_what_lost_its_state_takes_the_tunnel_up_again(
    pair: tuple[Environment, Environment], namespace: Namespace
) -> None:
    public = OverModel.models["10.0.0.2"].interfaces["wg-vpn-client"].peers
    namespace.states[pair[0].name] = ""
    pair[0].restart()
    status, answer = pair[0].ask("show-status")
    assert (status, answer) == ("ERROR", "ssh-hostname and ssh-username are not set yet")
    day_1(pair[0], "server")
    settle(*pair)
    assert state(pair[1], "client") == "up"
    assert OverModel.models["10.0.0.2"].interfaces["wg-vpn-client"].peers.keys() == public.keys()


def test_damaged_state_is_not_taken_for_none(
    pair: tuple[Environment, Environment], namespace: Namespace
) -> None:
    namespace.states[pair[0].name] = "{"
    with pytest.raises(Exception, match="damaged"):
        pair[0].restart()


def test_a_broken_cluster_fails_a_primitive_with_a_sentence(
    pair: tuple[Environment, Environment], namespace: Namespace
) -> None:
    namespace.broken = True
    status, answer = pair[0].ask("configure", link="vpn-server", inner_address="10.77.0.9/24")
    assert (status, answer) == ("ERROR", "the API server does not answer")
    namespace.broken = False
    assert state(pair[0], "server") == "up"


LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)


@pytest.mark.parametrize(
    ("name", "params", "text"),
    [
        ("nothing", "{}", "there is no primitive"),
        ("configure", "[", "not YAML"),
        ("configure", "[1]", "no mapping"),
        ("configure", "{link: s6a, inner-address: 10.77.0.1/24}", "link: must be one of"),
        ("configure", "{link: vpn-server}", "must contain"),
        ("configure", "{link: vpn-server, inner-address: 1, x: 2}", "configure: "),
        ("configure", "{link: vpn-server, inner-address: 10.77.0.1/99}", "inner-address"),
        ("configure", "{link: vpn-server, inner-address: 10.77.0.1/24, mtu: many}", "mtu: must be"),
        ("configure", "{link: vpn-server, inner-address: 2026-01-31}", "2026-01-31"),
        ("configure", "{link: vpn-server, inner-address: 2026-13-45}", "2026-13-45"),
        ("configure", "{link: !!timestamp 2026-13-45}", "not YAML"),
        ("configure", "{link: !!timestamp 2026-01-31}", "JSON"),
        ("configure", "{link: !!binary aGk=}", "JSON"),
        ("configure", "{link: !!set {a}}", "JSON"),
        ("configure", "{link: .nan}", "JSON"),
        ("configure", "{link: " + "9" * 5000 + "}", "not YAML"),
        ("configure", "a: &a [*a]", "JSON"),
        ("configure", LAUGHS, "JSON"),
        ("configure", "a: " + "[" * 50000, "not YAML"),
        ("configure", "a: " + "x" * (1 << 19), "too long"),
        ("config", "{ssh-hostname: [a]}", "it is no text"),
        ("config", "{ssh-hostname: !!timestamp 2026-01-31}", "JSON"),
        ("config", "{unknown: a}", "there is no option unknown"),
        ("config", "{osm: '{}'}", "it has no member_vnf_index"),
        ("config", "{relations: 'vpn-server'}", "is no relation"),
        ("config", "{relations: 's6a=a:b'}", "this charm has no endpoint s6a"),
    ],
)
def test_bad_parameters_leave_the_tunnel_as_it_was(
    pair: tuple[Environment, Environment], name: str, params: str, text: str
) -> None:
    status, message = pair[0].execution.primitive(name, params)
    assert status == "ERROR"
    assert text in message
    assert "\n" not in message
    assert state(pair[0], "server") == "up"


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "{}",
        json.dumps({"version": 1, "member": "client", "relations": {}}),
        json.dumps({"version": 1, "member": 7, "relations": []}),
        json.dumps({"version": 1, "member": "client", "relations": [{"endpoint": "x"}]}),
        json.dumps(
            {
                "version": 1,
                "member": "client",
                "relations": [{"endpoint": "a", "member": "b", "remote": "c", "data": {"k": 1}}],
            }
        ),
        "[" * 100000,
        "9" * (offers.MAX_DOCUMENT + 1),
    ],
)
def test_a_hostile_document_harms_only_its_writer(
    pair: tuple[Environment, Environment], namespace: Namespace, text: str
) -> None:
    namespace.offers["stranger"] = text
    settle(*pair)
    assert state(pair[0], "server") == "up"
    assert "stranger" in json.loads(pair[0].ask("show-status")[1])["problems"][0]


def test_who_says_it_is_a_member_that_is_known_is_not_believed(
    pair: tuple[Environment, Environment], namespace: Namespace
) -> None:
    before = dict(OverModel.models["10.0.0.1"].interfaces["wg-vpn-server"].peers)
    forged = namespace.offers[pair[1].name].replace("192.168.100.12", "192.168.100.66")
    namespace.offers["a-stranger"] = forged
    settle(*pair)
    peers = OverModel.models["10.0.0.1"].interfaces["wg-vpn-server"].peers
    assert {k: p.endpoint for k, p in peers.items()} == {k: p.endpoint for k, p in before.items()}
    assert "not believed" in json.loads(pair[0].ask("show-status")[1])["problems"][0]


def problem(ee: Environment) -> str:
    told = json.loads(ee.ask("show-status")[1]).get("problems", [])
    return " ".join(told)


def believed(ee: Environment) -> dict[str, str]:
    return dict(ee.execution._environment._state.members)


def test_of_two_that_say_they_are_one_member_none_is_believed(
    namespace: Namespace, tmp_path: Path
) -> None:
    second = environment(namespace, "client", tmp_path)
    day_1(second, "client")
    stranger = "vpn-endpoint-0"
    namespace.offers[stranger] = namespace.offers[second.name]
    first = environment(namespace, "server", tmp_path)
    day_1(first, "server")
    settle(first, second)
    assert not OverModel.models["10.0.0.1"].interfaces["wg-vpn-server"].peers
    assert "more than one release says that it is client" in problem(first)
    # Who waits until the other one goes gets nothing; an operator decides.
    real = namespace.offers.pop(second.name)
    settle(first)
    assert not OverModel.models["10.0.0.1"].interfaces["wg-vpn-server"].peers
    assert f"config with members: client={stranger}" in problem(first)
    namespace.offers[second.name] = real
    assert first.ask("config", members=f"client={second.name}")[0] == "OK"
    settle(first, second)
    assert state(first, "server") == "up"
    assert f"{second.name} is client; the claim of {stranger} is not believed" in problem(first)


def test_a_later_claim_stays_refused_when_the_real_release_is_gone(
    pair: tuple[Environment, Environment], namespace: Namespace
) -> None:
    first, second = pair
    forged = namespace.offers[second.name].replace("192.168.100.12", "192.168.100.66")
    namespace.offers["vpn-endpoint-0"] = forged
    settle(*pair)
    del namespace.offers[second.name]
    for _ in range(2):
        settle(first)
        first.restart()
        assert not OverModel.models["10.0.0.1"].interfaces["wg-vpn-server"].peers
        assert f"{second.name} was client and is gone" in problem(first)
        assert "the claim of vpn-endpoint-0 is not believed" in problem(first)
    # One that has not claimed it before is the member's new release.
    namespace.offers["vpn-endpoint-7"] = forged.replace("192.168.100.66", "192.168.100.12")
    settle(first)
    assert believed(first) == {"client": "vpn-endpoint-7"}


def test_who_is_one_member_is_no_other_one(namespace: Namespace, tmp_path: Path) -> None:
    first = environment(namespace, "server", tmp_path)
    day_1(first, "server")
    relations = "vpn-server=client:vpn-client,vpn-server=other:vpn-client"
    assert first.ask("config", relations=relations)[0] == "OK"
    text = offers.encode(offers.Document("client", {}))
    namespace.offers["vpn-endpoint-1"] = text
    settle(first)
    assert believed(first) == {"client": "vpn-endpoint-1"}
    namespace.offers["vpn-endpoint-1"] = text.replace("client", "other")
    settle(first)
    assert believed(first) == {"client": "vpn-endpoint-1"}
    assert "the claim of vpn-endpoint-1 is not believed" in problem(first)


@pytest.mark.parametrize(
    ("name", "whose"),
    [("mme-0012345678", True), ("hss-0012345678", False), ("mme", False), ("a-mme-1", False)],
)
def test_a_member_is_a_release_of_a_chart_that_has_the_other_end(
    namespace: Namespace, tmp_path: Path, name: str, whose: bool
) -> None:
    charts = {chart: declared(chart)["metadata"] for chart in ("hss", "mme", "spgwc")}
    namespace.offers[name] = offers.encode(offers.Document("mme", {}))
    charm = {**charts["hss"], "actions": []}
    state = HelmEnvironment(InMemory(namespace, "hss-1"), str(tmp_path), charm, charts)
    state.configure({"member": "hss", "relations": "s6a=mme:s6a"})
    state.look()
    assert (state.problems() == ()) is whose
    assert (state._state.members == {"mme": name}) is whose
    if not whose:
        (said,) = state.problems()
        assert said == f"{name} says that it is mme; it is no release of mme, so it is not believed"


@pytest.mark.parametrize("text", ["mme", "mme=", "=mme-1", "mme=a,mme=b"])
def test_members_of_another_form_are_refused(
    pair: tuple[Environment, Environment], text: str
) -> None:
    status, answer = pair[0].ask("config", members=text)
    assert (status, "is no release; allowed: mme=mme-0012345678" in answer) == ("ERROR", True)


def test_two_services_do_not_see_each_other(namespace: Namespace, tmp_path: Path) -> None:
    first = environment(namespace, "server", tmp_path)
    other = environment(Namespace(), "client", tmp_path)
    day_1(first, "server")
    day_1(other, "client")
    settle(first, other)
    assert not OverModel.models["10.0.0.1"].interfaces["wg-vpn-server"].peers


# By gRPC


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.mark.parametrize("secure", [True, False], ids=["tls", "clear"])
def test_every_primitive_answers_over_grpc(
    namespace: Namespace, authority: Authority, tmp_path: Path, secure: bool
) -> None:
    pod, lcm = certificates(tmp_path, authority)
    ee = environment(namespace, "server", tmp_path)
    tls = server.Tls(str(pod), str(pod)) if secure else None
    # As LCM: it begins with TLS and falls back where the server speaks none.
    with ee.serving(free_port(), tls, lcm) as frontend:
        assert frontend.ssh_key(PATIENCE).startswith("ssh-ed25519 ")
        assert frontend.primitive("config", config("server"), PATIENCE) == ("OK", "CONFIG OK")
        link = {"link": "vpn-server", "inner-address": "10.77.0.1/24", "underlay-interface": "ens4"}
        assert frontend.primitive("configure", link, PATIENCE)[0] == "OK"
        samples = {
            "command": "hostname",
            "link": "vpn-server",
            "inner-address": "10.77.0.1/24",
            "name": "branch",
            "peer": "branch",
            "public-key": "AAAA",
        }
        for name, action in ee.declared["actions"].items():
            required = {key: samples.get(key, "x") for key in action.get("required") or ()}
            status, answer = frontend.primitive(name, required, PATIENCE)
            assert status in ("OK", "ERROR"), name
            assert answer, name
            assert "Traceback" not in answer, name
        assert frontend.primitive("show-status", {}, PATIENCE)[0] == "OK"


def test_a_change_of_another_is_followed_without_a_primitive(
    namespace: Namespace, authority: Authority, tmp_path: Path
) -> None:
    first = environment(namespace, "server", tmp_path)
    day_1(first, "server")
    with first.serving(free_port(), None, None) as frontend:
        frontend.ssh_key(PATIENCE)
        second = environment(namespace, "client", tmp_path)
        day_1(second, "client")
        model = OverModel.models["10.0.0.1"]
        wait_until(lambda: model.interfaces["wg-vpn-server"].peers, "the peer is there", PATIENCE)


def test_a_change_during_a_reconcile_is_followed_by_the_next(
    namespace: Namespace, tmp_path: Path
) -> None:
    first = environment(namespace, "server", tmp_path)
    day_1(first, "server")
    second = environment(namespace, "client", tmp_path)
    day_1(second, "client")
    offer, namespace.offers[second.name] = namespace.offers[second.name], ""
    first.execution.reconcile(unless_settled=True)
    model = OverModel.models["10.0.0.1"]
    assert not model.interfaces["wg-vpn-server"].peers
    execute = model.execute

    def slow(steps: list[Step]) -> object:
        namespace.offers[second.name] = offer
        return execute(steps)

    model.execute = slow  # type: ignore[method-assign, assignment]
    first.execution.reconcile(unless_settled=False)
    first.execution.reconcile(unless_settled=True)
    assert model.interfaces["wg-vpn-server"].peers


@pytest.mark.parametrize("case", ["stranger", "no-certificate", "server-certificate"])
def test_only_lcm_is_let_in(
    namespace: Namespace, authority: Authority, tmp_path: Path, case: str
) -> None:
    pod, lcm = certificates(tmp_path / "own", authority, client=case != "server-certificate")
    if case == "stranger":
        other = Authority(tmp_path / "other-authority")
        _, lcm = certificates(tmp_path / "other", other)
        (lcm / "ca.crt").write_text(authority.certificate)
    ee = environment(namespace, "server", tmp_path)
    port = free_port()
    with ee.serving(port, server.Tls(str(pod), str(pod)), lcm) as frontend:
        if case == "no-certificate":
            context = ssl.create_default_context(cafile=str(lcm / "ca.crt"))
            context.check_hostname = False
            context.maximum_version = ssl.TLSVersion.TLSv1_2
            wait_until(lambda: listens("127.0.0.1", port), "the server listens")
            plain = socket.create_connection(("127.0.0.1", port))
            with plain, pytest.raises((ssl.SSLError, ConnectionError)):
                context.wrap_socket(plain)
            return
        with pytest.raises(ClusterError):
            frontend.ssh_key(2)
    assert not namespace.states[ee.name]


def test_lcm_does_not_speak_with_a_pod_of_a_wrong_authority(
    namespace: Namespace, authority: Authority, tmp_path: Path
) -> None:
    _, lcm = certificates(tmp_path / "own", authority)
    pod, _ = certificates(tmp_path / "other", Authority(tmp_path / "other-authority"))
    ee = environment(namespace, "server", tmp_path)
    tls = server.Tls(str(pod), str(pod))
    with ee.serving(free_port(), tls, lcm) as frontend, pytest.raises(ClusterError, match="verify"):
        frontend.ssh_key(10)


def test_a_renewed_authority_is_trusted_without_a_restart(
    namespace: Namespace, authority: Authority, tmp_path: Path
) -> None:
    pod, before = certificates(tmp_path / "before", authority)
    renewed, lcm = certificates(tmp_path / "renewed", Authority(tmp_path / "authority"))
    tls = server.Tls(str(pod), str(pod))
    for file in renewed.iterdir():
        file.replace(pod / file.name)
    tls.reload()
    with environment(namespace, "server", tmp_path).serving(free_port(), tls, lcm) as frontend:
        assert frontend.ssh_key(PATIENCE).startswith("ssh-ed25519 ")
        # The earlier authority is trusted no longer.
        for name in ("tls.crt", "tls.key"):
            (lcm / name).write_text((before / name).read_text())
        with pytest.raises(ClusterError):
            frontend.ssh_key(2)


def test_a_renewal_that_cannot_be_read_leaves_the_old_certificate(
    namespace: Namespace,
    authority: Authority,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(server, "PERIOD", 0.05)
    pod, lcm = certificates(tmp_path, authority)
    tls = server.Tls(str(pod), str(pod))
    # The volume changes between the reads of its two files.
    (pod / "tls.crt").write_text(authority.issue("ns", ["*.ns.svc"])[0])
    ee = environment(namespace, "server", tmp_path)
    with ee.serving(free_port(), tls, lcm) as frontend:
        wait_until(lambda: "cannot be renewed" in caplog.text, "the renewal fails", 20)
        assert frontend.ssh_key(PATIENCE).startswith("ssh-ed25519 ")


def test_a_revoked_key_comes_back_by_no_action(namespace: Namespace, tmp_path: Path) -> None:
    first = environment(namespace, "server", tmp_path)
    day_1(first, "server")
    day_1(environment(namespace, "client", tmp_path), "client")
    first.execution.reconcile(unless_settled=True)
    status, answer = first.ask("revoke-peer", link="vpn-server", peer="client")
    assert status == "OK", answer
    (key,) = yaml.safe_load(answer)["public-keys"]
    assert not OverModel.models["10.0.0.1"].interfaces["wg-vpn-server"].peers
    peer = {"link": "vpn-server", "name": "laptop", "allowed_prefixes": "10.77.0.9/32"}
    status, answer = first.ask("add-peer", public_key=key, **peer)
    assert (status, answer) == (
        "ERROR",
        "add-peer: public-key: it was revoked; allowed: a new key, made at the other end",
    )
