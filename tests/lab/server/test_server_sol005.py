"""What other SOL005 clients than osmclient send: two steps, contents, cancellation, accounts."""

import contextlib
import tarfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.nbi_server import VIM, Api, instantiation, nothing_made, refused

from lab.nbi.engine import Engine
from lab.records.operations import fail_operation
from lab.records.store import NSIOPS, NSIS, NSRS, OPS, VIMS, VNFRS

SERVICES = "/nslcm/v1/ns_instances"
SLICES = "/nsilcm/v1/netslice_instances"


def created(api: Api, dist: Path) -> tuple[str, dict[str, Any]]:
    body = instantiation(dist, api.onboard(dist), VIM)
    answer = api.post(SERVICES, body)
    assert answer.status_code == 201, answer.text
    key = answer.json()["id"]
    assert answer.headers["location"] == f"/osm{SERVICES}/{key}"
    return key, body


def test_service_in_two_steps(api: Api, dist: Path) -> None:
    key, body = created(api, dist)
    assert api.get(f"{SERVICES}/{key}").json()["nsState"] == "NOT_INSTANTIATED"
    assert api.engine.store.all(OPS) == []
    members = {v["_id"] for v in api.engine.store.all(VNFRS)}
    for verb in ("terminate", "heal", "action"):
        early = f"cannot be '{verb}' because it is not instantiated"
        given = {"healVnfData": [{"vnfInstanceId": members.copy().pop()}]}
        action = {"primitive": "show-status", "primitive_params": {}, "member_vnf_index": "client"}
        sent = {"heal": given, "action": action}.get(verb, {})
        refused(api.post(f"{SERVICES}/{key}/{verb}", sent), 409, "CONFLICT", early)
    place = f"{SERVICES}/{key}/instantiate"
    refused(api.post(place, {}), 422, "UNPROCESSABLE_ENTITY", "'nsName' is a required property")
    other = {**body, "vld": [{"name": "none"}]}
    refused(api.post(place, other), 400, "BAD_REQUEST", "vld:name='none' is not present")
    assert api.engine.store.all(OPS) == []
    # The addresses of now, the additionalParams of the creation: so does NBI.
    lacking = {k: v for k, v in body.items() if k != "additionalParamsForVnf"}
    answer = api.post(place, {**lacking, "timeout_ns_deploy": 60})
    assert answer.status_code == 202, answer.text
    assert answer.headers["location"] == f"/osm/nslcm/v1/ns_lcm_op_occs/{answer.json()['id']}"
    [operation] = api.engine.store.all(OPS)
    assert operation["operationParams"]["timeout_ns_deploy"] == 60
    assert operation["operationParams"]["additionalParamsForVnf"]
    assert {v["_id"] for v in api.engine.store.all(VNFRS)} == members
    template = {**body, "nsConfigTemplateId": VIM}  # what osmclient of OSM 19 can name
    refused(api.post(SERVICES, template), 404, "NOT_FOUND", "any nsconfigtemp with filter=")
    again = "cannot be 'instantiate' because it is already instantiated"
    refused(api.post(place, body), 409, "CONFLICT", again)
    busy = "cannot be deleted because it is in 'INSTANTIATED' state"
    refused(api.delete(f"{SERVICES}/{key}"), 409, "CONFLICT", busy)


def test_two_requests_at_the_same_time_instantiate_once(
    api: Api, dist: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, body = created(api, dist)
    checked, both = Engine._checked, threading.Barrier(2)

    def together(engine: Engine, *arguments: Any) -> Any:
        # Both requests are past the first look at the record, if nothing keeps the second out.
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(1)
        return checked(engine, *arguments)

    monkeypatch.setattr(Engine, "_checked", together)
    with ThreadPoolExecutor(2) as pool:
        place = f"{SERVICES}/{key}/instantiate"
        answers = list(pool.map(lambda _: api.post(place, body), range(2)))
    accepted, late = sorted(answers, key=lambda answer: answer.status_code)
    assert accepted.status_code == 202, accepted.text
    again = "cannot be 'instantiate' because it is already instantiated"
    refused(late, 409, "CONFLICT", again)
    [operation] = api.engine.store.all(OPS)
    assert operation["_id"] == accepted.json()["id"]


def test_service_that_was_never_instantiated(api: Api, dist: Path) -> None:
    key, body = created(api, dist)
    for place in (SERVICES, f"{SERVICES}_content"):
        answer = api.delete(f"{place}/{key}")
        assert (answer.status_code, answer.content) == (204, b"")
        assert api.engine.store.all(NSRS) == api.engine.store.all(VNFRS) == []
        key = api.post(SERVICES, body).json()["id"]


def test_slice_in_two_steps(api: Api, dist: Path) -> None:
    api.onboard(dist)
    file = dist / "vpn_basic_nst.tar.gz"
    nst = api.upload("POST", "/nst/v1/netslice_templates_content", file).json()["id"]
    config = yaml.safe_load((dist / "params" / "vpn_slice.yaml").read_text())
    body = {"nstId": nst, "nsiName": "s", "vimAccountId": VIM, "timeout_nsi_deploy": 7, **config}
    answer = api.post(SLICES, body)
    assert answer.status_code == 201, answer.text
    key = answer.json()["id"]
    assert api.engine.store.all(OPS) == api.engine.store.all(NSIOPS) == []
    [nsr] = api.engine.store.all(NSRS)
    part = "cannot be terminated because is used by the slice"
    refused(api.delete(f"{SERVICES}/{nsr['_id']}"), 409, "CONFLICT", part)
    assert api.delete(f"{SLICES}/{key}").status_code == 204
    assert api.engine.store.all(NSIS) == api.engine.store.all(NSRS) == []
    key = api.post(SLICES, body).json()["id"]
    started = api.post(f"{SLICES}/{key}/instantiate", body)
    assert started.status_code == 202, started.text
    [operation] = api.engine.store.all(NSIOPS)
    [step] = api.engine.store.all(OPS)
    assert operation["operationParams"]["nslcmops_ids"] == [step["_id"]]
    assert operation["operationParams"]["timeout_nsi_deploy"] == 7
    again = "cannot be 'instantiate' because it is already instantiated"
    refused(api.post(f"{SLICES}/{key}/instantiate", body), 409, "CONFLICT", again)
    busy = "cannot be deleted because it is in 'INSTANTIATED' state"
    refused(api.delete(f"{SLICES}/{key}"), 409, "CONFLICT", busy)


def test_cancellation(api: Api, dist: Path) -> None:
    body = instantiation(dist, api.onboard(dist), VIM)
    key = api.post(f"{SERVICES}_content", body).json()["nslcmop_id"]
    place = f"/nslcm/v1/ns_lcm_op_occs/{key}/cancel"
    missing = "'cancelMode' is a required property"
    refused(api.post(place, {}), 422, "UNPROCESSABLE_ENTITY", missing)
    wrong = api.post(place, {"cancelMode": "SOON"})
    refused(wrong, 422, "UNPROCESSABLE_ENTITY", "Format error at 'cancelMode' ''SOON' is not one")
    none = "/nslcm/v1/ns_lcm_op_occs/none/cancel"
    refused(api.post(none, {"cancelMode": "GRACEFUL"}), 404, "NOT_FOUND", "any nslcmop with")
    answer = api.post(place, {"cancelMode": "FORCEFUL"})
    assert (answer.status_code, answer.json()) == (202, {})
    operation = api.get(f"/nslcm/v1/ns_lcm_op_occs/{key}").json()
    assert operation["operationState"] == "FAILED_TEMP"
    assert operation["errorMessage"] == "Operation was cancelled"
    over = "Operation is not in STARTING, PROCESSING or ROLLING_BACK state"
    refused(api.post(place, {"cancelMode": "GRACEFUL"}), 409, "CONFLICT", over)


def test_migration_and_the_end_without_autoremove(api: Api, dist: Path) -> None:
    key, body = created(api, dist)
    started = api.post(f"{SERVICES}/{key}/instantiate", body).json()
    fail_operation(api.engine.store, api.engine.store.get(OPS, started["id"]), "for the test")
    vnfr = api.engine.store.all(VNFRS)[0]["_id"]
    place = f"{SERVICES}/{key}/migrate"
    sent = {"vnfInstanceId": vnfr, "migrateToHost": "h2", "vdu": {"vduId": "no"}}
    refused(api.post(place, sent), 400, "BAD_REQUEST", "has no vdu 'no' with count-index 0")
    refused(api.post(place, {}), 422, "UNPROCESSABLE_ENTITY", "'vnfInstanceId' is a required")
    answer = api.post(place, {"vnfInstanceId": vnfr, "migrateToHost": "h2"})
    assert (answer.status_code, answer.json()["nsName"]) == (202, "vpn")
    answer = api.post(f"{SERVICES}/{key}/terminate", {})
    operation = api.engine.store.get(OPS, answer.json()["id"])
    assert operation["operationParams"]["autoremove"] is False


# -- contents of packages ------------------------------------------------------------------------


def test_contents_of_packages(api: Api, dist: Path) -> None:
    nsd = api.onboard(dist)
    [vnfd] = api.get("/vnfpkgm/v1/vnf_packages").json()
    for place, content, name, kind in (
        (f"/vnfpkgm/v1/vnf_packages/{vnfd['_id']}", "package_content", "vpn_endpoint_vnf", "vnfd"),
        (f"/nsd/v1/ns_descriptors/{nsd}", "nsd_content", "vpn_basic_ns", "nsd"),
    ):
        original = (dist / f"{name}.tar.gz").read_bytes()
        for accept in ("application/zip", "application/gzip"):
            answer = api.get(f"{place}/{content}", Accept=accept)
            assert answer.headers["content-type"] == accept
            assert answer.content == original
        text = api.get(f"{place}/{kind}", Accept="text/plain")
        assert text.headers["content-type"].startswith("text/plain")
        assert kind in yaml.safe_load(text.text)
        # osmclient's usual header, and a type nobody has.
        for accept in ("application/json", "image/png"):
            wrong = api.get(f"{place}/{kind}", Accept=accept)
            assert wrong.status_code == 406
            assert "provide request header 'Accept'" in wrong.text


def packed(package: Path, name: str) -> bytes:
    with tarfile.open(package) as archive:
        file = archive.extractfile(f"vpn_endpoint_vnf/cloud_init/{name}")
        assert file is not None
        return file.read()


def test_artifacts_of_a_package(api: Api, dist: Path) -> None:
    api.onboard(dist)
    [vnfd] = api.get("/vnfpkgm/v1/vnf_packages").json()
    place = f"/vnfpkgm/v1/vnf_packages/{vnfd['_id']}/artifacts"
    names = yaml.safe_load(api.get(place, Accept="text/plain").text)
    assert {"charms", "cloud_init"} <= set(names)
    [script] = yaml.safe_load(api.get(f"{place}/cloud_init", Accept="text/plain").text)
    file = api.get(f"{place}/cloud_init/{script}", Accept="text/plain")
    assert file.content == packed(dist / "vpn_endpoint_vnf.tar.gz", script)
    for path in ("none", "%2e%2e/%2e%2e/%2e%2e/vnfds", "cloud_init/%2e%2e/%2e%2e/%2e%2e/x"):
        answer = api.get(f"{place}/{path}", Accept="text/plain")
        assert answer.status_code == 404, (path, answer.text)


def test_content_that_is_still_to_come(api: Api) -> None:
    key = api.post("/vnfpkgm/v1/vnf_packages", {}).json()["id"]
    answer = api.get(f"/vnfpkgm/v1/vnf_packages/{key}/vnfd", Accept="text/plain")
    assert answer.status_code == 409
    assert yaml.safe_load(answer.text)["detail"].endswith("onboardingState is CREATED")


def test_archives_go_with_their_packages(api: Api, dist: Path) -> None:
    path = "/vnfpkgm/v1/vnf_packages_content"
    key = api.upload("POST", path, dist / "vpn_endpoint_vnf.tar.gz").json()["id"]
    place = f"/vnfpkgm/v1/vnf_packages/{key}"
    assert api.upload("PUT", f"{place}/package_content", dist / "vpn_endpoint_vnf.tar.gz").ok
    assert api.get(f"{place}/package_content", Accept="application/zip").ok
    assert api.delete(place).status_code == 204
    nothing_made(api.engine)


# -- accounts ------------------------------------------------------------------------------------

VCA = {
    "name": "osm-vca",
    "endpoints": ["192.0.2.1:17070"],
    "user": "osm",
    "secret": "secret-of-the-vca",
    "cacert": "-----BEGIN CERTIFICATE-----",
    "lxd-cloud": "c",
    "lxd-credentials": "c",
    "k8s-cloud": "k",
    "k8s-credentials": "k",
}


def test_juju_controllers(api: Api, tmp_path: Path) -> None:
    with Api(api.engine, api.site, vca=False) as without:
        assert without.get("/admin/v1/vca").json() == []
        lacking = {k: v for k, v in VCA.items() if k != "cacert"}
        text = "'cacert' is a required property"
        answer = without.post("/admin/v1/vca", lacking)
        refused(answer, 422, "UNPROCESSABLE_ENTITY", text)
        answer = without.post("/admin/v1/vca", VCA)
        assert answer.status_code == 202, answer.text
        key = answer.json()["id"]
        twice = without.post("/admin/v1/vca", VCA)
        refused(twice, 409, "CONFLICT", "name 'osm-vca' already exists for vca")
        [shown] = without.get("/admin/v1/vca").json()
        assert (shown["name"], shown["_admin"]["operationalState"]) == ("osm-vca", "ENABLED")
        assert "secret" not in shown
        kept = [p for p in tmp_path.rglob("*.json") if "secret-of-the-vca" in p.read_text()]
        assert kept == []
        place = f"/admin/v1/vca/{key}"
        assert without.patch(place, {"description": "moved"}).status_code == 202
        other = without.post("/admin/v1/vca", {**VCA, "name": "other"}).json()["id"]
        taken = without.patch(f"/admin/v1/vca/{other}", {"name": "osm-vca"})
        refused(taken, 409, "CONFLICT", "name 'osm-vca' already exists for vca")
        assert without.get(f"/admin/v1/vca/{other}").json()["name"] == "other"
        assert without.patch(place, {"name": "osm-vca"}).status_code == 202
        assert without.delete(f"/admin/v1/vca/{other}?FORCE=True").status_code == 204
        refused(without.patch(place, {}), 400, "BAD_REQUEST", "Nothing to update")
        assert without.patch(f"/admin/v1/vim_accounts/{VIM}", {"vca": key}).status_code == 202
        assert api.engine.store.get(VIMS, VIM)["vca"] == key
        used = "There is at least one VIM account using this vca"
        refused(without.delete(place), 409, "CONFLICT", used)
        assert without.delete(f"{place}?FORCE=True").status_code == 204
        assert without.get("/admin/v1/vca").json() == []


def test_vim_account_that_is_changed(api: Api) -> None:
    place = f"/admin/v1/vim_accounts/{VIM}"
    change = {
        "description": "north",
        "vim_password": "new-secret",
        "config": {"security_groups": 1},
    }
    assert api.patch(place, change).status_code == 202
    record = api.engine.store.get(VIMS, VIM)
    assert (record["description"], record["config"]) == ("north", {"security_groups": 1})
    assert "new-secret" not in str(record)
    for change, text in (
        ({"name": "other"}, "the name of VIM account 'lab' cannot be changed in a lab"),
        ({"config": {"management_subnet": "10.9.0.0/24"}}, "are made once in a lab"),
    ):
        refused(api.patch(place, change), 409, "CONFLICT", text)
    refused(api.patch(place, {"colour": 1}), 422, "UNPROCESSABLE_ENTITY", "'colour'")
    refused(api.patch(place, {"vca": VIM}), 404, "NOT_FOUND", "with filter")
    assert api.engine.store.get(VIMS, VIM) == record


def test_alarms_and_subscriptions_are_empty(api: Api) -> None:
    for path in ("/nsfm/v1/alarms/None/admin/None", "/nslcm/v1/subscriptions"):
        assert api.get(path).json() == []


def test_refusal_of_a_token_says_how_to_log_in(api: Api) -> None:
    api.headers["Authorization"] = "Bearer x"
    answer = api.get("/admin/v1/vim_accounts")
    text = "Invalid Token or Authorization HTTP header"
    assert answer.headers["www-authenticate"] == f'Bearer realm="{text}"'
