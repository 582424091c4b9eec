"""Configuration files as the charms render them, and what is wrong with others."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest
from oai.enb import rfsim_options
from support import functions

from simulators.epc import nas
from simulators.errors import EpcError
from simulators.programs import config_file, configs_4g, configs_5g
from simulators.shared.identity import Gummei, Plmn, Tai

REALM = "epc.mnc088.mcc242.3gppnetwork.org"
PLMN = Plmn("242", "88")


@pytest.fixture
def rendered(tmp_path: Path) -> Path:
    """The files that the charms write, with paths in containers replaced by those here."""
    for kind in functions.GIVEN:
        for path, text in functions.rendered(kind).items():
            if not path.startswith("/etc/osm-vpnaas/nf/"):
                continue
            for prefix in ("/openair-hss/etc", "/magma-mme/etc"):
                text = text.replace(prefix, str(tmp_path))
            (tmp_path / Path(path).name).write_text(text, encoding="utf-8")
    return tmp_path


def test_what_the_charms_render_is_understood(rendered: Path) -> None:
    hss = configs_4g.hss(rendered / "hss_rel14.json")
    assert (hss.node.identity, hss.node.realm, hss.node.port) == (f"hss.{REALM}", REALM, 3868)
    assert (hss.cassandra, hss.roaming, hss.accept) == ("127.0.0.1", True, (f".{REALM}",))

    mme = configs_4g.mme_config(rendered / "mme.conf")
    assert mme.s6a.host == f"mme.{REALM}"
    assert (mme.hss_host, mme.hss_port) == (f"hss.{REALM}", 3868)
    assert mme.hss_address == hss.node.address
    assert mme.gummeis == (Gummei(PLMN, 32768, 3),)
    assert mme.tais == {Tai(PLMN, 600)}
    assert mme.ciphering == nas.EEA0

    spgwc = configs_4g.spgwc_config(rendered / "spgw_c.json")
    assert spgwc.s11 == mme.sgw
    assert [(p.apn, p.first, p.last) for p in spgwc.pdns] == [
        ("internet", "10.250.0.2", "10.250.255.254")
    ]
    assert (spgwc.dns, spgwc.mtu) == (("192.0.2.53", "198.51.100.53"), 1354)

    spgwu = configs_4g.spgwu_config(rendered / "spgw_u.conf")
    assert spgwu.node in spgwc.ups
    assert spgwu.cps == (spgwc.sx,)
    assert (spgwu.pools, spgwu.sgi) == (("10.250.0.0/16",), "")

    enb = configs_4g.enb_config(rendered / "enb.conf")
    assert (enb.number, enb.plmns, enb.tac) == (0xE01, (PLMN,), 600)
    assert enb.core == mme.s1

    ue = configs_4g.ue_config(rendered / "ue_usim.conf", "192.168.77.10")
    assert (ue.usims[0].imsi, ue.hplmns) == ("242881234500000", (PLMN,))
    assert ue.usims[0].opc.hex() == "9245cd6283cc53ce24ac1186a60dee6b"


@pytest.mark.parametrize(
    ("name", "old", "new", "reason"),
    [
        ("mme.conf", "GUMMEI_LIST", "GUMMEIS", r"MME\.GUMMEI_LIST: missing"),
        ("mme.conf", "172.16.1.104", "sgw", r"'sgw' is not an IPv4 address"),
        ("mme.conf", 'HSS_HOSTNAME = "hss', 'HSS_HOSTNAME = "other', "not the ConnectPeer"),
        ("mme.conf", "};\n", "}\n}", "mme.conf"),
        ("mme_fd.conf", "ListenOn", "Listen", "ListenOn is missing"),
    ],
)
def test_what_is_wrong_is_a_sentence(
    rendered: Path, name: str, old: str, new: str, reason: str
) -> None:
    file = rendered / name
    file.write_text(file.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    with pytest.raises(EpcError, match=reason):
        configs_4g.mme_config(rendered / "mme.conf")


def test_keys_and_addresses_of_the_ue(rendered: Path) -> None:
    with pytest.raises(EpcError, match="server '' is not an IPv4 address"):
        config_file.radio_address([], {})
    file = rendered / "ue_usim.conf"
    file.write_text(file.read_text(encoding="utf-8").replace("449c4b91", "449c"), encoding="utf-8")
    with pytest.raises(EpcError, match=r"UE0\.SIM\.USIM_API_K: not 32 hexadecimal digits"):
        configs_4g.ue_config(file, "127.0.0.1")
    with pytest.raises(EpcError, match="No such file"):
        configs_4g.enb_config(rendered / "nothing.conf")


@pytest.mark.parametrize(
    ("line", "home"),
    [("", PLMN), ("nmc_size = 2;", PLMN), ("nmc_size = 3;", Plmn("242", "881"))],
)
def test_the_home_network_of_a_5g_ue(rendered: Path, line: str, home: Plmn) -> None:
    file = rendered / "nr-ue.conf"
    text = re.sub(r"nmc_size = \d;", "", file.read_text(encoding="utf-8"))
    file.write_text(text.replace("uicc0 :\n{", "uicc0 :\n{" + line), encoding="utf-8")
    assert configs_5g.ue_config(file, "192.168.77.10").plmns == (home,)


OPTION, FIRST = "--rfsimulator.serveraddr", "--rfsimulator.[0].serveraddr"


@pytest.mark.parametrize(
    "version",
    ["2022.w46", "2023.w21", "2023.w30", "2024.w52", "2025.w10", "develop", "sha256:" + "0" * 64],
)
def test_an_image_of_any_age_finds_the_radio_it_is_told(version: str) -> None:
    words = ["-O", "enb.conf", "--rfsim", *rfsim_options(version, "192.0.2.1")]
    variable = {"RFSIMULATOR": "192.0.2.1", "SIMULATORS_TAG": version.partition("sha256:")[0]}
    assert config_file.radio_server(words, variable) == "192.0.2.1"


@pytest.mark.parametrize(
    ("tag", "words"), [("2022.w46", [FIRST]), ("2024.w10", [FIRST]), ("develop", [OPTION])]
)
def test_an_option_of_another_age_ends_an_image(tag: str, words: list[str]) -> None:
    with pytest.raises(EpcError, match="unknown option: --rfsimulator"):
        config_file.radio_server([*words, "192.0.2.1"], {"SIMULATORS_TAG": tag})
    # Newer ones do not look at the variable.
    newer = {"SIMULATORS_TAG": "2024.w10", "RFSIMULATOR": "192.0.2.1"}
    assert config_file.radio_server([], newer) == ""


def test_what_readiness_is_known_by_is_logged_at_any_level(rendered: Path) -> None:
    file = rendered / "enb.conf"
    text = file.read_text(encoding="utf-8").replace('global_log_level = "info";', "")
    file.write_text(text.replace("log_config :\n{", 'log_config :\n{ global_log_level = "error";'))
    assert configs_4g.enb_levels(file) == {"enb": logging.ERROR, "ENB_APP": logging.INFO}
    levels = configs_4g.mme_levels(rendered / "mme.conf")
    assert (levels["MME_APP"], levels["SERVICE303"]) == (logging.DEBUG, logging.DEBUG)
    assert configs_4g.spgwu_levels(rendered / "spgw_u.conf") == {"": logging.INFO}
