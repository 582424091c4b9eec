"""Operations with fakes for VIM and VCA: OSM's order, records and failure texts."""

import dataclasses
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lcm_support import APP1, APP2, FAST, World
from support.lcm_fakes import day12_of, outcome
from support.waiting import wait_until

from lab.descriptors import service as model
from lab.errors import LcmError
from lab.lcm import worker
from lab.nbi.new_records import new_operation
from lab.records.ids import admin
from lab.records.journal import Tail
from lab.records.operations import operation_folder, remove_service
from lab.records.store import NSRS, OPS, VIMS, VNFRS


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


# -- instantiate -----------------------------------------------------------------------------------


def test_instantiate_makes_everything_and_is_ready(world: World) -> None:
    assert world.run() == "COMPLETED"
    ns = world.ns
    assert world.states == ("READY", "running", "configured")
    assert ns["_admin"]["nsState"] == "INSTANTIATED"
    assert ns["detailed-status"] == "Done"
    assert ns["currentOperation"] == "IDLE"
    assert world.op["operationState"] == "COMPLETED"
    assert world.op["detailed-status"] == "Done"
    assert {s["status"] for s in ns["configurationStatus"]} == {"READY"}
    assert ns["lab"]["seconds-vms-ready-to-charms-idle"] >= 0
    for record in world.store.all(VNFRS):
        vdur = record["vdur"][0]
        assert record["ip-address"] == vdur["ip-address"] == vdur["interfaces"][0]["ip-address"]
        assert vdur["status"] == "ACTIVE"
        assert vdur["interfaces"][1]["ip-address"].startswith("10.7.0.")


def test_order_within_an_environment(world: World) -> None:
    world.run()
    log = world.log
    steps = [
        log.index("deploy", APP1),
        log.index("relation"),
        log.index("action", APP1, "generate-ssh-key"),
        log.index("action", APP1, "get-ssh-public-key"),
        next(i for i, e in enumerate(log.entries) if e[0] == "inject" and e[3].endswith(APP1)),
        log.index("config", APP1),
        log.index("action", APP1, "verify-ssh-credentials"),
        log.index("action", APP1, "configure", "{'inner-address': '172.16.0.1/24'}"),
        log.index("idle"),
        log.index("stop"),
    ]
    assert steps == sorted(steps)
    assert log.index("start") < log.index("deploy")


def test_relations_and_keys_do_not_wait_for_the_vms(world: World) -> None:
    backends = world.backends
    backends.gate.clear()
    thread = threading.Thread(target=world.run)
    thread.start()
    try:
        for _ in range(500):
            if len(world.log.of("relation")) == 2 and any(
                e[2] == "get-ssh-public-key" for e in world.log.of("action")
            ):
                break
            threading.Event().wait(0.002)
        else:
            raise AssertionError(world.log.entries)
        assert not world.log.of("inject")
        assert not world.log.of("config")
    finally:
        backends.gate.set()
        thread.join(120)
    assert not thread.is_alive()
    assert world.ns["nsState"] == "READY"


def test_config_primitive_sets_strings_with_the_vms_address(world: World) -> None:
    world.run()
    record = model.vnfrs_of(world.store, world.nsr["_id"])["1"]
    assert world.backends.the_model.config[APP1] == {
        "ssh-hostname": record["ip-address"],
        "ssh-username": "ubuntu",
    }


def test_both_ends_add_the_relation_and_already_exists_is_swallowed(world: World) -> None:
    world.backends.the_model.relation_error = "cannot add relation: relation already exists"
    assert world.run() == "COMPLETED"
    assert world.log.of("relation") == [("relation", f"{APP1}:server", f"{APP2}:client")] * 2


def test_another_relation_error_breaks_both_ends(world: World) -> None:
    world.backends.the_model.relation_error = "no matching interface"
    assert world.run() == "FAILED"
    assert "no matching interface" in world.op["detailed-status"]


def test_user_data_is_rendered_and_ros_key_goes_first(world: World) -> None:
    world.request["ssh_keys"] = ["ssh-ed25519 MINE"]
    world.run()
    cloud = world.backends.the_vim
    record = model.vnfrs_of(world.store, world.nsr["_id"])["1"]
    assert cloud.user_data["1/box/0"] == f"#cloud-config\n# 172.16.0.1/24 {record['_id']}"
    assert cloud.ssh_keys["1/box/0"] == ("ssh-rsa RO", "ssh-ed25519 MINE")


def test_boot_data_drive_drops_the_keys(world: World) -> None:
    world.descriptor["vdu"][0]["supplemental-boot-data"] = {"boot-data-drive": True}
    world.run()
    assert world.backends.the_vim.ssh_keys["1/box/0"] == ()


def test_broken_template_leaves_nothing_in_the_vim(world: World) -> None:
    operation = world.record()
    (world.store.root / "packages/v/pkg/cloud_init/cloud_init.txt").write_text("{{ nope }}")
    assert world.run(operation) == "FAILED"
    assert not world.log.of("network")
    assert not world.log.of("server")
    assert "'nope' is undefined" in world.op["detailed-status"]


def test_waiting_charm_is_used_after_the_timeout_in_silence(world: World) -> None:
    world.timeouts = dataclasses.replace(FAST, charm_ready=0.3)
    world.backends.the_model.deploy_status = ("waiting", "for ever")
    assert world.run() == "COMPLETED"


def test_instantiation_that_takes_too_long_is_given_up(world: World) -> None:
    world.request["timeout_ns_deploy"] = 1
    world.backends.gate.clear()
    thread = threading.Thread(target=world.run)
    thread.start()
    try:
        wait_until(lambda: world.aborted, "it is aborted")
        assert world.aborted == [1]
        assert world.op["operationState"] == "FAILED"
        assert world.op["detailed-status"].endswith("Detail: Timeout after 1 s")
        assert world.ns["nsState"] == "BROKEN"
    finally:
        world.backends.gate.set()
        thread.join(120)


@pytest.mark.parametrize(("kind", "step"), [("update", "stop"), ("terminate", "delete_tag")])
def test_a_change_that_takes_too_long_is_given_up(
    world: World, monkeypatch: pytest.MonkeyPatch, kind: str, step: str
) -> None:
    world.run()
    cloud, gate = world.backends.the_vim, world.backends.gate
    real = getattr(cloud, step)

    def slow(tag: str) -> None:
        assert gate.wait(120)
        real(tag)

    monkeypatch.setattr(cloud, step, slow)
    gate.clear()
    data = {
        "vnfInstanceId": world.nsr["constituent-vnfr-ref"][0],
        "changeStateTo": "stop",
        "additionalParam": {"vdu_id": "box", "count-index": 0},
    }
    update = {"updateType": "OPERATE_VNF", "operateVnfData": data}
    given = {f"timeout_ns_{kind}": 1, **(update if kind == "update" else {})}
    thread = threading.Thread(target=lambda: world.start(kind, **given))
    thread.start()
    try:
        wait_until(lambda: world.aborted, "it is aborted")
        assert world.op["operationState"] == "FAILED"
        assert world.op["detailed-status"] == "Timeout after 1 s"
        assert world.ns["nsState"] == ("BROKEN" if kind == "terminate" else "READY")
    finally:
        gate.set()
        thread.join(120)


def test_charms_that_settle_are_in_no_time_limit(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    expire = []

    class Timer:
        def __init__(self, seconds: float, function: Callable[[], None]) -> None:
            expire.append(function)

        def start(self) -> None:
            pass

        def cancel(self) -> None:
            pass

    def settle(timeout: float) -> None:
        expire[0]()

    monkeypatch.setattr(threading, "Timer", Timer)
    monkeypatch.setattr(world.backends.the_model, "wait_idle", settle)
    assert world.run() == "COMPLETED"
    assert (world.op["operationState"], world.aborted) == ("COMPLETED", [])


def test_an_operation_on_a_service_with_a_lost_vdu_does_not_call_it_ready(world: World) -> None:
    world.run()
    world.backends.the_vim.ended["1/box/0"] = "the machine was restarted"
    assert world.touch() == "COMPLETED"
    detail = "the machine was restarted: ns-heal demo --vnf 1 makes them anew"
    assert (world.ns["nsState"], world.ns["errorDetail"]) == ("DEGRADED", detail)
    states = {r["member-vnf-index-ref"]: r["vdur"][0]["status"] for r in world.store.all(VNFRS)}
    assert states == {"1": "ERROR", "2": "ACTIVE"}


def test_vim_failure(world: World) -> None:
    world.backends.the_vim.fail_server = "2/box/0"
    assert world.run() == "FAILED"
    assert world.states == ("BROKEN", "failed", "failed")
    detail = world.op["detailed-status"]
    assert detail.startswith(
        "Stage 2/5: deployment of KDUs, VMs and execution environments. Detail: Deploying at VIM: "
    )
    assert "No valid host was found." in detail
    assert "Cannot inject ssh-key because target VM is in error state" in detail
    states = {r["member-vnf-index-ref"]: r["vdur"][0]["status"] for r in world.store.all(VNFRS)}
    assert states == {"1": "ACTIVE", "2": "ERROR"}
    # the other VNF was configured all the same
    assert world.log.index("action", APP1, "configure")


def test_missing_charm_folder(world: World) -> None:
    operation = world.record()
    (world.store.root / "packages/v/pkg/charms/demo").rmdir()
    assert world.run(operation) == "FAILED"
    assert "artifact path does not exist" in world.op["detailed-status"]


def test_unknown_network_name(world: World) -> None:
    world.request["vld"] = [{"name": "data", "vim-network-name": "blue"}]
    assert world.run() == "FAILED"
    assert "Network not found with this criteria: 'blue'" in world.op["detailed-status"]


def test_ambiguous_network_name(world: World) -> None:
    world.backends.the_vim.nets += [SimpleNamespace(id=key, name="blue", tag="") for key in "ab"]
    world.request["vld"] = [{"name": "data", "vim-network-name": "blue"}]
    assert world.run() == "FAILED"
    assert "More than one network found" in world.op["detailed-status"]


@pytest.mark.parametrize(
    ("ended", "reason"),
    [
        (outcome("failed", {"output": "no route"}, "lost"), "failed: no route"),
        (
            outcome("failed", {}, "text of action-fail"),
            "failed: No further information received from action",
        ),
    ],
)
def test_failed_primitive_has_n2vcs_text(world: World, ended: Any, reason: str) -> None:
    world.backends.the_model.outcomes[APP2, "configure"] = [ended]
    assert world.run() == "FAILED"
    ee = environment(world, APP2)
    assert (
        f"Deploying VCA 2.: execute primitive 'configure'. Error executing primitive "
        f"configure in ee={ee}: {reason}"
    ) in world.op["detailed-status"]
    ns = world.ns
    assert world.states == ("BROKEN", "running", "failed")
    assert ns["errorDescription"].startswith(f"Operation: INSTANTIATING.{world.op['_id']}")
    assert {s["application"]: s["status"] for s in ns["configurationStatus"]} == {
        APP1: "READY",
        APP2: "BROKEN",
    }


def test_login_that_never_works_is_no_failure(world: World) -> None:
    world.backends.the_model.outcomes[APP1, "verify-ssh-credentials"] = [
        outcome("failed", {"output": "no"})
    ]
    assert world.run() == "COMPLETED"
    tries = [e for e in world.log.of("action") if e[1:3] == (APP1, "verify-ssh-credentials")]
    assert len(tries) == 20


def test_login_that_works_later_stops_the_tries(world: World) -> None:
    world.backends.the_model.outcomes[APP1, "verify-ssh-credentials"] = [
        outcome("failed"),
        outcome("failed"),
        outcome("completed"),
    ]
    world.run()
    tries = [e for e in world.log.of("action") if e[1:3] == (APP1, "verify-ssh-credentials")]
    assert len(tries) == 3


def test_generate_ssh_key_may_fail_but_the_public_key_must_come(world: World) -> None:
    world.backends.the_model.outcomes["*", "generate-ssh-key"] = [outcome("failed")]
    assert world.run() == "COMPLETED"


def test_failing_get_ssh_public_key_breaks(world: World) -> None:
    world.backends.the_model.outcomes["*", "get-ssh-public-key"] = [outcome("failed")]
    assert world.run() == "FAILED"


def test_key_injection_is_tried_again(world: World) -> None:
    world.backends.keys.failures = 2
    assert world.run() == "COMPLETED"


def test_key_injection_gives_up_when_its_time_is_over(world: World) -> None:
    world.backends.keys.failures = 10_000
    assert world.run() == "FAILED"
    assert "Cannot inject ssh-key at ubuntu@" in world.op["detailed-status"]
    assert len(world.log.of("inject")) > 2


def test_key_injection_ends_with_its_vdu(world: World) -> None:
    world.backends.keys.failures = 10_000
    world.backends.the_vim.ended["1/box/0"] = "the process that runs it was killed"
    assert world.run() == "FAILED"
    reason = "Cannot inject ssh-key at ubuntu@10.250.0.1: the process that runs it was killed"
    assert reason in world.op["detailed-status"].replace("10.250.0.2", "10.250.0.1")
    assert len([e for e in world.log.of("inject") if APP1 in e[3]]) == 1


def test_no_ssh_access_means_no_keys_and_no_default_user_no_injection(world: World) -> None:
    day12_of(world.descriptor)[0]["config-access"] = {"ssh-access": {"required": True}}
    assert world.run() == "COMPLETED"
    assert not world.log.of("inject")
    assert world.log.index("action", APP1, "get-ssh-public-key")


def test_without_ssh_access_no_key_is_made(world: World) -> None:
    del day12_of(world.descriptor)[0]["config-access"]
    assert world.run() == "COMPLETED"
    assert not [e for e in world.log.of("action") if e[2] == "generate-ssh-key"]


def test_non_string_config_is_refused_as_libjuju_does(world: World) -> None:
    config = day12_of(world.descriptor)[0]["initial-config-primitive"][1]
    config["parameter"].append({"name": "port", "data-type": "INTEGER", "value": "1"})
    assert world.run() == "FAILED"
    assert "Error configuring application into ee=" in world.op["detailed-status"]
    assert world.op["detailed-status"].endswith(
        "option port is no text; set_config takes texts only"
    )


def test_missing_value_has_lcms_text(world: World) -> None:
    world.request["additionalParamsForVnf"].pop()
    operation = world.record()
    (world.store.root / "packages/v/pkg/cloud_init/cloud_init.txt").write_text("#cloud-config\n")
    assert world.run(operation) == "FAILED"
    assert (
        "Parameter <inner> needed to execute primitive configure not provided"
        in (world.op["detailed-status"])
    )


def test_vdu_environments_are_done_before_their_vnf(world: World) -> None:
    world.add_vdu_environment()
    assert world.run() == "COMPLETED"
    vdu_app = "box-ee-z0-z1-box-z0-vdu"
    assert world.log.index("action", vdu_app, "configure") < world.log.index("config", APP1)


def test_broken_vdu_environment_aborts_its_vnf_only(world: World) -> None:
    world.add_vdu_environment()
    world.backends.the_model.outcomes["box-ee-z0-z1-box-z0-vdu", "configure"] = [outcome("failed")]
    assert world.run() == "FAILED"
    assert (
        "Configuration aborted because dependent charm/s has failed"
        in (world.op["detailed-status"])
    )
    assert {
        s["application"] for s in world.ns["configurationStatus"] if s["status"] == "BROKEN"
    } == {APP1, "box-ee-z0-z1-box-z0-vdu"}


def test_instances_of_a_vdu_share_one_dictionary(world: World) -> None:
    day12_of(world.descriptor)[0]["id"] = "box"
    world.descriptor["df"][0]["instantiation-level"][0]["vdu-level"][0]["number-of-instances"] = 2
    world.nsd["ns-configuration"] = {}
    world.record()
    svc = model.service(world.nsr, world.store)
    shared = model.shared_parameters(svc, model.vnfrs_of(world.store, world.nsr["_id"]))
    one, other = (shared[f"vpn-ee-z{n}-z1-box-z{n}-vdu"] for n in (0, 1))
    assert one is other
    assert shared["vpn-ee-z0-z2-box-z0-vdu"] is not one


def test_vdu_params_replace_those_of_the_vnf(world: World) -> None:
    world.request["additionalParamsForVnf"][0]["additionalParamsForVdu"] = [
        {"vdu_id": "box", "additionalParams": {"inner": "own"}}
    ]
    day12_of(world.descriptor)[0]["id"] = "box"
    world.nsd["ns-configuration"] = {}
    assert world.run() == "COMPLETED"
    world.log.index("action", "vpn-ee-z0-z1-box-z0-vdu", "configure", "{'inner-address': 'own'}")
    assert world.backends.the_vim.user_data["1/box/0"].startswith("#cloud-config\n# own ")


def test_unit_in_error_after_all_is_degraded(world: World) -> None:
    world.backends.the_model.failed = {f"{APP1}/0": "hook failed: start"}
    assert world.run() == "COMPLETED"
    assert world.ns["nsState"] == "DEGRADED"
    assert world.ns["errorDetail"] == f"{APP1}/0: hook failed: start"


# -- action ----------------------------------------------------------------------------------------


def test_action_result_goes_to_detailed_status(world: World) -> None:
    world.run()
    assert world.touch() == "COMPLETED"
    assert world.op["detailed-status"] == {"output": "touch done"}
    world.log.index("action", APP1, "touch", "{'file': 'x', 'times': 1}")
    assert world.ns["nsState"] == "READY"


def test_action_has_its_real_name(world: World) -> None:
    entry = day12_of(world.descriptor)[0]["config-primitive"][0]
    entry["execution-environment-primitive"] = "really-touch"
    world.run()
    world.touch()
    world.log.index("action", APP1, "really-touch")


def environment(world: World, application: str) -> str:
    """Return the id of an environment: model, application, and its machine's number."""
    machine = [words[1] for words in world.log.of("deploy")].index(application)
    ee = f"{world.nsr['_id']}.{application}.{machine}"
    recorded = {v["application"]: v["ee_id"] for v in world.ns["_admin"]["deployed"]["VCA"]}
    assert recorded[application] == ee
    return ee


def test_a_value_that_is_no_integer_fails_with_lcms_step(world: World) -> None:
    parameter = {"name": "count", "data-type": "INTEGER"}
    day12_of(world.descriptor)[0]["config-primitive"].append(
        {"name": "repeat", "parameter": [parameter]}
    )
    world.run()
    given = {"primitive": "repeat", "member_vnf_index": "1", "primitive_params": {"count": "x"}}
    assert world.start("action", **given) == "FAILED"
    assert world.op["detailed-status"] == (
        "FAILED Getting vnfd from database: Parameter count of primitive repeat must be integer"
    )
    assert world.ns["nsState"] == "READY"


def test_failed_action(world: World) -> None:
    world.run()
    world.backends.the_model.outcomes[APP1, "touch"] = [outcome("failed", {"output": "why"})]
    assert world.touch() == "FAILED"
    assert world.op["detailed-status"] == (
        f"Error executing primitive touch in ee={environment(world, APP1)}: failed: why"
    )
    assert world.ns["nsState"] == "READY"
    assert world.ns["currentOperation"] == "IDLE"


def test_config_as_an_action_changes_nothing(world: World) -> None:
    day12_of(world.descriptor)[0]["config-primitive"].append(
        {"name": "config", "parameter": [{"name": "ssh-hostname"}]}
    )
    world.run()
    before = dict(world.backends.the_model.config[APP1])
    assert (
        world.start(
            "action",
            primitive="config",
            member_vnf_index="1",
            primitive_params={"ssh-hostname": "evil"},
        )
        == "COMPLETED"
    )
    assert world.op["detailed-status"] == {"output": "CONFIG OK"}
    assert world.backends.the_model.config[APP1] == before


# -- terminate -------------------------------------------------------------------------------------


def test_terminate_runs_primitives_then_deletes_model_and_vim_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run()
    both = threading.Barrier(2, timeout=120)
    for fake, name in (
        (world.backends, "destroy_model"),
        (world.backends.the_vim, "delete_tag"),
    ):
        real = getattr(fake, name)

        def meet(*words: str, real: Any = real) -> None:
            both.wait()  # broken, and so an error, where one is begun after the other's end
            real(*words)

        monkeypatch.setattr(fake, name, meet)
    assert world.start("terminate", autoremove=True) == "COMPLETED"
    primitive = world.log.index("action", APP1, "stop-it")
    assert primitive < world.log.index("destroy-model")
    assert primitive < world.log.index("delete-tag", world.nsr["_id"])
    for kind in (NSRS, VNFRS, OPS):
        assert world.store.all(kind) == []


def test_terminate_primitives_only_where_an_initial_one_ran(world: World) -> None:
    world.backends.the_model.outcomes[APP2, "get-ssh-public-key"] = [outcome("failed")]
    world.run()
    assert world.start("terminate") == "COMPLETED"
    assert {e[1] for e in world.log.of("action") if e[2] == "stop-it"} == {APP1}


def test_failed_terminate_primitive_stops_before_anything_is_deleted(world: World) -> None:
    world.run()
    world.backends.the_model.outcomes["*", "stop-it"] = [outcome("failed")]
    assert world.start("terminate") == "FAILED"
    assert not world.log.of("destroy-model")
    assert not world.log.of("delete-tag")
    assert "terminate_primitive stop-it" in world.op["detailed-status"]
    assert world.ns["nsState"] == "BROKEN"
    assert world.start("terminate", skip_terminate_primitives=True) == "COMPLETED"


@pytest.mark.parametrize("skip", [False, True])
def test_terminate_after_a_failure_in_the_vim_runs_no_primitive_again(
    world: World, monkeypatch: pytest.MonkeyPatch, skip: bool
) -> None:
    world.run()

    def refuse(tag: str) -> None:
        raise LcmError("The server is busy.")

    with monkeypatch.context() as patch:
        patch.setattr(world.backends.the_vim, "delete_tag", refuse)
        assert world.start("terminate", skip_terminate_primitives=skip) == "FAILED"
    assert world.log.of("destroy-model")
    assert world.start("terminate") == "COMPLETED"
    ran = [entry[1] for entry in world.log.of("action") if entry[2] == "stop-it"]
    assert ran == ([] if skip else [APP1, APP2])


def test_terminate_runs_no_primitive_again_that_succeeded(world: World) -> None:
    world.run()
    world.backends.the_model.outcomes[APP2, "stop-it"] = [
        outcome("failed"),
        outcome("completed"),
    ]
    assert [world.start("terminate") for _ in range(2)] == ["FAILED", "COMPLETED"]
    ran = [entry[1] for entry in world.log.of("action") if entry[2] == "stop-it"]
    assert ran == [APP1, APP2, APP2]


def test_terminate_asks_only_the_vims_of_the_service(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An account without a VIM harms only services that have something there."""
    world.request["vnf"] = [{"member-vnf-index": "1", "vimAccountId": "vim2"}]
    operation = world.record()
    for name in ("vim2", "half"):
        world.store.put(VIMS, {"_id": name, "name": name, "_admin": admin()})
    world.run(operation)
    broken = {"half", "vim1"}

    def vim(vim_account: str) -> Any:
        if vim_account in broken:
            raise LcmError(f"VIM account '{vim_account}' could not be found.")
        return world.backends.the_vim

    monkeypatch.setattr(world.backends, "vim", vim)
    assert world.start("terminate") == "FAILED"
    assert world.op["detailed-status"] == (
        "Removing deployment from VIM: VIM account 'vim1' could not be found."
    )
    assert len(world.log.of("delete-tag")) == 1, "the other VIM is emptied all the same"
    broken.remove("vim1")
    assert world.start("terminate", skip_terminate_primitives=True) == "COMPLETED"
    assert len(world.log.of("delete-tag")) == 3
    assert world.store.all(NSRS) == []


def test_terminate_after_a_create_that_never_got_anywhere(world: World) -> None:
    world.record()
    assert world.start("terminate") == "COMPLETED"
    assert world.log.of("delete-tag")
    assert world.store.all(NSRS) == []


@pytest.mark.parametrize(("kind", "state"), [("terminate", "COMPLETED"), ("action", "FAILED")])
def test_an_operation_whose_service_is_deleted_while_it_waits(
    world: World, monkeypatch: pytest.MonkeyPatch, kind: str, state: str
) -> None:
    world.run()
    operation = new_operation(world.ns, kind, {})
    world.store.put(OPS, operation)
    events = operation_folder(world.store.home, operation["_id"]) / "events.jsonl"
    events.parent.mkdir(parents=True)
    tail = Tail(events)

    @contextmanager
    def waiting(*_: object) -> Iterator[None]:
        remove_service(world.store, world.ns["_id"])
        yield

    monkeypatch.setattr(worker, "locked", waiting)
    assert worker.run(world.store.home, operation["_id"]) == state
    end = next(event for event in tail.new_events() if event["kind"] == "end")
    assert (end["state"], end["detail"]) == (state, "the service was deleted meanwhile")
