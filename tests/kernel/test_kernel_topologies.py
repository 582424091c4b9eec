"""Kernel ESP with packets: an inner address that is the outer one, certificates, MOBIKE, DF, CBC.

The kernel's policies carry the packets; strongSwan and `ip` read what the charm's core renders.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.ends import Guest, Link
from support.guest import GuestMachine
from vpnaas.tunnels.ipsec.names import USERSPACE
from vpnaas.tunnels.ipsec.observed import parse_sas
from vpnaas.vdu.steps import Results

pytestmark = [pytest.mark.lab, pytest.mark.schedule(order=2, worker="alone")]

GATEWAY, CELL, MOVED = "192.168.122.1", "192.168.122.11", "192.168.122.12"
AMF, MME, MME6 = "10.43.2.10", "10.43.1.10", "2001:db8:43::10"


def ping(address: str, *options: str) -> str:
    return " ".join(("ping -n -q -c 5 -i 0.1 -W 2", *options, address))


def answered(text: str) -> int:
    (count,) = re.findall(r"(\d+) received", text)
    return int(count)


PRIVATE = "10.44.0.2"
#: As Day-0 of a cell's router has it: `site_subnets` and `site_nat`.
TRANSLATE = (
    "sh -c \"echo 'table ip site { chain after { type nat hook postrouting priority srcnat; "
    f"ip saddr {PRIVATE}/30 snat to 10.60.0.1; }}; }}' | nft -f -\""
)


def pair(name: str, subnet: str, **options: str) -> Link:
    inner = {"left": f"{subnet}.1/24", "right": f"{subnet}.2/24"}
    return Link(name, inner, {key.replace("_", "-"): value for key, value in options.items()}, {})


OWN = [f"ip address add {each} dev lo" for each in (f"{AMF}/32", f"{MME}/32", f"{MME6}/128")]
"""What lies behind the gateway."""
OPTIONS = "esn=yes,replay-window=256,revocation=strict"
LINKS = (
    Link(
        "nr",
        {"left": "10.52.0.1/24", "right": f"{CELL}/32"},
        {"ipsec-options": "same-address=yes"},
        {
            "left": {"allowed-prefixes": "10.43.2.0/24", "accept-prefixes": f"{CELL}/32"},
            "right": {"accept-prefixes": "10.43.2.0/24,10.52.0.1/32"},
        },
    ),
    pair("s1u", "172.16.8", ipsec_options="mobike=yes", proposal="aes256-sha512-ecp384"),
    Link(
        "lte",
        {"left": "10.51.0.1/24"},
        {"ipsec-options": "pool=10.60.0.0/29+2001:db8:60::/120"},
        {"left": {"allowed-prefixes": "10.43.1.0/24,2001:db8:43::/64"}},
        foreign="field-cell",
    ),
    pair("s1c", "172.16.7", ipsec_options="copy-df=no", proposal="chacha20poly1305-curve25519"),
    pair("s11", "172.16.9", credentials="cert-external", ipsec_options=OPTIONS),
)


# The daemon tries the pairs of addresses that there are one after another, each for some seconds.
FOLLOWS = (
    "for each in $(seq 60); do"
    f" swanctl --list-sas | grep -q 'local .*@ {MOVED}' && break; sleep 1; done"
)

MOVES = [
    # The cell moves to another address, as behind another router of its network.
    # Linux would take the second address of a subnet away with the first.
    ("promote", "right", "sysctl -q -w net.ipv4.conf.right0.promote_secondaries=1", True),
    ("move", "right", f"ip address add {MOVED}/24 dev right0", True),
    # charon does not follow where the former address goes in the same moment.
    ("noticed", "right", "sleep 5", True),
    ("moved", "right", f"ip address del {CELL}/24 dev right0", True),
    ("follows", "right", FOLLOWS, False),
    ("s1u-moved", "right", "ping -n -q -c 100 -i 0.2 -W 1 172.16.8.1", False),
    ("sas-moved", "left", "swanctl --list-sas", True),
]
"""What the test of MOBIKE needs; it takes longer than all else."""


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory, guest_machine: GuestMachine) -> Guest:
    folder = tmp_path_factory.mktemp("ends")
    made = Guest(folder, {"left": GATEWAY, "right": CELL}, LINKS, guest_machine)
    made.prepare()
    revoked = made.certified["s11"].revocation_list("right")
    (made.folder / "revoked.pem").write_text(revoked)
    return made


def certificate_steps(guest: Guest, initiate: str) -> list[tuple[str, str, str, bool]]:
    """Open a tunnel with certificates, make its keys anew, then revoke the requirer's."""
    name = guest.connection("s11")
    listed = f"{guest.folder}/left/swanctl/x509crl/osm-vpnaas-s11.pem"
    return [
        ("cert-open", "right", initiate, True),
        ("cert-up", "right", ping("172.16.9.1"), False),
        ("cert-rekey-child", "right", "swanctl --rekey --child s11", True),
        ("cert-rekey-ike", "right", f"swanctl --rekey --ike {name}", True),
        ("cert-again", "left", ping("172.16.9.2"), False),
        ("cert-sas", "left", "swanctl --list-sas --raw", True),
        ("cert-states", "left", "ip -s xfrm state", True),
        ("cert-revoke", "left", f"cp {guest.folder}/revoked.pem {listed}", True),
        ("cert-list", "left", "swanctl --load-creds --noprompt", True),
        ("cert-flush", "left", "swanctl --flush-certs --type x509_crl", True),
        ("cert-close", "right", f"swanctl --terminate --ike {name}", True),
        ("cert-refused", "right", initiate, False),
        ("cert-down", "right", ping("172.16.9.1"), False),
    ]


@pytest.fixture(scope="module")
def shown(guest: Guest, request: pytest.FixtureRequest) -> dict[str, str]:
    def initiate(link: str) -> str:
        words = f"--ike {guest.connection(link)} --child {link} --timeout 60"
        return f"swanctl --initiate {words}"

    steps = [
        # Before there is a tunnel, nothing of what it protects leaves.
        ("nr-before", "left", ping(CELL, "-I", AMF), False),
        ("nr-open", "right", initiate("nr"), True),
        ("nr-up", "right", ping(AMF), False),
        ("nr-down", "left", ping(CELL, "-I", AMF), False),
        ("nr-rekey-ike", "right", f"swanctl --rekey --ike {guest.connection('nr')}", True),
        ("nr-rekey-child", "right", "swanctl --rekey --child nr", True),
        ("nr-again", "right", ping(AMF), False),
        ("nr-outer", "left", ping(CELL), False),
        ("nr-sas", "left", "swanctl --list-sas", True),
        ("rules", "left", "ip rule", True),
        ("nr-close", "right", f"swanctl --terminate --ike {guest.connection('nr')}", True),
        ("nr-closed", "right", ping(AMF), False),
        ("nr-closed-down", "left", ping(CELL, "-I", AMF), False),
        ("pool-open", "right", "swanctl --initiate --child field-cell --timeout 60", True),
        ("pool-up", "right", ping(MME), False),
        ("pool-up-6", "right", ping(MME6), False),
        ("pool-sas", "left", "swanctl --list-sas --raw", True),
        ("pool-leases", "left", "swanctl --list-pools --leases", True),
        ("pool-down", "left", ping("10.60.0.1", "-I", MME), False),
        ("pool-close", "right", "swanctl --terminate --ike field-cell", True),
        ("pool-closed", "left", ping("10.60.0.1", "-I", MME), False),
        ("pool-given-back", "left", "swanctl --list-pools --leases", True),
        ("s1u-open", "right", initiate("s1u"), True),
        ("s1u-df", "right", ping("172.16.8.1", "-M do -s 301"), False),
        ("s1u-no-df", "right", ping("172.16.8.1", "-M dont -s 401"), False),
        ("s1c-open", "right", initiate("s1c"), True),
        ("s1c-df", "right", ping("172.16.7.1", "-M do -s 501"), False),
        ("sas", "left", "swanctl --list-sas", True),
        *certificate_steps(guest, initiate("s11")),
    ]
    if any(item.name == test_mobike_follows_an_address.__name__ for item in request.session.items):
        steps += MOVES
    return guest.run({"left": OWN}, steps)


def test_an_inner_address_that_is_the_outer_one_loops_nothing(shown: dict[str, str]) -> None:
    assert (answered(shown["nr-up"]), answered(shown["nr-down"])) == (5, 5)
    assert "10.43.2.0/24" in shown["nr-sas"] and f"{CELL}/32" in shown["nr-sas"]
    assert shown["rules"].count("from 10.43.2.0/24 ") == 1
    # Keys of IKE and ESP are exchanged beside it, and the address itself is reached as ever.
    assert answered(shown["nr-again"]) == 5
    assert answered(shown["nr-outer"]) == 5


def test_without_its_tunnel_nothing_of_it_is_on_the_wire(
    guest: Guest, shown: dict[str, str]
) -> None:
    for when in ("nr-before", "nr-closed", "nr-closed-down"):
        assert answered(shown[when]) == 0, when
    # But for IKE itself: MOBIKE (RFC 4555) tries every address the peer has told, inner ones too.
    assert guest.count("not udp port 4500 and (net 10.0.0.0/8 or net 172.16.0.0/16)") == 0
    assert guest.count("ip proto 50") >= 50


def test_a_foreign_cell_is_given_its_inner_addresses(shown: dict[str, str]) -> None:
    results = Results({"ipsec/sas": {"code": 0, "out": shown["pool-sas"]}})
    (sa,) = parse_sas("lte", results)
    assert sa.given == ("10.60.0.1", "2001:db8:60::1")
    assert answered(shown["pool-up"]) == answered(shown["pool-down"]) == 5
    assert answered(shown["pool-up-6"]) == 5
    assert shown["pool-leases"].count("online") == 2
    assert shown["pool-given-back"].count("online") == 0
    assert answered(shown["pool-closed"]) == 0


def test_both_in_userspace(tmp_path: Path) -> None:
    """strongSwan's own ESP, with what it needs for an address that is the outer one."""
    made = Guest(tmp_path, {"left": GATEWAY, "right": CELL}, LINKS[:3:2], None, USERSPACE)
    made.prepare()
    name = made.connection("nr")
    result = made.run(
        {"left": OWN},
        [
            ("nr-open", "right", f"swanctl --initiate --ike {name} --child nr --timeout 60", True),
            ("nr-up", "right", ping(AMF), False),
            ("nr-down", "left", ping(CELL, "-I", AMF), False),
            ("nr-rekey", "right", "swanctl --rekey --child nr", True),
            ("nr-again", "right", ping(AMF), False),
            ("nr-close", "right", f"swanctl --terminate --ike {name}", True),
            ("nr-closed", "right", ping(AMF), False),
            ("nr-closed-down", "left", ping(CELL, "-I", AMF), False),
            ("pool-open", "right", "swanctl --initiate --child field-cell --timeout 60", True),
            ("pool-up", "right", ping(MME), False),
            ("pool-up-6", "right", ping(MME6), False),
            ("pool-down", "left", ping("10.60.0.1", "-I", MME), False),
            # A box behind the cell has a private address, which no selector has.
            ("private", "right", f"ip address add {PRIVATE}/32 dev lo", True),
            ("nat-without", "right", ping(MME, "-I", PRIVATE), False),
            ("translate", "right", TRANSLATE, True),
            ("nat-before-ipsec", "right", ping(MME, "-I", PRIVATE), False),
        ],
    )
    closed = {"nr-closed", "nr-closed-down", "nat-without"}
    pings = {
        label: answered(text) for label, text in result.items() if "packets transmitted" in text
    }
    assert pings == {label: 0 if label in closed else 5 for label in pings}
    assert len(pings) == 10
    assert made.count("not udp port 4500 and (net 10.0.0.0/8 or net 2001:db8::/32)") == 0
    assert made.count("udp port 4500") >= 50


def test_cbc_and_chacha_carry_packets(shown: dict[str, str]) -> None:
    assert answered(shown["s1u-df"]) == answered(shown["s1c-df"]) == 5
    assert "AES_CBC-256/HMAC_SHA2_512_256" in shown["sas"]
    assert "CHACHA20_POLY1305" in shown["sas"]


def test_certificates_open_a_tunnel_with_extended_sequence_numbers(
    guest: Guest, shown: dict[str, str]
) -> None:
    assert answered(shown["cert-up"]) == answered(shown["cert-again"]) == 5
    sas = parse_sas("s11", Results({"ipsec/sas": {"code": 0, "out": shown["cert-sas"]}}))
    (child,) = [child for sa in sas for child in sa.children if child.state == "INSTALLED"]
    assert (child.cipher, child.esn, child.encap) == ("AES_GCM_16-256", True, False)
    assert "replay_window 256," in shown["cert-states"]
    log = (guest.folder / "left/charon.log").read_text()
    assert 'received end entity cert "CN=s11-right"' in log
    assert "certificate status is good" in log


def test_who_is_revoked_opens_no_tunnel(guest: Guest, shown: dict[str, str]) -> None:
    log = (guest.folder / "left/charon.log").read_text()
    assert "certificate was revoked" in log, shown["cert-refused"]
    assert "AUTHENTICATION_FAILED" in shown["cert-refused"]
    assert answered(shown["cert-down"]) == 0


def test_df_is_copied_to_the_outer_header_where_it_is_to_be(
    guest: Guest, shown: dict[str, str]
) -> None:
    """Packets of each test have a length of their own by which they are found."""
    assert answered(shown["s1u-no-df"]) == 5
    df = "ip[6] & 0x40 != 0"
    lengths = {"s1u-df": (370, 430), "s1u-no-df": (470, 530), "s1c-df": (560, 620)}
    found = {
        name: (
            guest.count(f"ip proto 50 and src {CELL} and ip[2:2] >= {low} and ip[2:2] <= {high}"),
            guest.count(
                f"ip proto 50 and src {CELL} and ip[2:2] >= {low} and ip[2:2] <= {high} and {df}"
            ),
        )
        for name, (low, high) in lengths.items()
    }
    assert found == {"s1u-df": (5, 5), "s1u-no-df": (5, 0), "s1c-df": (5, 0)}


@pytest.mark.long
def test_mobike_follows_an_address(guest: Guest, shown: dict[str, str]) -> None:
    assert answered(shown["s1u-moved"]) >= 50, shown["sas-moved"]
    (s1u,) = [part for part in re.split(r"\n(?=\S)", shown["sas-moved"]) if part.startswith("s1u_")]
    assert f" @ {MOVED}[4500]" in s1u
    assert "ESTABLISHED" in s1u
    assert guest.count(f"ip proto 50 and src {MOVED}") >= 50


GIVEN = ("10.52.0.70", "10.52.0.71", "10.51.0.70", "2001:db8:60::70")


@pytest.mark.long
def test_a_related_cell_is_handed_two_addresses_that_stay(tmp_path: Path) -> None:
    """In userspace: two of IPv4 by one tunnel, and one of each IP version by another."""
    links = (
        Link(
            "nr",
            {"left": "10.52.0.1/24", "right": "pool:ipv4+ipv4"},
            {},
            {"left": {"ipsec-options": "pool=10.52.0.64/26", "allowed-prefixes": "10.43.2.0/24"}},
            given=[f"{GIVEN[0]}/24", f"{GIVEN[1]}/24"],
        ),
        Link(
            "lte",
            {"left": "10.51.0.1/24", "right": "pool:ipv4+ipv6"},
            {},
            {
                "left": {
                    "ipsec-options": "pool=10.51.0.64/26+2001:db8:60::/64",
                    "allowed-prefixes": "10.43.1.0/24,2001:db8:43::/64",
                }
            },
            given=[f"{GIVEN[2]}/24", f"{GIVEN[3]}/128"],
        ),
    )
    made = Guest(tmp_path, {"left": GATEWAY, "right": CELL}, links, None, USERSPACE)
    made.prepare()
    targets = dict(zip(GIVEN, (AMF, AMF, MME, MME6), strict=True))

    def both_ways(when: str) -> list[tuple[str, str, str, bool]]:
        asks = [(f"{when} {a}", "right", ping(b, "-I", a), False) for a, b in targets.items()]
        return asks + [
            (f"{when} to {a}", "left", ping(a, "-I", b), False) for a, b in targets.items()
        ]

    names = {link.name: made.connection(link.name) for link in links}
    opened = [
        (
            f"open {link}",
            "right",
            f"swanctl --initiate --ike {name} --child {link} --timeout 60",
            True,
        )
        for link, name in names.items()
    ]
    closed = [
        (f"close {link}", "right", f"swanctl --terminate --ike {name}", True)
        for link, name in names.items()
    ]
    result = made.run(
        {"left": OWN},
        [
            *opened,
            *both_ways("up"),
            ("cell", "right", "swanctl --list-sas --raw", True),
            ("gateway", "left", "swanctl --list-pools --leases", True),
            # strongSwan itself puts no address on the underlay.
            ("underlay", "right", "ip -o address show dev right0", True),
            ("ike", "right", f"swanctl --rekey --ike {names['nr']}", True),
            ("child", "left", "swanctl --rekey --child nr", True),
            *both_ways("rekeyed"),
            ("other", "right", "ip address add 10.52.0.72/32 dev xf-nr", True),
            ("stolen", "right", ping(AMF, "-I", "10.52.0.72"), False),
            *closed,
            *[(f"again {label}", end, command, check) for label, end, command, check in opened],
            *both_ways("again"),
            ("again gateway", "left", "swanctl --list-pools --leases", True),
        ],
    )
    pings = {
        label: answered(text) for label, text in result.items() if "packets transmitted" in text
    }
    assert pings == {label: 0 if label == "stolen" else 5 for label in pings}
    assert len(pings) == 25
    vips = " ".join(re.findall(r"local-vips=\[([^]]*)\]", result["cell"])).split()
    assert sorted(vips) == sorted(GIVEN)
    for leases in (result["gateway"], result["again gateway"]):
        assert sorted(re.findall(r"^ +(\S+) +online", leases, re.M)) == sorted(GIVEN)
    assert not [address for address in GIVEN if address in result["underlay"]]
    assert made.count("not udp port 4500 and (net 10.0.0.0/8 or net 2001:db8::/32)") == 0
