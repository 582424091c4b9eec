"""After all other tests: no key of a VDU is anywhere but on that VDU.

Cast: server, client (`vpn_basic_ns`).

Seen:
- the scan finds a key where one is put;
- key files are for root only;
- no key is in the lab's state or in an answer.
"""

import json

import pytest
from e2e_support import Lab, Service, scan, secret_files

pytestmark = [pytest.mark.lab, pytest.mark.schedule(worker="basic")]


@pytest.fixture(
    params=[
        "basic",
        pytest.param("epc", marks=[pytest.mark.long, pytest.mark.schedule(worker="epc")]),
    ]
)
def service(request: pytest.FixtureRequest) -> Service:
    """A service that tests before these may have used."""
    found: Service = request.getfixturevalue(request.param)
    return found


def test_scan_finds_what_is_there(lab: Lab, basic: Service) -> None:
    """The control: the public key, which every relation carries, is found by the same means."""
    key = basic["server"].public_key("wg-vpn-server")
    assert any("/vca/models/" in file for file in scan(lab, {key: "public"}))


def test_key_files_are_for_root_only(service: Service) -> None:
    for vnf in service.vnfs.values():
        files = secret_files(vnf)
        if vnf.index == "ue":
            continue  # It has no links.
        assert any(path.endswith("/private.key") for path in files)
        for path in files:
            assert vnf.out("stat", "-c", "%a %U %G", path).split() == ["600", "root", "root"]
            folder = path.rpartition("/")[0]
            assert vnf.out("stat", "-c", "%a %U", folder).split() == ["700", "root"]


def test_no_key_is_in_the_state_of_the_lab(lab: Lab, service: Service) -> None:
    """Databags, options, logs, operation records, packages: all the lab wrote, since it began."""
    service.note_secrets()
    # All its ends and, with it, what rotations replaced.
    assert len(lab.secrets.texts) >= len(service.vnfs)
    assert scan(lab, lab.secrets.texts) == []


def test_no_key_is_in_an_answer(lab: Lab, service: Service) -> None:
    service.note_secrets()
    model = lab.backends.controller().model(service.id)
    answer = [json.dumps(model.show_unit(unit)) for unit in model.status().units]
    answer += [json.dumps(operation) for operation in lab.engine.operations(service.name)]
    text = "\n".join([*answer, json.dumps(service.record())])
    if service.name == "basic":
        assert service["server"].public_key("wg-vpn-server") in text
    singles = [secret for secret in lab.secrets.texts if "\n" not in secret]
    assert singles
    assert [lab.secrets.texts[secret] for secret in singles if secret in text] == []


def test_login_keys_of_the_charms_stay_with_them(lab: Lab, service: Service) -> None:
    """A unit's SSH key is a file of that unit, and in no databag, log or record."""
    model = lab.backends.controller().model(service.id)
    for unit in model.status().units:
        files = list(model.paths.charm(unit).glob(".osm-vpnaas/*/id_ed25519"))
        assert len(files) == 1
        assert files[0].stat().st_mode & 0o777 == 0o600
        # Between the lines all keys of a kind begin with and the rest at the end.
        own = files[0].read_text(encoding="ascii").splitlines()[2:-2]
        assert len(own) >= 2
        assert scan(lab, {"\n".join(own): unit}) == [str(files[0])]
