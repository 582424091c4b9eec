"""Every file of every network function: as written down, readable by others, and consistent."""

from __future__ import annotations

import configparser
import io
import json
import os
import re
from pathlib import Path

import attr
import libconf
import pytest
from oai import addresses, diameter, images, model, plan, provision, spgwc, units
from oai.kinds import FUNCTIONS
from oai.params import opc
from support.functions import (
    ADDRESSES,
    DATABASE,
    GIVEN,
    OP,
    OWN,
    REALM,
    SECRETS,
    K,
    columns,
    ends,
    function_state,
    params,
    rendered,
)

GOLDEN = Path(__file__).with_name("golden")
KINDS = tuple(GIVEN)
BASE = "/etc/osm-vpnaas/nf/"


WHOLE = "hss"
"""The function whose units, log rotation and digests are written down whole."""
TEMPLATES = Path(model.__file__).with_name("templates")
_UNIT = (TEMPLATES / "container.service").read_text(encoding="utf-8")
FIXED = [line for line in _UNIT.splitlines() if "$" not in line]


def shown(kind: str, path: str, body: str) -> str:
    """Return what a golden file has of a file: lines that its template does not have."""
    template = TEMPLATES / Path(path).name
    fixed = template.read_text().splitlines() if template.exists() else []
    if kind != WHOLE and path.endswith(".service"):
        fixed = FIXED
    body = "".join(f"{line}\n" for line in body.splitlines() if line not in fixed)
    return f"==> {path}\n{body}"


@pytest.mark.parametrize("kind", KINDS)
def test_no_unit_needs_a_program_of_ours_to_be_executable(kind: str) -> None:
    """Its folder is in /usr/local, which somebody may mount noexec."""
    for body in rendered(kind).values():
        assert not re.search(r"^Exec\w+=-?/usr/local", body, re.M)


@pytest.mark.parametrize("kind", KINDS)
def test_files_are_as_written_down(kind: str) -> None:
    """One file per network function; VPNAAS_GOLDEN=write writes it anew, to be read in the diff."""
    left_out = re.compile(
        "/usr/local/" if kind == WHOLE else r"/usr/local/|/etc/logrotate|.*digest$"
    )
    text = "".join(
        shown(kind, path, body)
        for path, body in sorted(rendered(kind).items())
        if not left_out.match(path)
    )
    file = GOLDEN / f"{kind}.txt"
    if os.environ.get("VPNAAS_GOLDEN") == "write":
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


def read(kind: str, name: str) -> dict[str, object]:
    text = rendered(kind)[BASE + name]
    return dict(json.loads(text) if name.endswith(".json") else libconf.loads(text))


def test_libconfig_files_can_be_read_and_say_what_was_asked() -> None:
    mme = read("mme", "mme.conf")["MME"]
    assert mme["GUMMEI_LIST"][0] == {
        "MCC": "242",
        "MNC": "88",
        "MME_GID": "32768",
        "MME_CODE": "3",
    }
    assert mme["TAI_LIST"][0]["TAC"] == "600"
    assert mme["S-GW"]["SGW_IPV4_ADDRESS_FOR_S11"] == "172.16.1.104"
    assert mme["NETWORK_INTERFACES"]["MME_IPV4_ADDRESS_FOR_S1_MME"] == "192.168.247.102/24"
    user_plane = read("spgwu", "spgw_u.conf")["SPGW-U"]
    assert user_plane["SPGW-C_LIST"][0]["IPV4_ADDRESS"] == "172.30.55.101"
    assert user_plane["PDN_NETWORK_LIST"][0]["NETWORK_IPV4"] == "10.250.0.0/16"
    station = read("enb", "enb.conf")["eNBs"][0]
    assert (station["eNB_ID"], station["tracking_area_code"]) == (0xE01, 600)
    assert station["plmn_list"][0] == {"mcc": 242, "mnc": 88, "mnc_length": 2}
    assert station["component_carriers"][0]["downlink_frequency"] == 2680000000
    assert station["mme_ip_address"][0]["ipv4"] == "192.168.247.102"
    usim = read("ue", "ue_usim.conf")["UE0"]
    assert usim["SIM"] == {
        "MSIN": "1234500000",
        "USIM_API_K": K,
        "OPC": opc(K, OP),
        "MSISDN": "24288880000000",
    }


def test_a_value_cannot_end_the_text_of_a_file_that_it_stands_in() -> None:
    asked = attr.evolve(params("mme"), realm='a"; EVIL = "b')
    with pytest.raises(ValueError, match="not fit for a configuration file"):
        rendered("mme", params=asked)


def test_the_user_plane_has_the_name_the_control_plane_looks_for() -> None:
    nodes = read("spgwc", "spgw_c.json")["cups"]["up_nodes_selection"]
    assert [node["id"] for node in nodes] == [read("spgwu", "spgw_u.conf")["SPGW-U"]["FQDN"]]
    assert nodes[0]["id"] == f"gw1.spgw.node.epc.mnc088.mcc242.{REALM}"


@pytest.mark.parametrize(("mnc", "digits"), [("88", 2), ("088", 3)])
def test_two_and_three_digits_of_mnc_are_two_networks(mnc: str, digits: int) -> None:
    changes = {"mnc": mnc}
    asked = params("enb", **changes)
    text = rendered("enb", params=asked)[BASE + "enb.conf"]
    plmn = libconf.loads(text)["eNBs"][0]["plmn_list"][0]
    assert (plmn["mnc"], plmn["mnc_length"]) == (88, digits)
    assert params("mme", **changes).plmn.mnc3 == "088"
    assert str(asked.plmn) == "242" + mnc


def test_no_template_mark_is_left_and_all_addresses_are_inner_ones() -> None:
    known = {address.split("/")[0] for address in ADDRESSES.values()}
    known |= {"192.0.2.53", "198.51.100.53", "192.168.77.10", OWN, "10.45.0.0", "10.45.0.1"}
    for kind in KINDS:
        for path, text in rendered(kind).items():
            if not path.startswith(BASE):
                continue
            assert path.endswith(".sh") or "$" not in text, path
            found = set(re.findall(r"\b\d+\.\d+\.\d+\.\d+\b", text)) - known
            assert {a for a in found if not a.startswith(("127.", "10.250.", "10.46."))} <= {
                "0.0.0.0"
            }, path


def test_freediameter_ends_fit_each_other() -> None:
    server = rendered("hss")[BASE + "hss_rel14_fd.conf"]
    client = rendered("mme")[BASE + "mme_fd.conf"]
    assert f'Identity = "hss.{REALM}";' in server
    assert f'ConnectPeer = "hss.{REALM}" {{ ConnectTo = "172.16.6.129";' in client
    assert f"port = {diameter.PORT};" in client
    assert f"Port = {diameter.PORT};" in server
    assert f'Realm = "{REALM}";' in client
    assert 'ListenOn = "172.16.6.129";' in server
    assert 'ListenOn = "172.16.6.2";' in client


def test_opc_is_that_of_the_specification() -> None:
    """TS 35.208 test set 1, and the pair this project's examples use."""
    assert opc("465b5ce8b199b49faa5f0a2ee238a6bc", "cdc202d5123e20f62b6d676ac72cb318") == (
        "cd63cb71954a9f4e48a5994e37a02baf"
    )
    assert opc(K, OP) == "9245cd6283cc53ce24ac1186a60dee6b"


@pytest.mark.parametrize("kind", KINDS)
def test_units_run_what_is_documented(kind: str) -> None:
    files = rendered(kind)
    for name in FUNCTIONS[kind].names:
        parser = configparser.ConfigParser(strict=False, interpolation=None, delimiters=("=",))
        parser.optionxform = str  # type: ignore[assignment]
        parser.read_file(io.StringIO(files[units.UNIT_FILE.format(name)]))
        words = parser["Service"]["ExecStart"].split()
        begin = f"/usr/bin/podman run --rm --name osm-vpnaas-{name} --network host"
        assert words[:7] == begin.split()
        assert images.Registry().reference(name) in words
        assert words[words.index("--env-file") + 1] in files
        for mount in (words[i + 1] for i, word in enumerate(words) if word == "--volume"):
            source, _, rest = mount.partition(":")
            assert (rest.endswith(":ro")) == source.startswith("/etc/")
            if source.startswith(BASE) and not source.startswith(BASE + "tls"):
                assert source in files, mount
        assert K not in files[units.UNIT_FILE.format(name)]
        assert OP not in files[units.UNIT_FILE.format(name)]


def test_only_files_that_need_them_hold_keys() -> None:
    holders = {
        path
        for kind in KINDS
        for path, text in rendered(kind).items()
        if any(secret in text for secret in (K, OP, opc(K, OP)))
    }
    names = ("hss_rel14.json", "provision.json", "ue_usim.conf", "udr-provision.json", "nr-ue.conf")
    names += ("n3ue.yaml",)
    assert holders == {BASE + name for name in names}
    files = rendered("amf").items()
    assert {path for path, text in files if DATABASE in text} == {
        BASE + "udr.yaml",
        BASE + "mysql.env",
    }


def test_a_pool_leaves_the_gateway_its_address() -> None:
    assert spgwc.pool_range("10.250.0.0/29") == "10.250.0.2 - 10.250.0.6"
    text = spgwc.configuration(params("spgwc", **{"second-apn": "ims"}), ends("spgwc"))
    pools = [pdn["dyn_ue_ipv4_range"] for pdn in json.loads(text)["pdns"]]
    assert pools == ["10.250.0.2 - 10.250.127.254", "10.250.128.2 - 10.250.255.254"]


@pytest.mark.parametrize("kind", ["spgwu", "upf"])
def test_a_user_plane_is_ready_with_the_device_that_its_image_makes(kind: str) -> None:
    """SPGW-U v1.5.1 and UPF v2.2.1 make tun0; older SPGW-Us made pdn."""
    checks = plan.build(function_state(kind), SECRETS, OWN).checks
    assert [check.unit for check in checks if check.kind == "interface"] == ["tun0"]


@pytest.mark.parametrize("kind", ["spgwu", "upf"])
def test_a_foreign_user_plane_has_a_device_of_another_name(kind: str) -> None:
    """Open5GS's UPF makes ogstun."""
    given = params(kind, **{"tun-device": "ogstun"})
    software = plan.build(attr.evolve(function_state(kind), params=given), SECRETS, OWN)
    (missing,) = [check for check in software.checks if check.kind == "interface"]
    assert missing.unit == "ogstun"
    assert missing.reason.startswith("no interface ogstun for ")
    assert "tun-device of configure-nf is the one that the image makes" in missing.reason
    assert 'iifname "ogstun" oifname { "ogstun", "ens6" } accept' in software.rules
    assert "tun0" not in software.rules
    assert addresses.beside(kind, given).devices == ("ogstun",)


# -- rows of the HSS -----------------------------------------------------------------------------

COMMON = {
    "key": K,
    "opc": opc(K, OP),
    "mmes": [f"mme.{REALM}", f"mme2.{REALM}"],
    "mme_id": 3,
    "realm": REALM,
    "apns": ["internet"],
}


def test_rows_have_the_columns_of_the_tables() -> None:
    tables = columns(provision.schema())
    document = {
        "first_imsi": "001010000000001",
        "first_msisdn": "4900000001",
        "subscribers": 3,
        "subscription": COMMON,
    }
    lines = list(provision.statements(document))
    assert all(line.endswith(";") and "\n" not in line for line in lines)
    inserts = [re.match(r"INSERT INTO vhss\.(\w+) \(([^)]*)\) VALUES \(", line) for line in lines]
    rows = [found for found in inserts if found]
    assert len(rows) == 2 * 2 + 3 * 3
    assert sum(f"'mme2.{REALM}'" in line for line in lines) == 2, "a row for each MME"
    for row in rows:
        assert set(row[2].split(", ")) <= tables[row[1]]
    assert "'001010000000003'" in lines[-2]
    assert "4900000003" in lines[-2]
    data = provision.subscription_data("4900000003", ["internet"])
    # Also one that is there gets keys, MSISDN and access points.
    assert lines[-1] == (
        "INSERT INTO vhss.users_imsi (imsi, key, msisdn, opc, subscription_data) VALUES "
        f"('001010000000003', '{COMMON['key']}', 4900000003, '{COMMON['opc']}', '{data}');"
    )


def test_a_text_in_a_statement_cannot_end_it() -> None:
    assert provision.literal("o'; DROP TABLE x; --") == "'o''; DROP TABLE x; --'"
    line = provision.insert("users_imsi", {"imsi": "a'b"}, once=True)
    assert line == "INSERT INTO vhss.users_imsi (imsi) VALUES ('a''b') IF NOT EXISTS;"


def test_subscription_data_is_json_with_each_apn() -> None:
    text = provision.subscription_data("4900000001", ["internet", "ims"])
    profiles: list[object] = []

    def keep(pairs: list[tuple[str, object]]) -> dict[str, object]:
        profiles.extend(value for name, value in pairs if name == "APN-Configuration")
        return dict(pairs)

    json.loads(text, object_pairs_hook=keep)
    assert [p["Service-Selection"] for p in profiles] == ["internet", "ims"]  # type: ignore[index]


def test_a_started_container_is_noted_where_the_plan_looks() -> None:
    script = rendered("ue")[units.PREPARE_PROGRAM]
    assert f"run={units.RUN}\n" in script
    assert BASE in script
