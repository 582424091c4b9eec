"""What other SOL005 clients than osmclient send: contents, cancellation, accounts."""

import tarfile
from pathlib import Path

import pytest
import yaml
from support.nbi_server import VIM, Api, instantiation, nothing_made, refused

from lab.records.store import VIMS

SERVICES = "/nslcm/v1/ns_instances"
SLICES = "/nsilcm/v1/netslice_instances"
STEPS = (("POST", ""), ("DELETE", "/x"), ("POST", "/x/instantiate"), ("POST", "/x/terminate"))


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


@pytest.mark.parametrize(
    ("method", "path"),
    [
        *((verb, f"{kind}{end}") for kind in (SERVICES, SLICES) for verb, end in STEPS),
        ("POST", f"{SERVICES}/x/migrate"),
    ],
)
def test_what_osm_has_and_the_lab_has_not(api: Api, method: str, path: str) -> None:
    answer = api.http.request(method, api.url + path, json={}, headers=api.headers)
    refused(answer, 501, "NOT_IMPLEMENTED", f"Method {method} not supported yet for this URL")


def test_records_of_a_terminated_service_do_not_stay(api: Api, dist: Path) -> None:
    body = instantiation(dist, api.onboard(dist), VIM)
    key = api.post(f"{SERVICES}_content", body).json()["id"]
    answer = api.delete(f"{SERVICES}_content/{key}?autoremove=False")
    refused(answer, 501, "NOT_IMPLEMENTED", "always removes the records")
    assert api.get(f"{SERVICES}/{key}").status_code == 200


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
