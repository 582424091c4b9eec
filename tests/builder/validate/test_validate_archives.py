"""Archives from strangers: what is wrong with them, in one problem and without harm."""

import gzip
import os
import tarfile
import tracemalloc
import zipfile
from pathlib import Path

import pytest
import yaml
from support.validating import validate_package
from validate_support import CODES, DESCRIPTOR, NSD_FILE, File, catalog, tar, vnf

from builder.check import parameter_file
from builder.validate import reader


def one(path):
    problems = validate_package(path, catalog())
    assert len(problems) == 1, problems
    assert problems[0].severity == CODES[problems[0].code]
    assert problems[0].sentence == " ".join(problems[0].sentence.split())
    return problems[0]


def member(kind, target=""):
    info = tarfile.TarInfo("x")
    info.type, info.linkname = kind, target
    return info


@pytest.mark.parametrize(
    "data",
    [b"", b"no archive", gzip.compress(b""), gzip.compress(b"no tar" * 200), b"\x1f\x8b\x08" * 9],
    # gzip writes the time: workers of a run would call the same test differently.
    ids=["nothing", "no archive", "gzip of nothing", "gzip of no tar", "gzip headers"],
)
def test_no_archive_at_all(data, tmp_path):
    path = tmp_path / "x.tar.gz"
    path.write_bytes(data)
    problem = one(path)
    assert problem.code in ("archive-unreadable", "descriptor-count")


def test_a_missing_file(tmp_path):
    problem = one(tmp_path / "nowhere.tar.gz")
    assert problem.code == "archive-unreadable"
    assert problem.sentence.startswith("not readable: No such file or directory; allowed: a folder")


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("x.tar.gz", b"<html>not found</html>", "it is no tar.gz, or damaged"),
        ("x.tar.gz", gzip.compress(b"a package of many words")[:12], "it is no tar.gz, or damaged"),
        ("x.zip", b"<html>not found</html>", "it is no zip, or damaged"),
    ],
    ids=["page", "cut", "page as zip"],
)
def test_an_unreadable_archive_says_what_its_name_promises(name, data, words, tmp_path):
    path = tmp_path / name
    path.write_bytes(data)
    assert one(path).sentence.startswith(f"not readable: {words}; allowed: ")


@pytest.mark.slow
def test_every_truncation_is_one_problem(tmp_path):
    whole = vnf().tar(tmp_path / "whole.tar.gz").read_bytes()
    path = tmp_path / "cut.tar.gz"
    for length in range(0, len(whole), max(1, len(whole) // 40)):
        path.write_bytes(whole[:length])
        assert len(validate_package(path, catalog())) >= 1
    path.write_bytes(whole[: len(whole) // 2])
    assert one(path).code == "archive-unreadable"
    assert one(path).osm_message == "invalid file content"


@pytest.mark.slow
def test_flipped_bytes_do_no_harm(tmp_path):
    whole = vnf().tar(tmp_path / "whole.tar.gz").read_bytes()
    path = tmp_path / "bad.tar.gz"
    for place in range(0, len(whole), max(1, len(whole) // 40)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        for problem in validate_package(path, catalog()):
            assert problem.sentence


@pytest.mark.parametrize("name", ["/p/x", "../x", "p/../../x", "p/a/../b"])
def test_paths_that_leave(name, tmp_path):
    problem = one(tar(tmp_path / "x.tar.gz", [NSD_FILE, (name, b"")]))
    assert problem.code == "archive-path"
    assert problem.osm_message.startswith("Absolute path or '..' are not allowed")


def test_paths_that_leave_a_zip(tmp_path):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x_nsd.yaml", DESCRIPTOR)
        archive.writestr("../x", "")
    problem = one(path)
    assert problem.code == "archive-path"
    assert problem.osm_message.endswith("package descriptor zip")


def test_a_file_beside_the_top_folder(tmp_path):
    problem = one(tar(tmp_path / "x.tar.gz", [NSD_FILE, ("README", b"")]))
    assert problem.code == "archive-top"
    assert problem.osm_message == "All files must be inside a dir for package descriptor tar.gz"


def test_two_top_folders(tmp_path):
    problem = one(tar(tmp_path / "x.tar.gz", [NSD_FILE, ("q/charms/x", b"")]))
    assert problem.code == "archive-folders"
    assert "p, q" in problem.sentence


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([], "Not found any"),
        ([("p/deep/x_nsd.yaml", DESCRIPTOR)], "Not found any"),
        ([("./p/x_nsd.yaml", DESCRIPTOR)], "Not found any"),
        ([NSD_FILE, ("p/other.yml", b"")], "Found more than one"),
        ([NSD_FILE, ("p/other.json", b"")], "Found more than one"),
        ([NSD_FILE, ("q/x_nsd.yaml", DESCRIPTOR)], "Found more than one"),
    ],
)
def test_the_descriptor_must_be_the_only_yaml_file_at_its_place(members, message, tmp_path):
    problem = one(tar(tmp_path / "x.tar.gz", members))
    assert problem.code == "descriptor-count"
    assert problem.osm_message.startswith(message)


def test_yaml_files_further_down_are_no_descriptors(tmp_path):
    path = tar(tmp_path / "x.tar.gz", [NSD_FILE, ("p/deep/other.yaml", b"")])
    assert validate_package(path, catalog()) == []


def test_a_zip_has_its_descriptor_at_the_top_or_in_definitions(tmp_path):
    for count, name in [(0, "Definitions/x_nsd.yaml"), (1, "deep/x_nsd.yaml")]:
        path = tmp_path / f"{count}.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(name, DESCRIPTOR)
        codes = [problem.code for problem in validate_package(path, catalog())]
        assert codes == ["descriptor-count"] * count
    path = tmp_path / "two.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.yaml", DESCRIPTOR)
        archive.writestr("Definitions/b.yaml", DESCRIPTOR)
    assert one(path).osm_message.startswith("Found more than one")


def test_a_zip_with_backslashes_for_folders(tmp_path):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x_nsd.yaml", DESCRIPTOR)
        archive.writestr("Scripts\\charms\\x\\metadata.yaml", "name: x")
    problem = one(path)
    assert problem.code == "descriptor-count"
    assert r"'Scripts\\charms\\x\\metadata.yaml' have no folders" in problem.sentence
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x_nsd.yaml", DESCRIPTOR)
        archive.writestr("Scripts\\charms\\x\\dispatch", "")
    assert "allowed: 'Scripts/charms/x/dispatch'" in one(path).sentence


def test_an_encrypted_zip(tmp_path):
    path = vnf().zip(tmp_path / "x.zip")
    data = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = data.find(signature)
        while place >= 0:
            data[place + offset] |= 1
            place = data.find(signature, place + 4)
    path.write_bytes(bytes(data))
    assert one(path).code == "archive-unreadable"


def test_links_of_a_zip_are_lost(tmp_path):
    made = vnf()
    made.files["charms/gate/x"] = File(link="dispatch")
    assert validate_package(made.tar(tmp_path / "x.tar.gz"), catalog()) == []
    assert one(made.zip(tmp_path / "x.zip")).code == "zip-link"


def test_a_zip_with_the_folders_of_a_tar(tmp_path):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, entry in vnf().all_files().items():
            archive.writestr(name, entry.text)
    codes = {problem.code for problem in validate_package(path, catalog())}
    assert codes == {"charm-place", "cloud-init-place"}


@pytest.mark.parametrize("make", ["tar", "zip"])
def test_no_file_is_a_folder_as_well(make, tmp_path):
    made = vnf()
    made.files["charms/gate/src/charm.py/x"] = File()
    problem = one(getattr(made, make)(tmp_path / f"x.{make}"))
    assert problem.code == "archive-member"
    assert "charm.py', which is a file; allowed: " in problem.sentence


@pytest.mark.parametrize("name", ["x", "x.tar.gz", "x.yaml"])
def test_a_pipe_is_not_waited_for(name, tmp_path):
    os.mkfifo(tmp_path / name)
    assert not parameter_file(tmp_path / name)
    assert one(tmp_path / name).sentence.startswith("not readable: neither a file nor a folder; ")


@pytest.mark.parametrize("path", [".", "..", "charms/.."])
def test_a_folder_that_the_command_is_in_has_its_name(path, tmp_path, monkeypatch):
    made = vnf()
    made.put("vdu/0/name", "other")
    for name, entry in made.all_files().items():
        (tmp_path / "gate" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "gate" / name).write_text(entry.text)
        (tmp_path / "gate" / name).chmod(entry.mode)
    monkeypatch.chdir(tmp_path / "gate" / ("charms" if path == ".." else "."))
    (problem,) = validate_package(Path(path), catalog())
    assert problem.path == "gate: gate.yaml: vnfd/vdu[0]/name"


def test_a_zip_cannot_hold_old_dates(tmp_path):
    made = vnf()
    made.files["charms/gate/x"] = File(mtime=0)
    assert one(made.zip(tmp_path / "x.zip")).code == "charm-date"


def test_hard_links_are_files(tmp_path):
    members = [(f"p/{name}", entry.text.encode()) for name, entry in vnf().all_files().items()]
    members = [m for m in members if m[0] != "p/cloud_init/init.yaml"]
    text = vnf().files["cloud_init/init.yaml"].text.encode()
    members += [("p/first", text), ("p/cloud_init/init.yaml", member(tarfile.LNKTYPE, "p/first"))]
    codes = [p.code for p in validate_package(tar(tmp_path / "x.tar.gz", members), catalog())]
    assert codes == ["charm-dispatch"]  # these members have mode 644


def test_a_link_to_the_cloud_init_file_is_followed(tmp_path):
    made = vnf()
    made.files["cloud_init/real"] = made.files.pop("cloud_init/init.yaml")
    made.files["cloud_init/init.yaml"] = File(link="real")
    assert validate_package(made.tar(tmp_path / "x.tar.gz"), catalog()) == []
    made.files["cloud_init/init.yaml"] = File(link="init.yaml")
    assert one(made.tar(tmp_path / "y.tar.gz")).code == "cloud-init-missing"


@pytest.mark.parametrize(
    "odd", [member(tarfile.FIFOTYPE), member(tarfile.CHRTYPE), member(tarfile.LNKTYPE, "p/nowhere")]
)
def test_odd_members(odd, tmp_path):
    problem = one(tar(tmp_path / "x.tar.gz", [NSD_FILE, ("p/odd", odd)]))
    assert problem.code == "archive-member"
    assert problem.path == "x.tar.gz: p/odd"


def test_a_path_that_stands_twice(tmp_path):
    problem = one(tar(tmp_path / "x.tar.gz", [NSD_FILE, NSD_FILE]))
    assert problem.code == "archive-twice"
    assert problem.path == "x.tar.gz: p/x_nsd.yaml"


@pytest.mark.parametrize("other", ["p/./x_nsd.yaml", "p//x_nsd.yaml"])
def test_a_path_that_stands_twice_in_another_spelling(other, tmp_path):
    hidden = yaml.safe_dump(vnf().document).encode()
    problem = one(tar(tmp_path / "x.tar.gz", [NSD_FILE, (other, hidden)]))
    assert (problem.code, problem.path) == ("archive-twice", f"x.tar.gz: {other}")
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("Definitions/x_nsd.yaml", DESCRIPTOR)
        archive.writestr(other.replace("p/", "Definitions/").replace(".yaml", ".txt"), b"")
        archive.writestr("Definitions/x_nsd.txt", b"")
    codes = [p.code for p in validate_package(tmp_path / "x.zip", catalog())]
    assert codes == ["archive-member", "archive-twice"]


def test_a_path_in_an_unusual_spelling(tmp_path):
    problem = one(tar(tmp_path / "x.tar.gz", [NSD_FILE, ("p//LICENSE", b"")]))
    assert (problem.code, problem.path) == ("archive-member", "x.tar.gz: p//LICENSE")
    assert problem.sentence.endswith("allowed: 'p/LICENSE'")


@pytest.mark.parametrize("gap", [512, 1024, 20480])
def test_members_after_the_end_of_the_archive(gap, tmp_path):
    parts = []
    for members in ([NSD_FILE], [("p/hidden", b"x")]):
        part = gzip.decompress(tar(tmp_path / "part.tar.gz", members).read_bytes())
        parts.append(part.rstrip(b"\0"))
    first = parts[0] + bytes(-len(parts[0]) % 512)
    path = tmp_path / "x.tar.gz"
    path.write_bytes(gzip.compress(first + bytes(gap) + parts[1] + bytes(10240)))
    assert one(path).code == "archive-member"
    path.write_bytes(gzip.compress(first + bytes(gap + 20480)))
    assert validate_package(path, catalog()) == []


def test_odd_files_of_a_folder_are_not_read(tmp_path):
    folder = tmp_path / "p"
    folder.mkdir()
    (folder / "x_nsd.yaml").write_bytes(DESCRIPTOR)
    os.mkfifo(folder / "pipe")
    assert one(folder).code == "archive-member"
    (folder / "pipe").unlink()
    (folder / "loop").symlink_to(".")
    assert validate_package(folder, catalog()) == []


def test_too_many_files(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "MAX_FILES", 5)
    made = vnf()
    assert one(made.tar(tmp_path / "x.tar.gz")).code == "archive-size"
    assert one(made.zip(tmp_path / "x.zip")).code == "archive-size"


def test_a_bomb_is_not_unpacked(tmp_path):
    tar_bomb, zip_bomb = tmp_path / "x.tar.gz", tmp_path / "x.zip"
    info = tarfile.TarInfo("p/bomb")
    info.size = 64 << 30
    tar_bomb.write_bytes(gzip.compress(info.tobuf() + bytes(1 << 20)))
    assert one(tar_bomb).code == "archive-size"
    with zipfile.ZipFile(zip_bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x_nsd.yaml", DESCRIPTOR)
        archive.writestr("bomb", bytes(2 << 20))
    data = zip_bomb.read_bytes()
    assert one_with_limit(zip_bomb, 1 << 20).code == "archive-size"
    assert len(data) < 1 << 20


def one_with_limit(path, limit):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "MAX_BYTES", limit)
        return one(path)


def test_a_header_that_claims_more_than_there_may_be_is_not_read(tmp_path, monkeypatch):
    # Extended headers are read whole by tarfile before anyone sees them.
    monkeypatch.setattr(reader, "MAX_BYTES", -(63 << 20))
    header = tarfile.TarInfo("p/x")
    header.type, header.size = tarfile.XHDTYPE, 8 << 20
    path = tmp_path / "x.tar.gz"
    path.write_bytes(gzip.compress(header.tobuf() + bytes(8 << 20)))
    assert one(path).code == "archive-size"


def test_json_never_works_in_osm(tmp_path):
    assert one(tar(tmp_path / "x.tar.gz", [("p/x.json", b"{}")])).code == "descriptor-json"


@pytest.mark.parametrize(
    "text",
    [
        b"nsd: [",
        b"nsd: !primitives {}",
        b"nsd: \xff",
        b"nsd: \x00",
        b"nsd: &a [*a]",
        b"[" * 3000,
        b"nsd: 2026-99-99",
        b"? {a: b}\n: c",
        b"nsd: " + b"9" * 5000 if hasattr(__import__("sys"), "set_int_max_str_digits") else b"[",
        b"".join(
            b"a%d: &a%d [%s]\n" % (i, i, b"*a%d, " % (i - 1) * 9 if i else b"1") for i in range(9)
        ),
    ],
)
def test_descriptors_that_are_no_usable_yaml(text, tmp_path):
    problem = one(tar(tmp_path / "x.tar.gz", [("p/x_nsd.yaml", text)]))
    assert problem.code == "descriptor-yaml"
    assert problem.osm_message == "Invalid yaml format"
    assert problem.path == "x.tar.gz: x_nsd.yaml"


def test_a_descriptor_in_utf_16_is_told_in_plain_words(tmp_path):
    text = "nsd: {}\n".encode("utf-16")
    problem = one(tar(tmp_path / "x.tar.gz", [("p/x_nsd.yaml", text)]))
    assert problem.sentence == "not usable as YAML: it is not UTF-8 text"


@pytest.mark.parametrize("form", ["tar", "zip"])
def test_an_archive_of_tosca_templates_is_named(form, tmp_path):
    text = b"tosca_definitions_version: tosca_simple_yaml_1_2\n"
    members = [("p/vnfd.yaml", text), ("p/types.yaml", text)]
    path = tmp_path / f"x.{form}"
    if form == "tar":
        tar(path, members)
    else:
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in members:
                archive.writestr(f"Definitions/{name}", data)
    assert (one(path).code, "TOSCA" in one(path).sentence) == ("old-format", True)


def test_a_zip_cannot_lie_about_its_size(tmp_path):
    """Of a method other than deflate, a whole block is decompressed at once."""
    file = tmp_path / "package.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("p/p_vnfd.yaml", b"0" * (64 << 20))
    data = bytearray(file.read_bytes())
    for magic, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        at = data.index(magic) + offset
        data[at : at + 4] = (1).to_bytes(4, "little")
    file.write_bytes(data)
    tracemalloc.start()
    with pytest.raises(reader.PackageError, match="p/p_vnfd.yaml is compressed otherwise"):
        reader.read(file)
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()
