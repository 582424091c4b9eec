"""Heal, update and scale by LCM's rules, on fakes of VIM and VCA."""

import copy
import inspect
from pathlib import Path
from typing import Any

import pytest
from lcm_support import APP1, APP2, World
from support.lcm_fakes import FakeBackends, FakeVim, day12_of

from lab.descriptors.service import service, vnfrs_of
from lab.descriptors.topology import Port as ServerPort
from lab.descriptors.topology import Server
from lab.documents import Stored
from lab.errors import LcmError, NbiError, VimError
from lab.lcm import charmops
from lab.lcm.backends import Backends
from lab.lcm.charmops import READY
from lab.lcm.recreate import replaced
from lab.lcm.vimdeploy import server_spec
from lab.lcm.work import Work
from lab.nbi.engine import Engine
from lab.page.data import Data, default
from lab.records.ids import new_id
from lab.records.store import VNFDS, Document
from lab.vim import planning
from lab.vim.account import KINDS, Vim, clean
from lab.vim.connector import VimConnector
from lab.vim.model import ACTIVE, NetworkSpec, ServerSpec
from lab.vim.store import Account, Config, Home, ServerRecord, State

BOX0, BOX1 = "vpn-ee-z0-z1-box-z0-vdu", "vpn-ee-z1-z1-box-z1-vdu"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def vnf(world: World, index: str = "1") -> Document:
    return vnfrs_of(world.store, world.nsr["_id"])[index]


def since(world: World, position: int) -> list[str]:
    """Return what was asked for since, by its first words."""
    return [" ".join(entry[:3]) for entry in world.log.entries[position:]]


# -- heal ------------------------------------------------------------------------------------------


def heal(world: World, index: str = "1", **more: Any) -> str:
    vdus = [{"vdu-id": "box", "count-index": 0}]
    target = {"vnfInstanceId": vnf(world, index)["_id"], "additionalParams": {"vdu": vdus, **more}}
    return world.start("heal", healVnfData=[target])


def test_a_healed_vdu_gets_the_model_key_and_nothing_else(world: World) -> None:
    world.run()
    before, mark = vnf(world), len(world.log.entries)
    assert heal(world) == "COMPLETED"
    after = vnf(world)
    assert after["vdur"][0]["vim-id"] == before["vdur"][0]["vim-id"] + "+"
    assert after["ip-address"] == after["vdur"][0]["ip-address"]
    done = since(world, mark)
    assert done[0] == f"recreate {before['vdur'][0]['vim-id']} False"
    assert [word for word in done if word.startswith("action")] == [
        f"action {APP1} generate-ssh-key",
        f"action {APP1} get-ssh-public-key",
    ]
    assert sum(word.startswith("inject") for word in done) == 1
    assert not any(word.startswith(("config", "relation", "deploy")) for word in done)
    assert world.backends.the_vim.ssh_keys["1/box/0"]  # RO's own, by which it logs in
    assert world.ns["nsState"] == "READY"


def test_a_vdu_that_dies_during_its_healing_ends_it(world: World) -> None:
    world.run()
    mark = len(world.log.entries)
    world.backends.keys.failures = 10_000
    world.backends.the_vim.ended[f"{vnf(world)['vdur'][0]['vim-id']}+"] = "its process was killed"
    assert heal(world) == "FAILED"
    detail = world.op["detailed-status"]
    assert "Reaching max tries injecting key. Error: its process was killed" in str(detail)
    assert sum(word.startswith("inject") for word in since(world, mark)) == 1


def test_a_vdu_whose_healing_failed_is_healed_again(world: World) -> None:
    world.run()
    world.backends.the_vim.fail_server = f"{vnf(world)['vdur'][0]['vim-id']}+"
    assert heal(world) == "FAILED"
    assert vnf(world)["vdur"][0]["vim-id"] == world.backends.the_vim.fail_server
    world.backends.the_vim.fail_server = None
    assert heal(world) == "COMPLETED"
    assert vnf(world)["vdur"][0]["vim-id"].endswith("++")


def test_a_vdu_that_was_never_made_is_made_by_healing(world: World) -> None:
    world.backends.the_vim.fail_creation = "1/box/0"
    assert world.run() == "FAILED"
    assert vnf(world)["vdur"][0]["vim-id"] is None
    networks = world.log.of("network")
    world.backends.the_vim.fail_creation = None
    assert heal(world) == "COMPLETED"
    made = vnf(world)
    assert made["vdur"][0]["vim-id"] == "1/box/0"
    assert made["ip-address"] == made["vdur"][0]["ip-address"] is not None
    assert world.log.of("network") == networks, "the networks of the service are there already"
    assert world.log.of("inject")


def test_every_vim_has_what_the_orchestration_asks_for() -> None:
    asked = {name: each for name, each in vars(VimConnector).items() if not name.startswith("_")}
    assert len(asked) == 13
    for kind in (Vim, FakeVim):
        for name, method in asked.items():
            wanted = inspect.signature(method).parameters
            assert [*inspect.signature(getattr(kind, name)).parameters][: len(wanted)] == [*wanted]


def planned(name: str, image: str, *ports: ServerPort) -> Server:
    size = {"vcpus": 1, "ram_mib": 512, "disk_gb": 1}
    place = {"member_vnf_index": "1", "vdu_id": "box", "count_index": 0, "vim": "lab"}
    return Server(name=name, hostname="host", image=image, ports=ports, **size, **place)


@pytest.mark.parametrize("recorded", [None, "deleted", "made"])
def test_a_vdu_is_healed_also_if_its_id_was_not_recorded(recorded: Any) -> None:
    backends = FakeBackends()
    vim = backends.the_vim
    spec = ServerSpec("ns-1-box-0", "host", "image", 1, 512, 1, ())
    made = vim.create_server(spec, "ns").id
    server = planned("ns-1-box-0", "image")
    wanted = made if recorded == "made" else recorded
    new = replaced(vim, wanted, server, None, (), "ns", False)
    assert [(each.id, each.name) for each in vim.servers("ns")] == [(new, "ns-1-box-0")]
    vim.delete_server(new)
    assert replaced(vim, "deleted", server, None, (), "ns", False) is None
    with pytest.raises(LcmError, match="Instance deleted could not be found"):
        replaced(vim, "deleted", server, None, (), "ns", True)


class Paper:
    """A kind of VDU, and each VDU of it: nothing is made, or `fault` says why not."""

    directory: Path

    def __init__(self) -> None:
        self.fault: Exception | None = None

    def check_server(self, *_: Any) -> None:
        pass

    def __call__(self, directory: Path, *_: Any) -> "Paper":
        one = copy.copy(self)
        one.directory = directory
        return one

    def make(self, *_: Any) -> None:
        if self.fault is not None:
            raise self.fault

    def power_on(self, record: ServerRecord) -> list[str]:
        return []

    def remove(self) -> None:
        pass

    def status(self) -> tuple[str, str]:
        return ACTIVE, ""


@pytest.fixture
def paper(monkeypatch: pytest.MonkeyPatch) -> Paper:
    kind = Paper()
    monkeypatch.setitem(KINDS, "namespaces", kind)
    return kind


@pytest.fixture
def vim(tmp_path: Path, paper: Paper, monkeypatch: pytest.MonkeyPatch) -> Vim:
    """A VIM that makes nothing, with two networks; `data` has its gateway at the lowest address."""
    monkeypatch.setattr(Vim, "_hierarchy", lambda self: tmp_path)
    monkeypatch.setattr(Vim, "_apply_rules", lambda self, state: None)
    config = Config(use_floating_ip=True, external_subnet="198.51.100.0/24")
    vim = Vim(Home.at(tmp_path), "lab", Account(name="lab", number=0, config=config))
    vim.directory.mkdir(parents=True)
    networks = [
        planning.plan_network(NetworkSpec("mgmt", "10.250.0.0/24", management=True), "", []),
        planning.plan_network(NetworkSpec("data", "10.7.0.0/24", "10.7.0.2"), "", []),
    ]
    vim._state.write(State(networks={network.id: network for network in networks}))
    return vim


def box(*ports: ServerPort, name: str = "box") -> Server:
    """Return a server with a management port and others in `data`."""
    point = ServerPort("mgmt", device="ens3", management=True)
    return planned(name, "ubuntu22.04", point, *ports)


def create(vim: Vim, server: Server) -> str:
    management, data = (network.id for network in vim.networks())
    networks = [management] + [data] * (len(server.ports) - 1)
    return vim.create_server(server_spec(server, networks, None, ()), "ns").id


def test_another_address_is_neither_the_gateways_nor_that_of_another_port(vim: Vim) -> None:
    server = box(ServerPort("data", device="ens4"), ServerPort("data", device="ens5"))
    old = create(vim, server)
    assert [port.ip for port in vim.server(old).ports] == ["10.250.0.2", "10.7.0.3", "10.7.0.4"]
    new = replaced(vim, old, server, None, (), "ns", False)
    assert [port.ip for port in vim.server(new).ports] == ["10.250.0.2", "10.7.0.5", "10.7.0.6"]


@pytest.mark.parametrize("same", [False, True])
def test_a_vdu_keeps_its_floating_address(vim: Vim, same: bool) -> None:
    first, second = (create(vim, box(name=name)) for name in ("first", "second"))
    vim.delete_server(first)
    new = replaced(vim, second, box(name="second"), None, (), "ns", same)
    assert vim.server(new).ports[0].floating == "198.51.100.3"
    assert vim.server(create(vim, box(name="third"))).ports[0].floating == "198.51.100.2"


def test_the_addresses_of_a_vdu_are_never_free_also_if_the_new_server_is_not_made(
    vim: Vim, paper: Paper, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = create(vim, box())
    known: list[list[tuple[str, str | None]]] = []
    write = Stored.write

    def note(stored: Stored[State], state: State) -> None:
        known.append([(port.ip, port.floating) for port in planning.ports(state)])
        write(stored, state)

    monkeypatch.setattr(Stored, "write", note)
    paper.fault = VimError("No space left on device.")
    with pytest.raises(LcmError, match="No space left on device"):
        replaced(vim, old, box(), None, (), "ns", False)
    assert [server.id for server in vim.servers()] == [old]
    paper.fault = None
    new = replaced(vim, old, box(), None, (), "ns", False)
    assert [server.id for server in vim.servers()] == [new]
    assert known
    assert all(addresses == [("10.250.0.2", "198.51.100.2")] for addresses in known)


def test_run_day1_runs_nothing_and_leaves_the_environment_broken(world: World) -> None:
    world.run()
    mark = len(world.log.entries)
    assert heal(world, **{"run-day1": True}) == "COMPLETED"
    assert not any("configure" in word for word in since(world, mark))
    status = {v["application"]: v["status"] for v in world.ns["_admin"]["deployed"]["VCA"]}
    assert status == {APP1: "BROKEN", APP2: "READY"}
    shown = {s["application"]: s["status"] for s in world.ns["configurationStatus"]}
    assert shown == status


# -- update ----------------------------------------------------------------------------------------


def revise(world: World, **changes: Any) -> Document:
    """Give the package a second revision; `charm` is the new charm's text."""
    package = world.store.get(VNFDS, "v")
    old = {"folder": package["folder"], "software-version": "1.0"}
    folder = world.store.root / "packages" / "v-2" / "pkg"
    (folder / "charms" / "demo").mkdir(parents=True)
    (folder / "charms" / "demo" / "metadata.yaml").write_text(changes.pop("charm", ""))
    (world.store.root / old["folder"] / "charms" / "demo" / "metadata.yaml").write_text("")
    with world.store.edit(VNFDS, package["_id"]) as document:
        document["descriptor"].update(changes)
        document["folder"] = "packages/v-2/pkg"
        document["_admin"].update(revision=2, revisions={"1": old})
    return document


def change_package(world: World) -> str:
    data = {"vnfInstanceId": vnf(world)["_id"], "vnfdId": "v"}
    return world.start("update", updateType="CHANGE_VNFPKG", changeVnfPackageData=data)


def test_a_changed_charm_is_refreshed_and_runs_no_primitive(world: World) -> None:
    world.run()
    revise(world, charm="name: other")
    mark = len(world.log.entries)
    assert change_package(world) == "COMPLETED"
    assert [w for w in since(world, mark) if w.startswith(("upgrade", "action", "config"))] == [
        f"upgrade {APP1} demo"
    ]
    assert (vnf(world)["revision"], vnf(world, "2")["revision"]) == (2, 1)


def test_a_refused_refresh_is_done_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.run()
    revise(world, charm="name: other")

    def refuse(*_: Any) -> None:
        raise LcmError("another endpoint")

    with monkeypatch.context() as patch:
        patch.setattr(world.backends.the_model, "upgrade_charm", refuse)
        assert change_package(world) == "FAILED"
    assert vnf(world)["revision"] == 1
    assert change_package(world) == "COMPLETED"
    assert world.log.of("upgrade") == [("upgrade", APP1, "demo")]
    assert vnf(world)["revision"] == 2


def test_an_unchanged_charm_is_left_alone(world: World) -> None:
    world.run()
    mark = len(world.log.entries)
    assert change_package(world) == "COMPLETED"
    revise(world)
    assert change_package(world) == "COMPLETED"
    assert since(world, mark) == []
    assert vnf(world)["revision"] == 2


def test_another_software_version_is_refused_where_there_is_a_charm(world: World) -> None:
    world.run()
    revise(world, charm="name: other", **{"software-version": "2.0"})
    assert change_package(world) == "FAILED"
    assert "Software version change is not supported" in world.op["detailed-status"]
    assert not world.log.of("upgrade")
    assert world.ns["nsState"] == "READY"


@pytest.mark.parametrize(
    ("state", "did"),
    [("stop", "stop-server"), ("start", "start-server"), ("rebuild", "recreate")],
)
def test_operating_a_vdu_tells_no_charm(world: World, state: str, did: str) -> None:
    world.run()
    mark = len(world.log.entries)
    data = {
        "vnfInstanceId": vnf(world)["_id"],
        "changeStateTo": state,
        "additionalParam": {"vdu_id": "box", "count-index": 0},
    }
    assert world.start("update", updateType="OPERATE_VNF", operateVnfData=data) == "COMPLETED"
    words = since(world, mark)
    assert words[0].startswith(did)
    assert not any(word.startswith(("action", "inject")) for word in words)


# -- scale -----------------------------------------------------------------------------------------


def scalable(world: World, level: str = "vdu", **profile: Any) -> None:
    """Give the box an aspect, and a charm for each of its instances."""
    (flavour,) = world.descriptor["df"]
    flavour["scaling-aspect"] = [
        {
            "id": "boxes",
            "name": "boxes",
            "aspect-delta-details": {
                "deltas": [{"id": "one", "vdu-delta": [{"id": "box", "number-of-instances": 1}]}]
            },
        }
    ]
    flavour["vdu-profile"][0].update(profile)
    if level == "vdu":
        day12_of(world.descriptor)[0]["id"] = "box"
        world.nsd["ns-configuration"].pop("relation", None)


def scale(world: World, direction: str = "OUT", index: str = "1") -> str:
    step = {"member-vnf-index": index, "scaling-group-descriptor": "boxes"}
    data = {"scaleVnfType": f"SCALE_{direction}", "scaleByStepData": step}
    return world.start("scale", scaleVnfData=data)


def test_an_added_instance_has_a_charm_of_its_own_and_no_relation(world: World) -> None:
    scalable(world)
    world.run()
    mark = len(world.log.entries)
    assert scale(world) == "COMPLETED"
    assert [v["count-index"] for v in vnf(world)["vdur"]] == [0, 1]
    assert vnf(world)["vdur"][1]["ip-address"]
    done = since(world, mark)
    assert f"deploy {BOX1} demo" in done
    assert f"action {BOX1} configure" in done
    assert not any(word.startswith(("relation", "network")) for word in done)
    assert not any(BOX0 in word for word in done)
    record = {v["application"]: v for v in world.ns["_admin"]["deployed"]["VCA"]}
    assert (record[BOX1]["vdu_count_index"], record[BOX1]["status"]) == (1, "READY")
    # A primitive goes to the instance that is named.
    words = {"vdu_id": "box", "vdu_count_index": 1, "member_vnf_index": "1"}
    given = {"primitive": "touch", "primitive_params": {"file": "x"}, **words}
    assert world.start("action", **given) == "COMPLETED"
    assert world.log.entries[world.log.index("action", BOX1, "touch")][0] == "action"


def test_the_page_offers_the_primitives_of_a_vdus_charm(world: World) -> None:
    scalable(world)
    world.run()
    offered = Data(Engine(world.store.home)).primitives(world.nsr["name"], "1")
    assert "touch" in offered


@pytest.mark.parametrize(
    ("given", "first"), [(True, "true"), ("False", "false"), ("yes", "true"), ("", "false")]
)
def test_a_boolean_of_the_page_is_one_of_two_texts(given: Any, first: str) -> None:
    assert default({"name": "x", "data-type": "BOOLEAN", "default-value": given}) == first
    assert default({"name": "x", "data-type": "STRING", "default-value": given}) == str(given)


def test_scaling_in_takes_the_last_instance_with_its_charm(world: World) -> None:
    scalable(world)
    world.run()
    scale(world)
    last = vnf(world)["vdur"][1]["vim-id"]
    assert scale(world, "IN") == "COMPLETED"
    order = [
        world.log.index("action", BOX1, "stop-it"),
        world.log.index("remove", BOX1),
        world.log.index("delete-server", last),
    ]
    assert order == sorted(order)
    assert [v["count-index"] for v in vnf(world)["vdur"]] == [0]
    assert BOX1 not in {v["application"] for v in world.ns["_admin"]["deployed"]["VCA"]}
    assert scale(world, "IN") == "FAILED"
    assert "(min-instance-count) scaling-in" in world.op["detailed-status"]
    assert world.ns["nsState"] == "READY"
    assert scale(world) == "COMPLETED"


def test_an_incomplete_scaling_in_is_done_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    scalable(world)
    world.run()
    scale(world)

    def refuse(*_: Any) -> None:
        raise LcmError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(Work, "remove_environments", refuse)
        assert scale(world, "IN") == "FAILED"
    assert BOX1 not in world.backends.the_model.statuses
    assert scale(world, "IN") == "COMPLETED"
    assert [entry[1] for entry in world.log.of("action") if entry[2] == "stop-it"] == [BOX1]
    assert [v["count-index"] for v in vnf(world)["vdur"]] == [0]
    assert BOX1 not in {v["application"] for v in world.ns["_admin"]["deployed"]["VCA"]}


def test_the_limit_of_the_profile_holds(world: World) -> None:
    scalable(world, **{"max-number-of-instances": 2})
    world.run()
    assert [scale(world), scale(world)] == ["COMPLETED", "FAILED"]
    assert world.op["detailed-status"] == (
        "reached the limit of 2 (max-instance-count) scaling-out operations for the "
        "scaling-group-descriptor 'boxes'"
    )


@pytest.mark.parametrize("fault", ["no server", "no boot", "no charm"])
def test_a_failed_scale_out_is_taken_back_or_gone_on_from(
    world: World, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scalable(world)
    world.run()
    cloud, charms = world.backends.the_vim, world.backends.the_model
    kept = set(charms.statuses)

    def refuse(*_: Any, **__: Any) -> None:
        raise LcmError("Quota exceeded.")

    def fail() -> None:
        where = {"no server": (cloud, "create_server"), "no charm": (charms, "deploy")}
        with monkeypatch.context() as patch:
            if fault in where:
                patch.setattr(*where[fault], refuse)
            cloud.fail_server = "1/box/1" if fault == "no boot" else None
            assert scale(world) == "FAILED"
            cloud.fail_server = None

    fail()
    assert scale(world, "IN") == "COMPLETED"
    assert bool(world.log.of("delete-server")) == (fault != "no server")
    fail()
    assert scale(world) == "COMPLETED"
    assert [v["count-index"] for v in vnf(world)["vdur"]] == [0, 1, 2]
    assert [scale(world, "IN"), scale(world, "IN")] == ["COMPLETED"] * 2
    assert [v["count-index"] for v in vnf(world)["vdur"]] == [0]
    assert set(charms.statuses) == kept
    assert scale(world, "IN") == "FAILED"


@pytest.mark.lab
def test_a_charm_that_was_never_deployed_is_removed_without_error(tmp_path: Path) -> None:
    try:
        charmops.remove(Backends(tmp_path).model("an-ns"), "box", 0)
    finally:
        clean(tmp_path)


def test_a_charm_of_the_vnf_is_deployed_again_at_the_first_instance(world: World) -> None:
    """LCM does so; that is why a VDU that scales needs charms of its own."""
    scalable(world, level="vnf")
    world.run()
    assert scale(world) == "COMPLETED"
    again = APP1.replace("z0", "z1", 1)
    config = world.backends.the_model.config
    assert config[again]["ssh-hostname"] == config[APP1]["ssh-hostname"] == vnf(world)["ip-address"]
    assert world.backends.the_model.statuses[again][0] in READY


def test_fixed_addresses_of_added_instances_count_up(world: World) -> None:
    scalable(world)
    point = {
        "member-vnf-index-ref": "1",
        "vnfd-connection-point-ref": "data-ext",
        "ip-address": "10.7.0.11",
    }
    world.request["vld"] = [{"name": "data", "vnfd-connection-point-ref": [point]}]
    world.run()
    scale(world)
    servers = service(world.ns, world.store).plan.servers
    mine = [s.ports[1].ip for s in servers if s.member_vnf_index == "1"]
    assert mine == ["10.7.0.11", "10.7.0.12"]


def scaling(index: str, group: str) -> dict[str, Any]:
    step = {"member-vnf-index": index, "scaling-group-descriptor": group}
    data = {"scaleVnfType": "SCALE_OUT", "scaleByStepData": step}
    return {"scaleType": "SCALE_VNF", "scaleVnfData": data}


def test_nbi_refuses_what_the_record_does_not_have(world: World, tmp_path: Path) -> None:
    scalable(world)
    world.run()
    engine = Engine(tmp_path)
    name = world.ns["name"]
    box = {"vdu-id": "box", "count-index": 3}
    mine = vnf(world)["_id"]
    package = {"vnfInstanceId": mine, "vnfdId": "w"}
    for kind, body, words in (
        ("scale", scaling("1", "none"), "scaling-group-descriptor='none' is not"),
        ("scale", scaling("9", "boxes"), "has no vnf '9'"),
        ("heal", {"healVnfData": []}, "Format error at 'healVnfData'"),
        ("heal", {"healVnfData": [{"vnfInstanceId": new_id()}]}, "' is not one of ns"),
        (
            "heal",
            {"healVnfData": [{"vnfInstanceId": mine, "additionalParams": {"vdu": [box]}}]},
            "has no vdu 'box' with count-index 3; allowed: box 0",
        ),
        ("update", {"updateType": "WHAT"}, "'WHAT' is not one of"),
        ("update", {"updateType": "OPERATE_VNF"}, "needs operateVnfData"),
        (
            "update",
            {"updateType": "CHANGE_VNFPKG", "changeVnfPackageData": package},
            "vnfd 'w' not found",
        ),
    ):
        with pytest.raises(NbiError, match=words):
            engine.ns_run(name, kind, body)
