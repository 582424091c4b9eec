"""Charms are refreshed by names, and a rotation is followed to its end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from operate_support import Answering, Instance

from operate.client import OperateError
from operate.join import End
from operate.upkeep import rotate, upgrade

RECORDS = {
    "epc": {"constituent-vnfr-ref": ["r1", "r2"]},
    "r1": {"_id": "r1", "member-vnf-index-ref": "mme", "vnfd-ref": "mme_vnf", "vnfd-id": "p1"},
    "r2": {"_id": "r2", "member-vnf-index-ref": "hss", "vnfd-ref": "hss_vnf", "vnfd-id": "p2"},
}


@dataclass(frozen=True)
class Recording(Answering):
    """Knows one service, records what it is told, and rotates in as many looks as given."""

    told: list[tuple[str, ...]] = field(default_factory=list)
    looks: Iterator[str] = field(default_factory=lambda: iter(("under way", "none")))

    def document(self, verb: str, id: str) -> dict[str, Any]:
        return RECORDS[id]

    def verb(self, *words: str) -> str:
        self.told.append(words)
        return ""

    def answer(
        self, ns: str, vnf: str, name: str, params: dict[str, Any], instance: Instance
    ) -> dict[str, Any]:
        self.told.append((ns, vnf, name, json.dumps(params)))
        if name == "rotate-keys":
            return {"s6a": {"rotation": "waiting for peers", "manual-peers": ["laptop"]}}
        shown = {"rotation": next(self.looks), "key-generation": 2, "public-key": "K"}
        return {"s6a": {**shown, "reason": "key rotation waits for mme"}}


@pytest.fixture
def client() -> Recording:
    return Recording(pause=0)


def test_an_upgrade_takes_each_package_and_refreshes_each_vnf(
    client: Recording, tmp_path: Path
) -> None:
    for name in ("mme_vnf", "hss_vnf"):
        (tmp_path / f"{name}.tar.gz").touch()
    assert len(list(upgrade(client, "epc", tmp_path))) == 4
    assert [words[:2] for words in client.told] == [
        ("vnfpkg-update", "hss_vnf"),
        ("vnfpkg-update", "mme_vnf"),
        ("ns-update", "epc"),
        ("ns-update", "epc"),
    ]
    updates = [json.loads(words[words.index("--config") + 1]) for words in client.told[2:]]
    assert [each["changeVnfPackageData"] for each in updates] == [
        [{"vnfInstanceId": "r1", "vnfdId": "p1"}],
        [{"vnfInstanceId": "r2", "vnfdId": "p2"}],
    ]


def test_an_upgrade_without_a_package_changes_nothing(client: Recording, tmp_path: Path) -> None:
    (tmp_path / "hss_vnf.tar.gz").touch()
    with pytest.raises(OperateError, match=r"mme_vnf\.tar\.gz is not there; allowed: --dist"):
        list(upgrade(client, "epc", tmp_path))
    assert client.told == []


def test_a_rotation_is_followed_until_the_new_key_is_in_use(client: Recording) -> None:
    assert list(rotate(client, End.parse("epc/hss:s6a"), force=False, timeout=60)) == [
        "epc/hss:s6a: waiting for peers",
        "epc/hss:s6a: key 2, K, is in use",
        "enter the new key at the manual peer laptop",
    ]
    assert client.told[0] == ("epc", "hss", "rotate-keys", '{"link": "s6a", "force": false}')


def test_a_rotation_that_takes_too_long_says_for_whom_it_waits(client: Recording) -> None:
    with pytest.raises(OperateError, match="key rotation waits for mme; --force"):
        list(rotate(client, End.parse("epc/hss:s6a"), force=True, timeout=-1))
