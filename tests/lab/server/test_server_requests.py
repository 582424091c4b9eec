"""What osmclient sends, answered as OSM's NBI answers it; and what hostile clients send."""

import contextlib
import functools
import socket
import ssl
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect
from support.nbi_server import PASSWORD, VIM, Api, instantiation, nothing_made, refused

from lab.api import app as server_app
from lab.api import bodies, listener, tokens
from lab.api.app import create_app
from lab.api.listener import Listener
from lab.errors import NbiError
from lab.nbi.engine import Engine
from lab.page.mount import WithPage
from lab.records.store import CREATED, NSRS, OPS, VNFRS, Document

VNFD_CONTENT = "/vnfpkgm/v1/vnf_packages_content"


@pytest.fixture
def service(api: Api, dist: Path) -> dict[str, Any]:
    nsd = api.onboard(dist)
    answer = api.post("/nslcm/v1/ns_instances_content", instantiation(dist, nsd, VIM))
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def instantiated(api: Api, service: Document) -> str:
    def change(nsr: Document) -> None:
        nsr["_admin"]["nsState"] = "INSTANTIATED"

    with api.engine.store.edit(NSRS, service["id"]) as document:
        change(document)
    return str(service["id"])


# -- tokens --------------------------------------------------------------------------------------


def test_token(api: Api) -> None:
    token = api.headers["Authorization"].partition(" ")[2]
    shown = api.get(f"/admin/v1/tokens/{token}").json()
    assert (shown["username"], shown["project_name"]) == ("admin", "admin")
    assert api.delete(f"/admin/v1/tokens/{token}").status_code == 200
    text = "Invalid Token or Authorization HTTP header"
    refused(api.get("/nslcm/v1/ns_instances_content"), 401, "UNAUTHORIZED", text)


@pytest.mark.parametrize(
    ("credentials", "text"),
    [
        ({"username": "admin", "password": "admin"}, "Invalid username/password"),
        ({"username": "root", "password": PASSWORD}, "Invalid username/password"),
        ({"username": "admin"}, "Invalid username/password"),
        ({}, "Invalid username/password"),
        (
            {"username": "admin", "password": PASSWORD, "project_id": "other"},
            "project other not allowed for this user",
        ),
        ({"username": "admin", "password": "\ud800"}, "Invalid username/password"),
        (
            {"username": "admin", "password": PASSWORD, "project_id": "プロ"},
            "project プロ not allowed for this user",
        ),
    ],
)
def test_wrong_credentials(api: Api, credentials: dict[str, str], text: str) -> None:
    refused(api.post("/admin/v1/tokens", credentials), 401, "UNAUTHORIZED", text)


def test_a_project_writes_no_header(api: Api) -> None:
    name = 'x"\r\nSet-Cookie: a=b\\プ'
    credentials = {"username": "admin", "password": PASSWORD, "project_id": name}
    answer = api.post("/admin/v1/tokens", credentials)
    refused(answer, 401, "UNAUTHORIZED", name)
    text = "project x???Set-Cookie: a=b?? not allowed for this user"
    assert answer.headers["WWW-Authenticate"] == f'Bearer realm="{text}"'
    assert "Set-Cookie" not in answer.headers


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer x", "Basic YWRtaW46YWRtaW4="])
def test_every_path_needs_a_token(api: Api, header: str) -> None:
    api.headers["Authorization"] = header
    for path in ("/admin/v1/vim_accounts", "/admin/v1/tokens", "/vnfpkgm/v1/vnf_packages"):
        assert api.get(path).status_code == 401
    assert api.post(VNFD_CONTENT, {}).status_code == 401
    assert api.get("/version").status_code == 200


def test_token_runs_out(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    now = tokens.time.time()
    monkeypatch.setattr(tokens.time, "time", lambda: now + tokens.LIFETIME + 1)
    text = "Expired Token or Authorization HTTP header"
    refused(api.get("/admin/v1/vim_accounts"), 401, "UNAUTHORIZED", text)


# -- accounts ------------------------------------------------------------------------------------


def test_what_a_lab_has_not_is_an_empty_list(api: Api) -> None:
    for path in (
        "/admin/v1/wim_accounts",
        "/admin/v1/sdns",
        "/admin/v1/k8sclusters",
        "/admin/v1/osmrepos",
        "/pdu/v1/pdu_descriptors",
        "/nsd/v1/ns_config_template",
    ):
        assert api.get(path).json() == []
    answer = api.post("/admin/v1/wim_accounts", {"name": "w"})
    refused(answer, 501, "NOT_IMPLEMENTED", "Method POST not supported yet for this URL")


def test_administration(api: Api) -> None:
    [project] = api.get("/admin/v1/projects").json()
    assert api.get(f"/admin/v1/projects/{project['_id']}").json()["name"] == "admin"
    assert [u["username"] for u in api.get("/admin/v1/users").json()] == ["admin"]
    assert [v["name"] for v in api.get("/admin/v1/vca").json()] == ["lab"]
    with Api(api.engine, api.site, vca=False) as without:
        assert without.get("/admin/v1/vca").json() == []


def test_vim_account(api: Api) -> None:
    [vim] = api.get("/admin/v1/vim_accounts").json()
    assert (vim["name"], vim["_admin"]["operationalState"]) == ("lab", "ENABLED")
    text = "Format error  ''vim_url' is a required property' "
    body = {"name": "x", "vim_type": "openstack"}
    refused(api.post("/admin/v1/vim_accounts", body), 422, "UNPROCESSABLE_ENTITY", text)
    missing = "database exception Not found any vim_account with filter='{'_id': 'x'}'"
    refused(api.get("/admin/v1/vim_accounts/x"), 404, "NOT_FOUND", missing)


# -- packages ------------------------------------------------------------------------------------


def test_package_in_one_step(api: Api, dist: Path) -> None:
    api.onboard(dist)
    [vnfd] = api.get("/vnfpkgm/v1/vnf_packages").json()
    assert (vnfd["id"], vnfd["onboardingState"]) == ("vpn_endpoint_vnf", "ONBOARDED")
    assert vnfd["_admin"]["usageState"] == "NOT_IN_USE"
    text = api.get(f"/vnfpkgm/v1/vnf_packages/{vnfd['_id']}/vnfd", Accept="text/plain").text
    assert yaml.safe_load(text)["vnfd"]["id"] == "vpn_endpoint_vnf"
    again = api.upload("POST", VNFD_CONTENT, dist / "vpn_endpoint_vnf.tar.gz")
    there = "vnfd with id 'vpn_endpoint_vnf' already exists for this project"
    refused(again, 409, "CONFLICT", there)
    answer = api.delete(f"/vnfpkgm/v1/vnf_packages/{vnfd['_id']}")
    used = "There is at least one NS package referencing this descriptor"
    refused(answer, 409, "CONFLICT", used)


def test_package_in_two_steps(api: Api, dist: Path) -> None:
    made = api.post("/vnfpkgm/v1/vnf_packages", {"userDefinedData": {"by": "me"}})
    key = made.json()["id"]
    assert made.headers["location"] == f"/osm/vnfpkgm/v1/vnf_packages/{key}"
    assert api.get(f"/vnfpkgm/v1/vnf_packages/{key}").json()["onboardingState"] == "CREATED"
    path = f"/vnfpkgm/v1/vnf_packages/{key}/package_content"
    broken = api.upload("PUT", path, dist / "vpn_endpoint_vnf.tar.gz", b"\x1f\x8b nothing")
    refused(broken, 400, "BAD_REQUEST", "invalid file content")
    assert api.get(f"/vnfpkgm/v1/vnf_packages/{key}").json()["operationalState"] == "DISABLED"
    done = api.upload("PUT", path, dist / "vpn_endpoint_vnf.tar.gz")
    assert (done.status_code, done.content) == (204, b"")
    [vnfd] = api.get("/vnfpkgm/v1/vnf_packages").json()
    assert (vnfd["_id"], vnfd["operationalState"]) == (key, "ENABLED")
    assert api.engine.store.all(CREATED) == []
    assert api.delete(f"/vnfpkgm/v1/vnf_packages/{key}").status_code == 204
    nothing_made(api.engine)


def test_another_revision_of_a_package(api: Api, dist: Path) -> None:
    """As `osm vnfpkg-update --content` and `osm nspkg-update --content` send it."""
    nsd = api.onboard(dist)
    [vnfd] = api.get("/vnfpkgm/v1/vnf_packages").json()
    path = f"/vnfpkgm/v1/vnf_packages/{vnfd['_id']}/package_content"
    assert api.upload("PUT", path, dist / "vpn_endpoint_vnf.tar.gz").status_code == 204
    [after] = api.get("/vnfpkgm/v1/vnf_packages").json()
    assert (after["_id"], after["_admin"]["revision"]) == (vnfd["_id"], 2)
    wrong = api.upload("PUT", path, dist / "vpn_basic_ns.tar.gz")
    refused(wrong, 409, "CONFLICT", "references a non existing vnfd")
    [same] = api.get("/vnfpkgm/v1/vnf_packages").json()
    assert same["_admin"]["revision"] == 2
    other = f"/nsd/v1/ns_descriptors/{nsd}/nsd_content"
    assert api.upload("PUT", other, dist / "vpn_basic_ns.tar.gz").status_code == 204
    wrong = api.upload("PUT", other, dist / "vpn_endpoint_vnf.tar.gz")
    refused(wrong, 400, "BAD_REQUEST", "vpn_endpoint_vnfd.yaml is no nsd descriptor")
    [again] = api.get("/nsd/v1/ns_descriptors").json()
    assert (again["_id"], again["_admin"]["revision"]) == (nsd, 2)
    assert list((api.engine.store.root / "uploads").iterdir()) == []


def test_package_announced_and_dropped(api: Api) -> None:
    key = api.post("/nsd/v1/ns_descriptors", {}).json()["id"]
    assert api.get(f"/nsd/v1/ns_descriptors/{key}").json()["nsdOnboardingState"] == "CREATED"
    assert api.get(f"/vnfpkgm/v1/vnf_packages/{key}").status_code == 404
    assert api.delete(f"/nsd/v1/ns_descriptors/{key}").status_code == 204
    assert api.get("/nsd/v1/ns_descriptors").json() == []


def hostile_archive(folder: Path, name: str) -> Path:
    """A package with a file that wants to be elsewhere."""
    source = folder / "x"
    source.write_text("vnfd: {id: x}\n")
    target = folder / "hostile.tar.gz"
    with tarfile.open(target, "w:gz") as archive:
        archive.add(source, name)
    return target


@pytest.mark.parametrize("name", ["../../evil.yaml", "p/../../evil.yaml"])
def test_package_that_leaves_its_folder(api: Api, tmp_path: Path, name: str) -> None:
    answer = api.upload("POST", VNFD_CONTENT, hostile_archive(tmp_path, name))
    refused(answer, 400, "BAD_REQUEST", "Absolute path or '..' are not allowed")
    nothing_made(api.engine)


def test_file_name_of_the_client_leads_nowhere(api: Api, dist: Path) -> None:
    file = dist / "vpn_endpoint_vnf.tar.gz"
    headers = {"Content-Filename": "../../../../etc/cron.d/evil"}
    assert api.upload("POST", VNFD_CONTENT, file, **headers).status_code == 201
    assert list((api.engine.store.root / "uploads").iterdir()) == []


@pytest.mark.parametrize(
    ("data", "status"), [(b"", 400), (b"no archive", 400), (b"\x1f\x8b\x08\x00broken", 400)]
)
def test_no_package(api: Api, dist: Path, data: bytes, status: int) -> None:
    file = dist / "vpn_endpoint_vnf.tar.gz"
    assert api.upload("POST", VNFD_CONTENT, file, data).status_code == status
    nothing_made(api.engine)


@pytest.mark.parametrize("name", ["a%00b", "x" * 300, "x" * 5000])
def test_artifact_of_a_name_that_no_file_has(api: Api, dist: Path, name: str) -> None:
    api.onboard(dist)
    [vnfd] = api.get("/vnfpkgm/v1/vnf_packages").json()
    place = f"/vnfpkgm/v1/vnf_packages/{vnfd['_id']}/artifacts/{name}"
    answer = api.get(place, Accept="application/json, */*")
    refused(answer, 404, "NOT_FOUND", "does not exist")


def test_descriptor_without_its_vnfds(api: Api, dist: Path) -> None:
    answer = api.upload("POST", "/nsd/v1/ns_descriptors_content", dist / "vpn_basic_ns.tar.gz")
    refused(answer, 409, "CONFLICT", "references a non existing vnfd")
    nothing_made(api.engine)


def test_upload_larger_than_a_package_may_be(
    api: Api, dist: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "MAX_BYTES", 1000)
    file = dist / "vpn_endpoint_vnf.tar.gz"
    refused(api.upload("POST", VNFD_CONTENT, file), 413, "REQUEST_ENTITY_TOO_LARGE", "1000 bytes")

    def chunks() -> Iterator[bytes]:
        yield from [b"x" * 300] * 10

    headers = {**api.headers, "Content-Type": "application/gzip"}
    answer = api.http.post(f"{api.url}{VNFD_CONTENT}", data=chunks(), headers=headers)
    refused(answer, 413, "REQUEST_ENTITY_TOO_LARGE", "1000 bytes")
    nothing_made(api.engine)


# -- services ------------------------------------------------------------------------------------


def test_service(api: Api, service: dict[str, Any]) -> None:
    assert set(service) == {"id", "nslcmop_id", "nsName"}
    [nsr] = api.get("/nslcm/v1/ns_instances_content").json()
    assert nsr["_id"] == service["id"]
    # What `osm ns-list --long` reads.
    for field in ("create-time", "nsState", "currentOperation", "datacenter", "deploymentStatus"):
        assert field in nsr
    assert nsr["_admin"]["projects_read"]
    [operation] = api.get(f"/nslcm/v1/ns_lcm_op_occs?nsInstanceId={nsr['_id']}").json()
    assert operation["_id"] == service["nslcmop_id"]
    # What `osm ns-op-list --long` takes out of the parameters before it prints them.
    for field in ("nsDescription", "nsName", "nsdId", "nsr_id", "lcmOperationType"):
        assert field in operation["operationParams"]
    assert operation["queuePosition"] == 0
    assert api.get("/nslcm/v1/ns_lcm_op_occs?nsInstanceId=other").json() == []
    vnfrs = api.get(f"/nslcm/v1/vnfrs?nsr-id-ref={nsr['_id']}").json()
    assert {v["member-vnf-index-ref"] for v in vnfrs} == {"server", "client"}
    one = api.get(f"/nslcm/v1/vnf_instances/{vnfrs[0]['_id']}").json()
    assert one["id"] == vnfrs[0]["_id"]


def test_service_of_wrong_parameters(api: Api, dist: Path) -> None:
    nsd = api.onboard(dist)
    good = instantiation(dist, nsd, VIM)
    path = "/nslcm/v1/ns_instances_content"
    other = "99999999-2222-4333-8444-555555555555"
    cases: list[tuple[dict[str, Any], int, str]] = [
        ({"nsdId": other}, 404, "database exception Not found any nsd with filter="),
        ({"vimAccountId": other}, 400, f"Invalid vimAccountId='{other}' not present for the"),
        ({"vimAccountId": "lab"}, 422, "Format error at 'vimAccountId' ''lab' does not match"),
        ({"colour": 1}, 422, "Additional properties are not allowed ('colour' was unexpected)"),
        ({"vld": [{"name": "none"}]}, 400, "Invalid parameter vld:name='none' is not present"),
        ({"additionalParamsForVnf": None}, 422, "Format error at 'additionalParamsForVnf'"),
        (
            {"vnf": [{"member-vnf-index": "x", "vimAccountId": VIM}]},
            400,
            "Invalid parameter member_vnf_index='x'",
        ),
    ]
    for change, status, text in cases:
        answer = api.post(path, {**good, **change})
        assert (answer.status_code, text in answer.json()["detail"]) == (status, True), answer.text
    lacking = {key: value for key, value in good.items() if key != "additionalParamsForVnf"}
    refused(api.post(path, lacking), 400, "BAD_REQUEST", "not supplied")
    assert api.get(path).json() == []
    assert api.engine.store.all(VNFRS) == api.engine.store.all(OPS) == []


@pytest.mark.parametrize("private", [True, False])
def test_private_key_in_a_request(api: Api, dist: Path, private: bool) -> None:
    nsd = api.onboard(dist)
    key = "-----BEGIN OPENSSH PRIVATE KEY-----\nc2VjcmV0\n" if private else "ssh-ed25519 AAAA"
    body = {**instantiation(dist, nsd, VIM), "ssh_keys": ["ssh-rsa BBBB", key]}
    answer = api.post("/nslcm/v1/ns_instances_content", body)
    assert answer.status_code == (422 if private else 201)
    assert "c2VjcmV0" not in answer.text
    assert len(api.engine.store.all(NSRS)) == (not private)


def test_two_services_of_one_name(api: Api, dist: Path, service: dict[str, Any]) -> None:
    [nsd] = api.get("/nsd/v1/ns_descriptors").json()
    body = instantiation(dist, nsd["_id"], VIM)
    answer = api.post("/nslcm/v1/ns_instances_content", body)
    refused(answer, 409, "CONFLICT", "ns with name 'vpn' already exists for this project")


def test_action(api: Api, service: dict[str, Any]) -> None:
    path = f"/nslcm/v1/ns_instances/{service['id']}/action"
    body = {"member_vnf_index": "server", "primitive": "show-status", "primitive_params": {}}
    early = "cannot be 'action' because it is not instantiated"
    refused(api.post(path, body), 409, "CONFLICT", early)
    instantiated(api, service)
    answer = api.post(path, body)
    assert (answer.status_code, answer.json()["nsName"]) == (202, "vpn")
    operation = api.get(f"/nslcm/v1/ns_lcm_op_occs/{answer.json()['id']}").json()
    assert operation["operationState"] == "PROCESSING"
    assert operation["operationParams"]["primitive"] == "show-status"
    for change, text in (
        ({"primitive": "fly"}, "Invalid primitive 'fly' is not present at vnfd/nsd"),
        ({"primitive_params": {"x": 1}}, "parameter/s '['x']' not present at vnfd /nsd for"),
        ({"member_vnf_index": "x"}, "Invalid parameter member_vnf_index='x' is not one of the"),
        ({"vdu_id": "x"}, "Invalid parameter vdu_id='x' not present at vnfd:vdu:id"),
    ):
        refused(api.post(path, {**body, **change}), 400, "BAD_REQUEST", text)
    refused(api.post(path, {}), 422, "UNPROCESSABLE_ENTITY", "'primitive' is a required property")
    assert len(api.engine.store.all(OPS)) == 2


def test_heal_scale_and_update(api: Api, service: dict[str, Any]) -> None:
    place = f"/nslcm/v1/ns_instances/{service['id']}"
    vnfr = next(r for r in api.engine.store.all(VNFRS) if r["member-vnf-index-ref"] == "client")
    step = {"scaling-group-descriptor": "more", "member-vnf-index": "client"}
    bodies = {
        "heal": {"healVnfData": [{"vnfInstanceId": vnfr["_id"]}]},
        "scale": {
            "scaleType": "SCALE_VNF",
            "scaleVnfData": {"scaleVnfType": "SCALE_OUT", "scaleByStepData": step},
        },
        "update": {
            "updateType": "OPERATE_VNF",
            "operateVnfData": {
                "vnfInstanceId": vnfr["_id"],
                "changeStateTo": "stop",
                "additionalParam": {"vdu_id": vnfr["vdur"][0]["vdu-id-ref"], "count-index": 0},
            },
        },
    }
    for verb, body in bodies.items():
        early = f"cannot be '{verb}' because it is not instantiated"
        refused(api.post(f"{place}/{verb}", body), 409, "CONFLICT", early)
    instantiated(api, service)
    for verb in ("heal", "update"):
        answer = api.post(f"{place}/{verb}", bodies[verb])
        assert (answer.status_code, answer.json()["nsName"]) == (202, "vpn"), answer.text
        operation = api.get(f"/nslcm/v1/ns_lcm_op_occs/{answer.json()['id']}").json()
        assert operation["lcmOperationType"] == verb
    for change, text in (
        ({"updateType": "PAINT"}, "Format error at 'updateType' ''PAINT' is not one of"),
        (
            {"updateType": "CHANGE_VNFPKG", "changeVnfPackageData": {}},
            "'vnfInstanceId' is a required",
        ),
    ):
        refused(api.post(f"{place}/update", change), 422, "UNPROCESSABLE_ENTITY", text)
    none = "scaling-group-descriptor='more' is not present"
    refused(api.post(f"{place}/scale", bodies["scale"]), 400, "BAD_REQUEST", none)
    for verb, key in (("heal", "healVnfData"), ("scale", "scaleType"), ("update", "updateType")):
        lacking = f"'{key}' is a required property"
        refused(api.post(f"{place}/{verb}", {}), 422, "UNPROCESSABLE_ENTITY", lacking)


def test_delete(api: Api, service: dict[str, Any]) -> None:
    path = f"/nslcm/v1/ns_instances_content/{service['id']}"
    bad = api.delete(f"{path}?skip_terminate_primitives=maybe")
    refused(bad, 422, "UNPROCESSABLE_ENTITY", "'maybe' is not of type 'boolean'")
    malformed = api.delete(f"{path}?skip_terminate_primitives=[")
    refused(malformed, 400, "BAD_REQUEST", "Invalid query string")
    given = "skip_terminate_primitives=True&timeout_ns_terminate=60&autoremove=True"
    answer = api.delete(f"{path}?{given}")
    assert answer.status_code == 202
    operation = api.get(f"/nslcm/v1/ns_lcm_op_occs/{answer.json()['_id']}").json()
    assert operation["lcmOperationType"] == "terminate"
    assert operation["operationParams"]["skip_terminate_primitives"] is True
    assert operation["operationParams"]["autoremove"] is True
    assert operation["operationParams"]["timeout_ns_terminate"] == 60
    gone = "database exception Not found any nsr with filter='{'_id': 'x'}'"
    refused(api.delete("/nslcm/v1/ns_instances_content/x"), 404, "NOT_FOUND", gone)


def test_slice_of_wrong_parameters(api: Api, dist: Path) -> None:
    api.onboard(dist)
    file = dist / "vpn_basic_nst.tar.gz"
    nst = api.upload("POST", "/nst/v1/netslice_templates_content", file).json()["id"]
    assert [n["_id"] for n in api.get("/nst/v1/netslice_templates").json()] == [nst]
    body = {"nstId": nst, "nsiName": "s", "nsiDescription": "d", "vimAccountId": VIM}
    path = "/nsilcm/v1/netslice_instances_content"
    refused(api.post(path, body), 400, "BAD_REQUEST", "not supplied")
    refused(api.post(path, {**body, "x": 1}), 422, "UNPROCESSABLE_ENTITY", "('x' was unexpected)")
    refused(api.post(path, {**body, "nstId": "none"}), 404, "NOT_FOUND", "any nst with filter")
    assert api.get(path).json() == []
    assert api.engine.store.all(NSRS) == []


# -- filters -------------------------------------------------------------------------------------


def test_filters(api: Api, service: dict[str, Any]) -> None:
    def names(query: str) -> list[str]:
        return [n["name"] for n in api.get(f"/nslcm/v1/ns_instances_content?{query}").json()]

    assert names("name=vpn") == names("name=x,vpn") == names("nsd-ref=vpn_basic_ns") == ["vpn"]
    assert names("name=vpn&nsState=READY") == names("no.such=1") == []
    assert names("nsd.df.vnf-profile.id=server") == names("nsd.df.0.vnf-profile.1.id=client")
    wrong = api.get("/nslcm/v1/ns_instances_content?name.neq=vpn")
    refused(wrong, 501, "NOT_IMPLEMENTED", "'name.neq' has an operator")
    assert names("ADMIN&PUBLIC=True") == ["vpn"]
    assert names(f"nsd.df.{'9' * 5000}.id=x") == []


# -- other hostile clients -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"{", "Invalid json format"),
        (b"[]", "Expected application/yaml or application/json Content-Type"),
        (b"\xff\xfe", "Invalid json format"),
        (b"[" * 100_000, "Invalid json format"),
    ],
)
def test_body_that_is_no_document(api: Api, content: bytes, text: str) -> None:
    headers = {**api.headers, "Content-Type": "application/json"}
    answer = api.http.post(f"{api.url}/admin/v1/vim_accounts", data=content, headers=headers)
    refused(answer, 400, "BAD_REQUEST", text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("2026-11-23", "The body: config/key: the date '2026-11-23' cannot be sent; allowed: text"),
        ("!!binary aGFsbG8=", "The body: config/key: the binary data"),
        (".nan", "The body: config/key: nan cannot be sent"),
        ("{2026-11-23: 2}", "The body: config/key: the key '2026-11-23' cannot be sent"),
    ],
)
def test_yaml_that_is_no_json(api: Api, value: str, text: str) -> None:
    body = yaml.safe_load("{name: n, vim_url: u, vim_type: t, vim_user: u, vim_tenant_name: t}")
    content = f"{yaml.safe_dump({**body, 'vim_password': 'p'})}config: {{key: {value}}}"
    answer = api.http.post(f"{api.url}/admin/v1/vim_accounts", data=content, headers=api.headers)
    refused(answer, 400, "BAD_REQUEST", text)


def test_large_yaml_does_not_keep_others_waiting(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, answered = threading.Event(), threading.Event()

    def load(data: bytes) -> None:
        reading.set()
        assert answered.wait(30)

    monkeypatch.setattr(bodies, "load", load)
    with ThreadPoolExecutor(1) as pool:
        path = f"{api.url}/admin/v1/vim_accounts"
        post = functools.partial(requests.post, headers=api.headers, verify=api.http.verify)
        slow = pool.submit(post, path, data="a: b")
        assert reading.wait(30)
        assert api.http.get(f"{api.url}/version", timeout=10).status_code == 200
        answered.set()
        assert slow.result().status_code == 400


def test_several_services_are_terminated(api: Api, service: dict[str, Any]) -> None:
    path = "/nslcm/v1/ns_instances_terminate"
    for wrong in ({}, {"ns_ids": 5}, {"ns_ids": "abc"}, {"ns_ids": [5]}):
        refused(api.post(path, wrong), 422, "UNPROCESSABLE_ENTITY", "ns_ids")
    assert api.post(path, {"ns_ids": [service["id"]]}).status_code == 202
    assert "terminate" in [o["lcmOperationType"] for o in api.engine.store.all(OPS)]


def test_yaml_that_grows(api: Api) -> None:
    bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n"
    for last, name in zip("abcdefg", "bcdefgh", strict=True):
        bomb += f"{name}: &{name} [{', '.join([f'*{last}'] * 9)}]\n"
    headers = {**api.headers, "Content-Type": "application/yaml"}
    answer = api.http.post(f"{api.url}/admin/v1/vim_accounts", data=bomb, headers=headers)
    refused(answer, 400, "BAD_REQUEST", "Invalid yaml format too large with its aliases expanded")


def test_document_that_is_too_large(api: Api) -> None:
    text = "x" * (bodies.MAX_DOCUMENT + 1)
    answer = api.post("/admin/v1/vim_accounts", {"name": text})
    refused(answer, 413, "REQUEST_ENTITY_TOO_LARGE", "The body is larger than")


@pytest.mark.parametrize(
    ("method", "path", "text"),
    [
        ("GET", "/", "URL must contain at least 'main_topic/version/topic'"),
        ("GET", "/nslcm/v1/colours", "Unexpected URL item colours"),
        ("PUT", "/admin/v1/vim_accounts", "Method PUT not supported for this URL"),
        ("GET", "/nslcm/v1/ns_instances/x/action", "Method GET not supported for this URL"),
    ],
)
def test_unknown_path(api: Api, method: str, path: str, text: str) -> None:
    answer = api.http.request(method, f"{api.url}{path}", headers=api.headers)
    refused(answer, 405, "METHOD_NOT_ALLOWED", text)


@pytest.mark.parametrize(
    "key", ["..", "%2e%2e%2fnsrs", "a/../../b", ".lock", "x\x00", "é", "long" * 100]
)
def test_ids_are_no_paths(api: Api, key: str) -> None:
    for table in ("nslcm/v1/ns_instances_content", "vnfpkgm/v1/vnf_packages"):
        answer = api.get(f"/{table}/{key}".replace("\x00", "%00"))
        assert answer.status_code in (404, 405)


def test_many_at_once(api: Api, dist: Path) -> None:
    """Of eight that bring the same package one is served; the others are told so."""
    file = dist / "vpn_endpoint_vnf.tar.gz"
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: api.upload("POST", VNFD_CONTENT, file), range(8)))
    assert sorted(a.status_code for a in answers) == [201] + [409] * 7
    assert len(api.get("/vnfpkgm/v1/vnf_packages").json()) == 1
    assert list((api.engine.store.root / "uploads").iterdir()) == []


def test_a_port_in_use_leaves_the_certificate_of_its_server(api: Api) -> None:
    certificate = api.site.certificate
    before, port = certificate.read_bytes(), int(api.url.rpartition(":")[2].partition("/")[0])
    with pytest.raises(NbiError, match="Address already in use"):
        Listener(api.site, certificate.parent, "127.0.0.1", port)
    assert certificate.read_bytes() == before


def test_yaml_where_no_json_is_asked_for(api: Api) -> None:
    api.headers["Accept"] = "*/*"
    answer = api.get("/admin/v1/vim_accounts")
    assert answer.headers["content-type"].startswith("application/yaml")
    assert yaml.safe_load(answer.text)[0]["name"] == "lab"
    assert "&id" not in answer.text


def connected(api: Api) -> ssl.SSLSocket:
    """Return a TLS connection to the server without a request."""
    host, _, port = api.url.removeprefix("https://").partition("/")[0].rpartition(":")
    context = ssl.create_default_context(cafile=api.site.certificate)
    plain = socket.create_connection((host, int(port)), timeout=20)
    return context.wrap_socket(plain, server_hostname=host)


def closed(connection: ssl.SSLSocket) -> bool:
    """Tell whether the server ends the connection without an answer."""
    try:
        return connection.recv(1) == b""
    except (ConnectionError, ssl.SSLError):
        return True


def test_without_a_token_little_can_be_sent(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a: " + "[" * 20_000
    answer = api.http.post(api.url + "/admin/v1/tokens", data=text, headers={"Accept": "*/*"})
    assert answer.status_code == 413
    monkeypatch.setattr(bodies, "OPEN_SECONDS", 0.2)
    with connected(api) as slow:
        head = "POST /osm/admin/v1/tokens HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{"
        slow.sendall(head.encode())
        assert slow.recv(4096).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize(
    ("limit", "path"),
    [("SECONDS", "/nslcm/v1/ns_instances"), ("PACKAGE_SECONDS", VNFD_CONTENT)],
)
def test_a_body_does_not_drip_for_ever(
    api: Api, monkeypatch: pytest.MonkeyPatch, limit: str, path: str
) -> None:
    monkeypatch.setattr(bodies, limit, 0.4)
    with connected(api) as slow:
        token = api.headers["Authorization"]
        head = f"POST /osm{path} HTTP/1.1\r\nHost: a\r\nAuthorization: {token}\r\n"
        slow.sendall(f"{head}Content-Length: 100000\r\n\r\n".encode())
        slow.settimeout(0.05)
        answer, began = b"", time.monotonic()
        while not answer:
            slow.sendall(b" ")  # each one comes in time
            with contextlib.suppress(TimeoutError):
                answer = slow.recv(4096)
            assert time.monotonic() - began < 20
        assert answer.startswith(b"HTTP/1.1 408 ")
    nothing_made(api.engine)


def test_connections_without_a_request_end(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "HEADER_SECONDS", 0.5)
    for sent in (b"", b"GET /osm/version HTTP/1.1\r\nX: "):
        with connected(api) as idle:
            idle.sendall(sent)
            assert closed(idle)
    # One that asks again and again lives longer.
    with connected(api) as busy:
        for _ in range(4):
            busy.sendall(b"GET /osm/version HTTP/1.1\r\nHost: a\r\n\r\n")
            answer = b""
            while b"version: " not in answer:
                answer += busy.recv(65536)
            assert answer.startswith(b"HTTP/1.1 200 ")
            time.sleep(0.3)


def test_one_address_does_not_get_all_connections(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "MAX_OF_ADDRESS", 3)
    api.http.close()
    with contextlib.ExitStack() as stack:
        several = [stack.enter_context(connected(api)) for _ in range(5)]
        assert closed(several[4])
        several[0].sendall(b"GET /osm/version HTTP/1.1\r\nHost: a\r\n\r\n")
        assert several[0].recv(4096).startswith(b"HTTP/1.1 200 ")


def test_long_headers_are_refused(api: Api) -> None:
    with connected(api) as long:
        with contextlib.suppress(OSError):
            long.sendall(b"GET /osm/version HTTP/1.1\r\nX: " + b"a" * (2 * listener.MAX_HEADERS))
        try:
            assert not long.recv(4096).startswith(b"HTTP/1.1 200 ")
        except OSError:
            pass  # ended without an answer


def test_a_wrong_password_is_answered_late(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_app, "WRONG_SECONDS", 0.6)
    started = time.monotonic()
    answer = api.post("/admin/v1/tokens", {"username": "admin", "password": "guess"})
    assert (answer.status_code, time.monotonic() - started > 0.6) == (401, True)


def test_wrong_passwords_are_counted_by_address(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_app, "WRONG_SECONDS", 0)
    wrong = {"username": "admin", "password": "guess"}
    right = {**wrong, "password": PASSWORD}
    for _ in range(tokens.WRONG):
        assert api.post("/admin/v1/tokens", wrong).status_code == 401
    for given in (wrong, right):  # else a guess that is right could be told from a wrong one
        text = "Too many wrong passwords from this address; try again in"
        refused(api.post("/admin/v1/tokens", given), 429, "TOO_MANY_REQUESTS", text)
    assert api.get("/admin/v1/vim_accounts").status_code == 200  # who has a token goes on
    monkeypatch.setattr(tokens, "PAUSE", 0.0)
    assert api.post("/admin/v1/tokens", right).status_code == 201
    monkeypatch.undo()
    assert api.post("/admin/v1/tokens", right).status_code == 201  # nothing is held against it


def test_other_addresses_are_heard_meanwhile() -> None:
    known = tokens.Tokens("right")

    def guess(address: str, password: str = "wrong") -> int:
        try:
            known.login({"username": "admin", "password": password}, address)
        except NbiError as error:
            return error.status
        return 201

    for number in range(tokens.WRONG):
        assert guess("192.0.2.1") == 401
        assert guess(f"2001:db8::{number}") == 401  # one host has a whole /64
    for late in ("192.0.2.1", "::ffff:192.0.2.1", "2001:db8::ffff"):
        assert guess(late, "right") == 429
    for other in ("192.0.2.2", "2001:db8:0:1::1", "fe80::1%eth0", ""):
        assert guess(other, "right") == 201


def test_the_page_is_for_its_own_origin_only(tmp_path: Path) -> None:
    """NiceGUI's socket.io takes each origin."""
    engine = Engine(tmp_path / "home")
    passed: list[str] = []

    async def made(scope: Any, receive: Any, send: Any) -> None:
        passed.append(scope["path"])
        await PlainTextResponse("page")(scope, receive, send)

    both = WithPage(create_app(engine, tokens.Tokens("a")), engine, tokens.Tokens("a"))
    both._page = made
    with TestClient(both, base_url="https://lab") as client:
        answer = client.get("/", headers={"Origin": "https://lab"})
        assert answer.status_code == 200
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-frame-options"] == "DENY"
        path = "/_nicegui_ws/socket.io/?transport=polling"
        assert client.post(path, headers={"Origin": "https://evil"}).status_code == 403
        with pytest.raises(WebSocketDisconnect):
            client.websocket_connect(path, headers={"Origin": "https://evil"}).__enter__()
    assert passed == ["/"]


def test_an_api_client_does_not_load_the_page_and_a_browser_does(tmp_path: Path) -> None:
    program = """
import sys, pathlib
from starlette.testclient import TestClient
from lab.nbi.engine import Engine
from lab.page.mount import WithPage
from lab.api.app import create_app
from lab.api.tokens import Tokens

engine, tokens = Engine(pathlib.Path(sys.argv[1])), Tokens("admin")
with TestClient(WithPage(create_app(engine, tokens), engine, tokens)) as client:
    assert client.get("/osm/version").status_code == 200
    assert client.get("/osm").status_code == 405
    assert "nicegui" not in sys.modules
    assert "osm-vpnaas lab" in client.get("/login").text
    assert "nicegui" in sys.modules
    assert client.get("/osm/version").status_code == 200
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, timeout=120)


def test_a_file_of_parameters_for_others_is_named_as_such(api: Api, dist: Path) -> None:
    body = instantiation(dist, api.onboard(dist), VIM)
    place = "/nslcm/v1/ns_instances_content"
    for entry in body["additionalParamsForVnf"]:
        entry["member-vnf-index"] = {"server": "hss", "client": "mme"}[entry["member-vnf-index"]]
    del body["vld"]
    detail = api.post(place, body).json()["detail"]
    hint = "this file is for members hss, mme, and vpn_basic_ns has client, server"
    assert detail.endswith(hint), detail
    del body["additionalParamsForVnf"]
    detail = api.post(place, body).json()["detail"]
    hint = "; give a file of parameters, such as one of dist/params for this package"
    assert detail.endswith(hint), detail
