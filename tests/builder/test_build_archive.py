import gzip
import hashlib
import os
import tarfile

import pytest

from builder import archive, packages

pytestmark = pytest.mark.slow


def folder(where, order):
    top = where / "some_vnf"
    (top / "charms").mkdir(parents=True)
    for name in order:
        (top / name).write_text(f"# {name}\n")
    (top / "charms" / "dispatch").write_text("#!/bin/sh\n")
    (top / "charms" / "dispatch").chmod(0o700)
    return top


def test_same_files_give_the_same_bytes_whatever_their_age_owner_bits_and_order(tmp_path):
    first = folder(tmp_path / "a", ["b.txt", "a.txt"])
    second = folder(tmp_path / "b", ["a.txt", "b.txt"])
    for path in second.rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    (second / "a.txt").chmod(0o600)
    archive.write(first, tmp_path / "1.tar.gz")
    archive.write(second, tmp_path / "2.tar.gz")
    assert (tmp_path / "1.tar.gz").read_bytes() == (tmp_path / "2.tar.gz").read_bytes()


def test_a_changed_file_changes_the_bytes(tmp_path):
    top = folder(tmp_path / "a", ["a.txt"])
    archive.write(top, tmp_path / "1.tar.gz")
    (top / "a.txt").write_text("other\n")
    archive.write(top, tmp_path / "2.tar.gz")
    assert (tmp_path / "1.tar.gz").read_bytes() != (tmp_path / "2.tar.gz").read_bytes()


def test_entries_have_plain_owner_modes_and_a_date_zip_can_hold(tmp_path):
    archive.write(folder(tmp_path, ["a.txt"]), tmp_path / "x.tar.gz")
    with tarfile.open(tmp_path / "x.tar.gz") as opened:
        entries = {entry.name: entry for entry in opened}
    assert {(e.uid, e.gid, e.uname, e.gname) for e in entries.values()} == {(0, 0, "", "")}
    assert entries["some_vnf/a.txt"].mode == 0o644
    assert entries["some_vnf/charms/dispatch"].mode == 0o755
    assert entries["some_vnf/charms"].mode == 0o755
    assert min(e.mtime for e in entries.values()) > 315_619_200  # 1980-01-02


def test_two_names_of_one_file_are_two_files_in_the_archive(tmp_path):
    top = folder(tmp_path, ["a.txt"])
    os.link(top / "a.txt", top / "b.txt")
    archive.write(top, tmp_path / "x.tar.gz")
    with tarfile.open(tmp_path / "x.tar.gz") as opened:
        assert [opened.getmember(f"some_vnf/{name}").type for name in ("a.txt", "b.txt")] == [
            tarfile.REGTYPE,
            tarfile.REGTYPE,
        ]


def test_nothing_temporary_stays(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    archive.write(folder(tmp_path, ["a.txt"]), out / "x.tar.gz")
    assert [path.name for path in out.iterdir()] == ["x.tar.gz"]


def test_a_package_built_twice_is_the_same(tree, dist, tmp_path):
    packages.build(tree, tmp_path, ["hss_vnf", "epc_ns_double"])
    for name in ("hss_vnf.tar.gz", "epc_ns_double.tar.gz"):
        assert (tmp_path / name).read_bytes() == (dist / name).read_bytes()
    assert gzip.decompress((tmp_path / "epc_ns_double.tar.gz").read_bytes())


def test_another_copy_of_the_sources_gives_the_same_bytes(sources, tree, dist, tmp_path):
    for path in sources.root.rglob("*"):
        if not path.is_symlink():
            os.utime(path, (86400, 86400))
            path.chmod(0o700 if path.is_dir() or path.stat().st_mode & 0o100 else 0o600)
    (sources.root / ".cache").symlink_to(tree.cache)
    mask = os.umask(0o077)
    try:
        packages.build(sources, tmp_path / "out", ["vpn_endpoint_vnf", "vpn_basic_ns"])
    finally:
        os.umask(mask)
    for name in ("vpn_endpoint_vnf.tar.gz", "vpn_basic_ns.tar.gz"):
        assert (tmp_path / "out" / name).read_bytes() == (dist / name).read_bytes()


def test_checksums_cover_every_file(unpacked):
    for folder in unpacked.values():
        lines = (folder / "checksums.txt").read_text().splitlines()
        listed = dict(reversed(line.split("\t")) for line in lines)
        present = {
            path.relative_to(folder).as_posix()
            for path in folder.rglob("*")
            if path.is_file() and path.name != "checksums.txt"
        }
        assert set(listed) == present
        for path, digest in listed.items():
            assert hashlib.md5((folder / path).read_bytes()).hexdigest() == digest  # noqa: S324
