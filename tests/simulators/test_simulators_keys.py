"""Milenage and the EPS algorithms against the test data of 3GPP."""

from __future__ import annotations

import pytest

from simulators.errors import EpcError, ProtocolError
from simulators.shared import keys, milenage
from simulators.shared.identity import Plmn

H = bytes.fromhex

# 3GPP TS 35.208 section 4.3, test sets 1 to 3.
SETS = [
    {
        "k": "465b5ce8b199b49faa5f0a2ee238a6bc",
        "rand": "23553cbe9637a89d218ae64dae47bf35",
        "sqn": "ff9bb4d0b607",
        "amf": "b9b9",
        "op": "cdc202d5123e20f62b6d676ac72cb318",
        "opc": "cd63cb71954a9f4e48a5994e37a02baf",
        "f1": "4a9ffac354dfafb3",
        "f1s": "01cfaf9ec4e871e9",
        "f2": "a54211d5e3ba50bf",
        "f3": "b40ba9a3c58b2a05bbf0d987b21bf8cb",
        "f4": "f769bcd751044604127672711c6d3441",
        "f5": "aa689c648370",
        "f5s": "451e8beca43b",
    },
    {
        "k": "0396eb317b6d1c36f19c1c84cd6ffd16",
        "rand": "c00d603103dcee52c4478119494202e8",
        "sqn": "fd8eef40df7d",
        "amf": "af17",
        "op": "ff53bade17df5d4e793073ce9d7579fa",
        "opc": "53c15671c60a4b731c55b4a441c0bde2",
        "f1": "5df5b31807e258b0",
        "f1s": "a8c016e51ef4a343",
        "f2": "d3a628ed988620f0",
        "f3": "58c433ff7a7082acd424220f2b67c556",
        "f4": "21a8c1f929702adb3e738488b9f5c5da",
        "f5": "c47783995f72",
        "f5s": "30f1197061c1",
    },
    {
        "k": "fec86ba6eb707ed08905757b1bb44b8f",
        "rand": "9f7c8d021accf4db213ccff0c7f71a6a",
        "sqn": "9d0277595ffc",
        "amf": "725c",
        "op": "dbc59adcb6f9a0ef735477b7fadf8374",
        "opc": "1006020f0a478bf6b699f15c062e42b3",
        "f1": "9cabc3e99baf7281",
        "f1s": "95814ba2b3044324",
        "f2": "8011c48c0c214ed2",
        "f3": "5dbdbb2954e8f3cde665b046179a5098",
        "f4": "59a92d3b476a0443487055cf88b2307b",
        "f5": "33484dc2136b",
        "f5s": "deacdd848cc6",
    },
]


@pytest.mark.parametrize("name", SETS, ids=lambda one: one["k"][:4])
def test_milenage_test_sets(name: dict[str, str]) -> None:
    one = {key: H(value) for key, value in name.items()}
    assert milenage.opc(one["k"], one["op"]) == one["opc"]
    macs = milenage.f1(one["k"], one["opc"], one["rand"], one["sqn"], one["amf"])
    assert macs == (one["f1"], one["f1s"])
    answer = milenage.f2345(one["k"], one["opc"], one["rand"])
    expected = milenage.Response(one["f2"], one["f3"], one["f4"], one["f5"], one["f5s"])
    assert answer == expected


def test_opc_of_the_public_oai_subscriber() -> None:
    k, op = H("449c4b91aeacd0ace182cf3a5a72bfa1"), H("1006020f0a478bf6b699f15c062e42b3")
    assert milenage.opc(k, op).hex() == "9245cd6283cc53ce24ac1186a60dee6b"


def test_a_key_of_a_wrong_size_is_a_sentence() -> None:
    with pytest.raises(EpcError, match="K has 15 octets"):
        milenage.opc(bytes(15), bytes(16))


def test_nas_integrity_and_ciphering_test_sets() -> None:
    # TS 33.401 annex C.2 (128-EIA2, test set 2) and C.1 (128-EEA2, test set 1: 253 bits).
    key = H("d3c5d592327fb11c4035c6680af8c6d1")
    assert keys.eia2(key, 0x398A59B4, 0x1A, 1, H("484583d5afe082ae")).hex() == "b93787e6"
    plain = H("981ba6824c1bfb1ab485472029b71d808ce33e2cc3c0b5fc1f3de8a6dc66b1f0")
    cipher = H("e9fed8a63d155304d71df20bf3e82214b20ed7dad2f233dc3c22d7bdeeed8e78")
    assert keys.eea2(key, 0x398A59B4, 0x15, 1, plain) == cipher
    assert keys.eea2(key, 0x398A59B4, 0x15, 1, cipher) == plain


def test_a_vector_is_what_a_usim_computes() -> None:
    k, opc = H(SETS[0]["k"]), H(SETS[0]["opc"])
    made = keys.vector(k, opc, 0x1234, Plmn("242", "88").octets)
    answer = milenage.f2345(k, opc, made.rand)
    sqn = bytes(a ^ b for a, b in zip(made.autn[:6], answer.ak, strict=True))
    assert int.from_bytes(sqn, "big") == 0x1234
    assert made.autn[6:8] == keys.EPS_AMF
    assert made.autn[8:] == milenage.f1(k, opc, made.rand, sqn, keys.EPS_AMF)[0]
    assert made.xres == answer.res


def test_resynchronisation_needs_the_right_key() -> None:
    k, opc, rand = H(SETS[0]["k"]), H(SETS[0]["opc"]), bytes(range(16))
    sqn = (77).to_bytes(6, "big")
    answer = milenage.f2345(k, opc, rand)
    hidden = bytes(a ^ b for a, b in zip(sqn, answer.ak_resync, strict=True))
    auts = hidden + milenage.f1(k, opc, rand, sqn, bytes(2))[1]
    assert keys.resynchronised(k, opc, rand, auts) == 77
    assert keys.resynchronised(bytes(16), opc, rand, auts) is None


@pytest.mark.parametrize(
    ("mcc", "mnc", "octets"),
    [("242", "88", "42f288"), ("208", "95", "02f859"), ("310", "410", "130014")],
)
def test_plmn_octets(mcc: str, mnc: str, octets: str) -> None:
    assert Plmn(mcc, mnc).octets.hex() == octets
    assert Plmn.decode(H(octets)) == Plmn(mcc, mnc)


def test_octets_that_are_no_plmn() -> None:
    for octets in (b"", b"\x01", H("aaaaaa")):
        with pytest.raises(ProtocolError):
            Plmn.decode(octets)
