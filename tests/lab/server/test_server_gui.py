"""What OSM's web interface (NG-UI) sends, and the fields that it reads of the answers.

Seen with NG-UI of release 14, in a browser, against a lab with services.
"""

import gzip
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml
from support.nbi_server import BASIC, PASSWORD, VIM, Api, instantiation

from lab.records.store import NSRS

#: A browser's own, with every request that has a body.
JSON = {"Content-Type": "application/json; charset=UTF-8"}
#: With those that have none.
NO_BODY = {"Content-Type": "charset=UTF-8", "Cache-Control": "no-cache", "Pragma": "no-cache"}


class Gui:
    """NG-UI's way to ask."""

    def __init__(self, api: Api) -> None:
        self.api = api

    def get(self, path: str, **headers: str) -> requests.Response:
        return self.api.get(path, **{**NO_BODY, **headers})

    def json(self, path: str) -> Any:
        answer = self.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: Mapping[str, Any]) -> requests.Response:
        return self.api.post(path, body, **JSON)

    def delete(self, path: str) -> int:
        return self.api.delete(path).status_code


@pytest.fixture
def gui(api: Api) -> Gui:
    return Gui(api)


@pytest.fixture
def service(gui: Gui, dist: Path) -> str:
    """A service, instantiated by the form of the GUI."""
    body = instantiation(dist, gui.api.onboard(dist), VIM)
    answer = gui.post("/nslcm/v1/ns_instances_content", body)
    assert answer.status_code == 201, answer.text
    key = str(answer.json()["id"])
    with gui.api.engine.store.edit(NSRS, key) as nsr:
        nsr["_admin"].update(nsState="INSTANTIATED")
    return key


def has(record: Mapping[str, Any], *paths: str) -> None:
    """Check that a record has a value at each path, `a.b`; with `?` at the end it may be null."""
    for path in paths:
        value: Any = record
        for part in path.rstrip("?").split("."):
            assert part in value, f"{path}: {sorted(value)}"
            value = value[part]
        assert path.endswith("?") or value is not None, path


def test_login(gui: Gui) -> None:
    # No project, and no header Authorization: the interceptor leaves these out.
    del gui.api.headers["Authorization"]
    answer = gui.post("/admin/v1/tokens", {"username": "admin", "password": PASSWORD})
    token = answer.json()
    has(token, "id", "expires", "username", "admin", "project_id", "project_name", "user_id")
    has(token, "user_show", "admin_show", "last_login?", "login_count?")
    assert not token["user_show"] and not token["admin_show"]
    # The GUI ends a token by its id alone.
    assert gui.delete(f"/admin/v1/tokens/{token['id']}") == 200
    assert gui.delete(f"/admin/v1/tokens/{token['id']}") == 404
    gui.api.headers["Authorization"] = f"Bearer {token['id']}"
    assert gui.get("/nslcm/v1/ns_instances").status_code == 401


def test_switch_to_the_project(gui: Gui) -> None:
    [project] = gui.json("/admin/v1/projects")
    has(project, "_id", "name", "_admin.created", "_admin.modified")
    body = {"username": "admin", "password": PASSWORD, "project_id": project["_id"]}
    assert gui.post("/admin/v1/tokens", body).json()["project_name"] == "admin"


def test_administration_pages(gui: Gui) -> None:
    [user] = gui.json("/admin/v1/users")
    has(user, "_id", "username", "projects", "project_role_mappings", "_admin.user_status")
    assert user["projects"] == ["admin"]
    for key in (user["_id"], user["username"]):
        assert gui.json(f"/admin/v1/users/{key}") == user
    [mapping] = user["project_role_mappings"]
    has(mapping, "project", "project_name", "role", "role_name")
    assert gui.json(f"/admin/v1/projects/{mapping['project']}")["name"] == "admin"
    [role] = gui.json("/admin/v1/roles")
    has(role, "_id", "name", "permissions", "_admin.created", "_admin.modified")
    assert gui.json(f"/admin/v1/roles/{role['_id']}") == role
    assert gui.json("/admin/v1/domains") == {
        "user_domain_name": None,
        "project_domain_name": None,
    }
    for table in ("wim_accounts", "sdns", "k8sclusters", "k8srepos", "osmrepos"):
        assert gui.json(f"/admin/v1/{table}") == []
    assert gui.json("/pdu/v1/pdu_descriptors") == []
    assert gui.json("/version")["version"].split("+")[0]


def test_vim_account(gui: Gui) -> None:
    body = {
        "name": "edge",
        "vim_type": "openstack",
        "vim_tenant_name": "osm",
        "description": None,
        "vim_url": "http://127.0.0.1:5000/v3",
        "schema_type": "",
        "vim_user": "osm",
        "vim_password": "secret",
        "config": {"location": "Porto,-8.6,41.1"},
    }
    made = gui.post("/admin/v1/vim_accounts", body)
    assert made.status_code == 202, made.text
    key = made.json()["id"]
    shown = gui.json(f"/admin/v1/vim_accounts/{key}")
    has(shown, "_id", "name", "vim_type", "vim_user", "vim_url", "vim_tenant_name")
    has(shown, "_admin.operationalState", "_admin.detailed-status", "schema_version")
    said = "The account type 'openstack' is taken as 'lab'"
    assert shown["_admin"]["detailed-status"].startswith(said)
    assert gui.json(f"/admin/v1/vim_accounts/{VIM}")["_admin"]["detailed-status"] == "Done"
    assert shown["config"]["location"] == "Porto,-8.6,41.1"
    assert "secret" not in gui.get(f"/admin/v1/vim_accounts/{key}").text
    assert gui.delete(f"/admin/v1/vim_accounts/{key}") == 202


def test_packages(gui: Gui, dist: Path) -> None:
    gui.api.onboard(dist)
    [vnfd] = gui.json("/vnfpkgm/v1/vnf_packages_content")
    has(vnfd, "_id", "id", "product-name", "version", "description", "_admin.type", "df", "vdu")
    assert gui.json(f"/vnfpkgm/v1/vnf_packages?id={vnfd['id']}") == [vnfd]
    [nsd] = gui.json("/nsd/v1/ns_descriptors_content")
    has(nsd, "_id", "id", "name", "version", "description", "df", "virtual-link-desc")
    for place, key, text, content in (
        ("/vnfpkgm/v1/vnf_packages", vnfd["_id"], "vnfd", "package_content"),
        ("/nsd/v1/ns_descriptors", nsd["_id"], "nsd", "nsd_content"),
    ):
        # The editor of descriptors; the list of the files; the download.
        shown = gui.get(f"{place}/{key}/{text}", Accept="text/plain")
        assert text in yaml.safe_load(shown.text)
        names = yaml.safe_load(gui.get(f"{place}/{key}/artifacts", Accept="text/plain").text)
        assert any(name.endswith(".yaml") for name in names)
        accept = "application/gzip, application/json"
        archive = gui.get(f"{place}/{key}/{content}", Accept=accept)
        assert gzip.decompress(archive.content)
        # What the editor of descriptors sends when something was changed.
        answer = gui.api.http.put(
            f"{gui.api.url}{place}/{key}/{content}",
            data=archive.content,
            headers={**gui.api.headers, "Content-Type": "application/gzip"},
        )
        assert answer.status_code == 204, answer.text
    refusal = gui.api.delete(f"/vnfpkgm/v1/vnf_packages_content/{vnfd['_id']}")
    assert refusal.status_code == refusal.json()["status"] == 409
    assert gui.delete(f"/nsd/v1/ns_descriptors_content/{nsd['_id']}") == 204
    assert gui.delete(f"/vnfpkgm/v1/vnf_packages_content/{vnfd['_id']}") == 204


def test_upload_by_the_headers_of_a_browser(gui: Gui, dist: Path) -> None:
    # It takes archives, but of a slice's template the YAML file.
    with tarfile.open(dist / "vpn_basic_nst.tar.gz") as archive:
        template = archive.extractfile("vpn_basic_nst/vpn_basic_nst.yaml")
        assert template is not None
        text = template.read()
    vnf, ns = ((dist / f"{name}.tar.gz").read_bytes() for name in BASIC[:2])
    for data, kind, place in (
        (vnf, "gzip", "/vnfpkgm/v1/vnf_packages_content"),
        (ns, "gzip", "/nsd/v1/ns_descriptors_content"),
        (text, "x-yaml", "/nst/v1/netslice_templates_content"),
    ):
        answer = gui.api.http.post(
            f"{gui.api.url}{place}",
            data=data,
            headers={**gui.api.headers, "Content-Type": f"application/{kind}"},
        )
        assert answer.status_code == 201, answer.text
    [nst] = gui.json("/nst/v1/netslice_templates_content")
    has(nst, "_id", "id", "name", "netslice-subnet", "SNSSAI-identifier")
    body = {"nsiName": "s", "nsiDescription": "d", "nstId": nst["_id"], "vimAccountId": VIM}
    config = yaml.safe_load((dist / "params" / "vpn_slice.yaml").read_text())
    made = gui.post("/nsilcm/v1/netslice_instances_content", {**body, **config})
    assert made.status_code == 201, made.text
    [nsi] = gui.json("/nsilcm/v1/netslice_instances_content")
    has(nsi, "id", "name", "nst-ref", "operational-status", "detailed-status?")
    [history] = gui.json(f"/nsilcm/v1/nsi_lcm_op_occs/?netsliceInstanceId={nsi['id']}")
    has(history, "id", "lcmOperationType", "operationState", "startTime", "statusEnteredTime")


@pytest.fixture
def template(gui: Gui, dist: Path) -> str:
    """The text of a template that the page NetSlice Template has taken."""
    gui.api.onboard(dist)
    with tarfile.open(dist / "vpn_basic_nst.tar.gz") as archive:
        file = archive.extractfile("vpn_basic_nst/vpn_basic_nst.yaml")
        assert file is not None
        text = file.read().decode()
    path = f"{gui.api.url}/nst/v1/netslice_templates_content"
    headers = {**gui.api.headers, "Content-Type": "application/x-yaml"}
    answer = gui.api.http.post(path, data=text, headers=headers)
    assert answer.status_code == 201, answer.text
    return text


def test_template_of_a_slice(gui: Gui, template: str) -> None:
    [nst] = gui.json("/nst/v1/netslice_templates_content")
    assert nst["_admin"]["usageState"] == "NOT_IN_USE"
    assert gui.json(f"/nst/v1/netslice_templates_content/{nst['_id']}") == nst
    place = f"/nst/v1/netslice_templates/{nst['_id']}"
    assert gui.get(f"{place}/nst", Accept="text/plain").text == template
    for old, new, status in (
        ("Server and client", "Server and a client", 204),
        ("nsd-ref: vpn_basic_ns", "nsd-ref: none_ns", 409),
    ):
        answer = gui.api.http.put(
            f"{gui.api.url}{place}/nst_content",
            data=template.replace(old, new),
            headers={**gui.api.headers, "Content-Type": "application/yaml"},
        )
        assert answer.status_code == status, answer.text
    assert "references a non existing nsd" in answer.json()["detail"]
    shown = gui.get(f"{place}/nst", Accept="text/plain").text
    assert shown == template.replace("Server and client", "Server and a client")
    assert gui.delete(f"/nst/v1/netslice_templates_content/{nst['_id']}") == 204


def slice_body(gui: Gui, dist: Path) -> dict[str, Any]:
    """What the form of NetSlice Instances sends: the file of parameters as it is."""
    [nst] = gui.json("/nst/v1/netslice_templates_content")
    body = {"nsiName": "s", "nsiDescription": "d", "nstId": nst["_id"], "vimAccountId": VIM}
    return {**body, **yaml.safe_load((dist / "params" / "vpn_slice.yaml").read_text())}


def test_slice_from_its_form_to_its_deletion(gui: Gui, template: str, dist: Path) -> None:
    place = "/nsilcm/v1/netslice_instances_content"
    body = slice_body(gui, dist)
    key = f"ssh-ed25519 {'A' * 68} me"
    # Its field for an SSH key is a text, which OSM refuses; its field Config may have a list.
    refusal = gui.post(place, {**body, "ssh_keys": key})
    assert (refusal.status_code, "is not of type 'array'" in refusal.text) == (422, True)
    made = gui.post(place, {**body, "ssh_keys": [key]})
    assert made.status_code == 201, made.text
    [row] = gui.json(place)
    assert row == gui.json(f"{place}/{row['id']}")
    states = ("name", "nst-ref", "operational-status", "config-status", "detailed-status")
    assert [row[s] for s in states] == ["s", "vpn_basic_nst", "init", "init", "scheduled"]
    [service] = gui.json("/nslcm/v1/ns_instances")
    assert service["name"] == "s.pair"
    [nst] = gui.json("/nst/v1/netslice_templates_content")
    assert nst["_admin"]["usageState"] == "IN_USE"
    refusal = gui.api.delete(f"/nst/v1/netslice_templates_content/{nst['_id']}")
    assert refusal.status_code == 409
    text = "there is at least one Netslice Instance using this descriptor"
    assert refusal.json()["detail"] == text
    assert gui.delete(f"{place}/{row['id']}") == 202
    assert gui.json(place)[0]["operational-status"] == "terminating"
    history = gui.json(f"/nsilcm/v1/nsi_lcm_op_occs/?netsliceInstanceId={row['id']}")
    assert [o["lcmOperationType"] for o in history] == ["instantiate", "terminate"]
    for operation in history:
        has(operation, "id", "operationState", "operationParams", "startTime", "statusEnteredTime")
        shown = gui.json(f"/nsilcm/v1/nsi_lcm_op_occs/{operation['id']}")
        assert shown["links"] == {
            "self": f"/osm/nsilcm/v1/nsi_lcm_op_occs/{operation['id']}",
            "netsliceInstanceId": f"/osm/nsilcm/v1/netslice_instances/{row['id']}",
        }


def test_delete_a_slice_by_force(gui: Gui, template: str, dist: Path) -> None:
    key = gui.post("/nsilcm/v1/netslice_instances_content", slice_body(gui, dist)).json()["id"]
    assert gui.delete(f"/nsilcm/v1/netslice_instances_content/{key}?FORCE=true") == 202


@pytest.mark.parametrize(
    ("key", "item", "status", "reason"),
    [
        ("vnf", {"vim_account": "lab"}, 422, "'{}vnf:0' 'Additional properties are not allowed"),
        ("vld", {"wim_account": False}, 422, "'{}vld:0' 'Additional properties are not allowed"),
        ("vld", {"vim-network-name": {"lab": "x"}}, 400, "Invalid vimAccountId='lab'"),
        ("vnf", {"vimAccountId": VIM}, 201, ""),
        ("vld", {"vim-network-name": {VIM: "x"}}, 201, ""),
    ],
)
def test_names_of_vim_accounts_are_not_translated(
    gui: Gui, template: str, dist: Path, key: str, item: dict[str, Any], status: int, reason: str
) -> None:
    # osmclient makes ids of them; the GUI sends its field Config as it is.
    base = {"vnf": {"member-vnf-index": "server"}, "vld": {"name": "mgmt"}}[key]
    [nsd] = gui.json("/nsd/v1/ns_descriptors_content")
    service = instantiation(dist, nsd["_id"], VIM)
    body = slice_body(gui, dist)
    for path, request, params, place in (
        ("/nslcm/v1/ns_instances_content", service, service, ""),
        (
            "/nsilcm/v1/netslice_instances_content",
            body,
            body["netslice-subnet"][0],
            "netslice-subnet:0:",
        ),
    ):
        params[key] = [{**base, **item}, *params.get(key, ())]
        answer = gui.post(path, request)
        assert answer.status_code == status, answer.text
        if reason:
            assert reason.format(place) in answer.json()["detail"]


def test_table_topology_and_primitives_of_services(gui: Gui, service: str) -> None:
    [row] = gui.json("/nslcm/v1/ns_instances")
    has(row, "id", "name", "nsd-name-ref", "operational-status", "config-status")
    has(row, "detailed-status?", "nsd.df", "nsd-id", "vnfd-id", "constituent-vnfr-ref", "_admin")
    whole = gui.json(f"/nslcm/v1/ns_instances_content/{service}")
    has(whole, "resource-orchestrator", "vld", "nsd.virtual-link-desc")
    for link in whole["vld"]:
        ends = {end["member-vnf-index-ref"] for end in link["vnfd-connection-point-ref"]}
        assert ends == {"server", "client"}, link
    members = whole["constituent-vnfr-ref"]
    assert len(members) == 2
    points = set()
    for key in members:
        vnfr = gui.json(f"/nslcm/v1/vnfrs/{key}")
        has(vnfr, "_id", "id", "vnfd-ref", "vnfd-id", "member-vnf-index-ref", "nsr-id-ref")
        has(vnfr, "vim-account-id", "created-time", "ip-address?", "connection-point", "vdur")
        for vdur in vnfr["vdur"]:
            has(vdur, "vdu-id-ref", "count-index")
        for point in vnfr["connection-point"]:
            points.add(f"{point['name']}:{vnfr['member-vnf-index-ref']}")
    # The lines of the picture: each connection point of the NSD is one of a VNF record.
    for df in whole["nsd"]["df"]:
        for profile in df["vnf-profile"]:
            for link in profile["virtual-link-connectivity"]:
                for end in link["constituent-cpd-id"]:
                    name = f"{end['constituent-cpd-id']}:{end['constituent-base-element-id']}"
                    assert name in points
    assert len(gui.json("/nslcm/v1/vnfrs")) == 2
    # The form of primitives finds them by the member's descriptor.
    vnfr = next(v for v in gui.json("/nslcm/v1/vnfrs") if v["nsr-id-ref"] == service)
    [vnfd] = gui.json(f"/vnfpkgm/v1/vnf_packages?id={vnfr['vnfd-ref']}")
    day12 = vnfd["df"][0]["lcm-operations-configuration"]["operate-vnf-op-config"]["day1-2"]
    [whole] = [entry for entry in day12 if entry["id"] == vnfd["id"]]
    names = {primitive["name"] for primitive in whole["config-primitive"]}
    assert "show-status" in names
    [nsd] = gui.json("/nsd/v1/ns_descriptors?id=vpn_basic_ns")
    assert "df" in nsd
    body = {"primitive": "show-status", "primitive_params": {}, "member_vnf_index": "server"}
    answer = gui.post(f"/nslcm/v1/ns_instances/{service}/action", body)
    assert answer.status_code == 202, answer.text
    # A slash at the end of the path, before the query string.
    history = gui.json(f"/nslcm/v1/ns_lcm_op_occs/?nsInstanceId={service}")
    assert [o["lcmOperationType"] for o in history] == ["instantiate", "action"]
    for operation in history:
        has(operation, "id", "operationState", "operationParams", "startTime")
        assert gui.json(f"/nslcm/v1/ns_lcm_op_occs/{operation['id']}")["id"] == operation["id"]
    assert gui.json(f"/nslcm/v1/ns_lcm_op_occs/?nsInstanceId={VIM}") == []


@pytest.mark.parametrize("kind", ["change", "stop"])
def test_operations_name_what_the_path_names(gui: Gui, service: str, kind: str) -> None:
    vnfr = gui.json("/nslcm/v1/vnfrs")[0]
    vnf, vdu = vnfr["_id"], vnfr["vdur"][0]["vdu-id-ref"]
    path, body = {
        "change": (
            "update",
            {
                "updateType": "CHANGE_VNFPKG",
                "changeVnfPackageData": {"vnfInstanceId": vnf, "vnfdId": vnfr["vnfd-id"]},
            },
        ),
        "stop": (
            "update",
            {
                "updateType": "OPERATE_VNF",
                "operateVnfData": {
                    "vnfInstanceId": vnf,
                    "changeStateTo": "stop",
                    "additionalParam": {"run-day1": False, "vdu_id": vdu, "count-index": 0},
                },
            },
        ),
    }[kind]
    named = {"lcmOperationType": "whatever", "nsInstanceId": VIM}
    answer = gui.post(f"/nslcm/v1/ns_instances/{service}/{path}", {**named, **body})
    assert answer.status_code == 202, answer.text
    operation = gui.json(f"/nslcm/v1/ns_lcm_op_occs/{answer.json()['id']}")
    assert operation["lcmOperationType"] == path
    assert operation["nsInstanceId"] == service
    params = operation["operationParams"]
    assert (params["lcmOperationType"], params["nsInstanceId"]) == (path, service)


def test_delete_by_force(gui: Gui, service: str) -> None:
    assert gui.delete(f"/nslcm/v1/ns_instances_content/{service}?FORCE=true") in (202, 204)
