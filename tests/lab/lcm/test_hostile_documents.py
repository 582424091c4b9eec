"""Documents that are too large or malformed, and damaged records: a sentence, and soon."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab.documents import Stored
from lab.errors import NbiError, VimError
from lab.lcm.backends import Backends
from lab.nbi.catalogue import Catalogue
from lab.nbi.params import load_mapping
from lab.records.ids import admin
from lab.records.operations import discard
from lab.records.store import NSRS, OPS, VERSION, VIMS, VNFDS, Store
from lab.vim.store import Account, State, read_json

LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9)
)
MERGES = "a0: &a0 {x: 1, y: 2}\n" + "".join(
    f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 9)
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (LAUGHS, "too large with its aliases expanded"),
        (MERGES, "too large with its aliases expanded"),
        ("a: &a [*a]", "nested too deeply, or an alias that contains itself"),
        ("a: " + "[" * 5000 + "]" * 5000, "nested too deeply"),
        ("a: " + "x" * (60 << 20), "characters; 2097152 are allowed"),
    ],
    ids=["aliases", "merges", "itself", "depth", "size"],
)
def test_a_parameter_file_that_grows_is_refused_at_once(text: str, says: str) -> None:
    began = time.monotonic()
    with pytest.raises(NbiError, match=says):
        load_mapping(text, "params.yaml")
    assert time.monotonic() - began < 20


def test_a_descriptor_of_60_mb_is_refused(tmp_path: Path) -> None:
    package = tmp_path / "big_vnf"
    package.mkdir()
    with (package / "big_vnfd.yaml").open("w") as file:
        file.write("vnfd:\n")
        for number in range(60):
            file.write(f"  k{number}: {'x' * (1 << 20)}\n")
    catalogue = Catalogue(Store(tmp_path / "home"))
    with pytest.raises(NbiError, match=r"Invalid yaml format \(at big_vnf: big_vnfd.yaml\)"):
        catalogue.onboard(VNFDS, package)


DAMAGED = {
    "empty": b"",
    "cut": b'{"_id": "one", "name',
    "list": b"[]",
    "another's": b'{"_id": "two", "name": "two", "_admin": {"created": 1.0}}',
    "binary": b"\xff\xfe\x00",
    "deep": b"[" * 100_000,
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_damaged_record_is_named(tmp_path: Path, kind: str) -> None:
    store = Store(tmp_path)
    path = tmp_path / "nbi" / VIMS / "one.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(DAMAGED[kind])
    with pytest.raises(NbiError, match=f"the lab's record {path} is damaged"):
        store.get(VIMS, "one")
    store.put(VIMS, {"_id": "three", "name": "north", "_admin": admin()})
    assert [vim["_id"] for vim in store.all(VIMS)] == ["three"]
    (line,) = store.damaged(VIMS)
    assert (line["_id"], line["name"]) == ("one", "(damaged)")
    assert "is damaged: delete it by its id one" in line["errorDetail"]
    assert read_json(path) is None or kind == "another's"
    assert (discard(store, VIMS, "three"), discard(store, VIMS, "one")) == (False, True)
    assert (store.damaged(VIMS), len(store.all(VIMS))) == ([], 1)


def test_a_home_whose_path_charms_cannot_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NbiError, match="has a ':' in its path"):
        Store(tmp_path / "a:b")
    Store(tmp_path / "a, b")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
def test_a_home_where_no_charm_can_be_started_is_refused(tmp_path: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "noexec", "none", tmp_path], check=True)
    try:
        with pytest.raises(NbiError, match="starts no programs"):
            Store(tmp_path / "home")
    finally:
        subprocess.run(["umount", tmp_path], check=True)


@pytest.mark.parametrize("text", [str(VERSION + 1), "", "1.5", "later", "9" * 5000])
def test_a_home_of_a_later_lab_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "version").write_text(text)
    with pytest.raises(NbiError, match=f"home {tmp_path} is of version .*up to version {VERSION}"):
        Store(tmp_path)


def test_a_copy_of_a_home_is_not_used_as_if_the_vdus_were_its_own(tmp_path: Path) -> None:
    home, copy = tmp_path / "home", tmp_path / "copy"
    Store(home).put(VIMS, {"_id": "v", "name": "v", "_admin": admin()})
    shutil.copytree(home, copy)
    with pytest.raises(NbiError, match=f"the lab's home {copy} is a copy of {home}, or was moved"):
        Store(copy)
    (tmp_path / "link").symlink_to(home)
    assert Store(tmp_path / "link").get(VIMS, "v")["name"] == "v"


@pytest.mark.parametrize("text", ["", "\0" * 9, "relative"])
def test_a_place_that_is_none_after_a_power_cut_refuses_no_home(tmp_path: Path, text: str) -> None:
    Store(tmp_path).put(VIMS, {"_id": "v", "name": "north", "_admin": admin()})
    (tmp_path / "place").write_text(text)
    assert [vim["name"] for vim in Store(tmp_path).all(VIMS)] == ["north"]


def test_a_home_has_a_version_from_its_first_record_on(tmp_path: Path) -> None:
    Store(tmp_path / "home").put(VIMS, {"_id": "one", "name": "one", "_admin": {"created": 1.0}})
    assert (tmp_path / "home" / "version").read_text() == f"{VERSION}\n"
    assert Store(tmp_path / "home").get(VIMS, "one")["name"] == "one"


def test_charms_whose_record_is_damaged_can_be_deleted(tmp_path: Path) -> None:
    backends = Backends(tmp_path)
    model = backends.model("one")
    (model.paths.model / "model.json").write_text("{damaged")
    again = Backends(tmp_path)
    again.destroy_model("one")
    assert again.controller().models() == []
    assert not model.paths.model.exists()


def test_a_record_of_the_vim_that_lacks_something_is_named(tmp_path: Path) -> None:
    for kind, text, lacks in (
        (Account, '{"name": "lab", "config": {}}', "number"),
        (State, '{"networks": {}, "servers": {"one": {"vcpus": 1}}}', "servers.one.server"),
    ):
        path = tmp_path / f"{kind.__name__}.json"
        path.write_text(text)
        with pytest.raises(VimError, match=f"record {path} lacks '{lacks}': clean the lab"):
            Stored(path, kind, VimError).read()


def test_a_lab_with_damaged_records_is_cleaned(tmp_path: Path) -> None:
    for collection in (NSRS, OPS):
        path = tmp_path / "nbi" / collection / "one.json"
        path.parent.mkdir(parents=True)
        path.write_bytes(DAMAGED["cut"])

    def verb(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [Path(sys.executable).with_name("osm-lab"), *words],
            env={**os.environ, "OSMLAB_HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )

    listed = verb("ns-list")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert "(damaged)" in listed.stdout
    deleted = verb("ns-delete", "one")
    assert (deleted.returncode, "Deleted the damaged record" in deleted.stderr) == (0, True)
    assert "(damaged)" not in verb("ns-list").stdout
    if os.geteuid() == 0:
        assert verb("lab", "clean").returncode == 0
        assert verb("ns-list").returncode == 0
