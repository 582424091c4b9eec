"""Base stations that know nothing but a 3GPP profile connect to a gateway with `proposal: 3gpp`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.waiting import wait_until
from vici.exception import CommandException
from vpnaas.params.ipsec import Proposal

from testbed.charon import GATEWAY_ID
from testbed.site import CORE_PREFIX, GATEWAY, Site

PROPOSAL = Proposal.parse("proposal", "3gpp")
CELLS = [
    ("aes256gcm16-prfsha384-ecp384", "aes256gcm16-ecp384-noesn"),
    ("aes128gcm16-prfsha256-ecp256", "aes128gcm16-ecp256-noesn"),
    ("aes128-sha256-prfsha256-modp2048", "aes128-sha256-modp2048-noesn"),
    ("aes256-sha384-prfsha384-ecp384", "aes256-sha384-ecp384-noesn"),
    # In force until TS 33.210 of Release 12; the gateway must not take them.
    ("aes128-sha1-prfsha1-modp2048", "aes128-sha1-noesn"),
    ("aes128-sha256-prfsha256-modp1024", "aes128-sha256-noesn"),
    ("aes128-sha256-prfsha256-modp2048", "3des-sha1-noesn"),
]
GOOD = 4

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    accepted = (PROPOSAL.ike(), PROPOSAL.esp("no"))
    site = Site(tmp_path_factory.mktemp("site"), len(CELLS), 1, accepted=accepted, offered=CELLS)
    try:
        site.set_up()
        site.call()
        wait_until(
            lambda: len(tunnels(site)) >= GOOD and refusals(site) >= len(CELLS) - GOOD,
            lambda: f"all are answered: {tunnels(site)}",
        )
        yield site
    finally:
        site.take_down()


def tunnels(site: Site) -> dict[str, tuple[str, str]]:
    """Return the integrity or cipher and the group of each tunnel, by the peer's identity."""
    return {
        sa["remote-id"].decode(): (
            (sa["encr-alg"] + b"-" + sa["encr-keysize"]).decode(),
            sa["dh-group"].decode(),
        )
        for _, sa in site.gateway.sas()
        if sa["state"] == b"ESTABLISHED" and sa["child-sas"]
    }


def refusals(site: Site) -> int:
    """Return how often the gateway answered NO_PROPOSAL_CHOSEN (RFC 7296 clause 3.10.1)."""
    return site.gateway.log.read_text().count("N(NO_PROP)")


def test_each_cell_gets_what_it_offers_and_packets_pass(site: Site) -> None:
    assert tunnels(site) == {
        "enb0.secgw.example": ("AES_GCM_16-256", "ECP_384"),
        "enb1.secgw.example": ("AES_GCM_16-128", "ECP_256"),
        "enb2.secgw.example": ("AES_CBC-128", "MODP_2048"),
        "enb3.secgw.example": ("AES_CBC-256", "ECP_384"),
    }
    assert sum(site.carries()) == GOOD


def test_a_cell_that_speaks_ikev1_only_is_refused(site: Site) -> None:
    (field,), peer = site.fields, site.peers[0]
    old = {
        "version": "1",
        "local_addrs": [peer["outer"]],
        "remote_addrs": [GATEWAY],
        "proposals": ["aes128-sha256-modp2048"],
        "keyingtries": "1",
        "local": {"auth": "pubkey", "id": peer["id"], "certs": [peer["certificate"]]},
        "remote": {"auth": "pubkey", "id": GATEWAY_ID},
        "children": {"s1": {"remote_ts": [CORE_PREFIX]}},
    }
    field.vici.load_conn({"old": old})
    try:
        said = []
        request = {"child": "s1", "ike": "old", "timeout": "20000"}
        with pytest.raises(CommandException, match="failed"):
            said.extend(line["msg"] for line in field.connect().initiate(request))
        if "IKE version 1 not supported" in field.log.read_text(errors="replace"):
            pytest.skip("this machine's charon is built without IKEv1")
        assert b"NO_PROPOSAL_CHOSEN" in b"".join(said)
        assert {sa["version"] for _, sa in site.gateway.sas()} == {b"2"}
    finally:
        field.vici.unload_conn({"name": "old"})


def test_cells_with_weak_algorithms_only_are_refused(site: Site) -> None:
    for number in range(GOOD, len(CELLS)):
        assert f"enb{number}.secgw.example" not in tunnels(site)
