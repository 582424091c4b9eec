"""Signed packages: any change shows, and only a trusted signer counts."""

import gzip
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from support.validating import validate_package

from builder import manifest, signing
from builder.archive import write
from builder.cli import main
from builder.errors import BuildError

pytestmark = pytest.mark.slow


def made(folder, name, issuer=None):
    """Return the signer `name` with an EC key, certified by itself or by an issuer."""
    key, cert = folder / f"{name}.key", folder / f"{name}.pem"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    words += [
        "-nodes",
        "-days",
        "2",
        "-subj",
        f"/CN={name}",
        "-keyout",
        str(key),
        "-out",
        str(cert),
    ]
    if issuer:
        words += ["-CA", str(issuer.certificate), "-CAkey", str(issuer.key)]
        words += ["-addext", "basicConstraints=critical,CA:false"]
    subprocess.run(words, check=True, capture_output=True)
    return signing.Signer(cert, key)


@pytest.fixture(scope="module")
def signers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("signers")
    authority = made(folder, "authority")
    return authority, made(folder, "vendor", authority), made(folder, "stranger")


@pytest.fixture
def archive(dist, tmp_path):
    return Path(shutil.copy(dist / "vpn_basic_ns.tar.gz", tmp_path))


@pytest.fixture(scope="module")
def signed(dist, signers, tmp_path_factory):
    """A VNF's archive, signed, and its CSAR."""
    folder = tmp_path_factory.mktemp("signed")
    path = Path(shutil.copy(dist / "hss_vnf.tar.gz", folder))
    arguments = ["--certificate", signers[1].certificate, "--key", signers[1].key, "--csar"]
    result = CliRunner().invoke(main, ["sign", str(path), *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return path, path.with_name("hss_vnf.zip")


def verified(path, trust):
    result = CliRunner().invoke(main, ["verify", "--trust", str(trust), str(path)])
    return result.exit_code, result.output


@pytest.mark.parametrize("form", [0, 1], ids=["tar.gz", "csar"])
def test_a_signed_package_is_good_for_its_signers_authority_and_for_osm(signed, signers, form):
    assert verified(signed[form], signers[0].certificate) == (0, "")
    assert verified(signed[form], signers[1].certificate) == (0, "")
    assert validate_package(signed[form]) == []


@pytest.mark.parametrize("form", [0, 1], ids=["tar.gz", "csar"])
def test_a_stranger_is_refused(signed, signers, form):
    code, output = verified(signed[form], signers[2].certificate)
    assert code == 1
    assert "not one of a trusted signer" in output


def test_an_authority_that_the_machine_trusts_counts_for_nothing(
    signed, signers, tmp_path, monkeypatch
):
    shutil.copy(signers[0].certificate, tmp_path)
    subprocess.run(["openssl", "rehash", str(tmp_path)], check=True)
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    code, output = verified(signed[0], signers[2].certificate)
    assert code == 1
    assert "not one of a trusted signer" in output


def altered(path, tmp_path, change):
    """Return a copy of a CSAR whose files went through `change`, a dict to alter."""
    with zipfile.ZipFile(path) as packed:
        files = {info: packed.read(info) for info in packed.infolist()}
    texts = {info.filename: data for info, data in files.items()}
    change(texts)
    target = tmp_path / path.name
    with zipfile.ZipFile(target, "w") as packed:
        for name, data in texts.items():
            packed.writestr(name, data)
    return target


DISPATCH = "Scripts/charms/hss/dispatch"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda f: f.update({DISPATCH: f[DISPATCH] + b"#"}), "dispatch: it was changed"),
        (lambda f: f.pop(DISPATCH), "dispatch: the manifest names it, and it is missing"),
        (lambda f: f.update({"Files/new": b""}), "Files/new: the manifest has no digest"),
        (lambda f: f.pop("hss_vnf.mf"), "0 manifests"),
        (
            lambda f: f.update({"hss_vnf.mf": f["hss_vnf.mf"].split(b"-----BEGIN")[0]}),
            "it is not signed",
        ),
        (
            lambda f: f.update({"hss_vnf.mf": f["hss_vnf.mf"].replace(b"1.0", b"1.1")}),
            "not one of a trusted signer",
        ),
        (lambda f: f.update({"hss_vnf.mf": f["hss_vnf.mf"] + b"\nSource: x\n"}), "its end"),
        (lambda f: f.update({"hss_vnf.mf": b"\xff"}), "not UTF-8"),
    ],
    ids=["changed", "missing", "added", "no-manifest", "unsigned", "manifest", "after", "binary"],
)
def test_any_change_is_named(signed, signers, tmp_path, change, sentence):
    code, output = verified(altered(signed[1], tmp_path, change), signers[0].certificate)
    assert code == 1
    assert sentence in output


def test_a_file_that_stands_twice_is_refused(signed, signers, tmp_path):
    path = Path(shutil.copy(signed[1], tmp_path))
    with zipfile.ZipFile(path, "a") as packed, pytest.warns(UserWarning, match="Duplicate"):
        packed.writestr(DISPATCH, packed.read(DISPATCH))
    assert "stands twice" in verified(path, signers[0].certificate)[1]
    assert "archive-twice" in [problem.code for problem in validate_package(path)]


def test_a_file_behind_the_end_of_the_archive_is_refused(signed, signers, tmp_path):
    content = gzip.decompress(signed[0].read_bytes()).rstrip(b"\0")
    content += bytes(-len(content) % 512)
    path = tmp_path / signed[0].name
    # After a single block of zeros GNU tar goes on, and Python's tarfile stops.
    hidden = tarfile.TarInfo("hss_vnf/charms/hss/dispatch").tobuf()
    path.write_bytes(gzip.compress(content + bytes(512) + hidden + bytes(1024), 1))
    code, output = verified(path, signers[0].certificate)
    assert (code, "end" in output) == (1, True)


def test_signing_again_replaces_the_signature(archive, signers):
    signing.sign(archive, signers[1])
    signing.sign(archive, signers[2])
    with tarfile.open(archive) as packed:
        names = [name for name in packed.getnames() if name.endswith((".mf", ".cert"))]
    assert sorted(names) == ["vpn_basic_ns/vpn_basic_ns.cert", "vpn_basic_ns/vpn_basic_ns.mf"]
    assert verified(archive, signers[2].certificate) == (0, "")


def test_a_key_of_another_certificate_leaves_the_package_as_it_was(archive, signers):
    before = archive.read_bytes()
    with pytest.raises(BuildError, match="openssl cms"):
        signing.sign(archive, signing.Signer(signers[0].certificate, signers[2].key))
    assert archive.read_bytes() == before


def test_only_an_archive_for_osm_is_signed_and_other_files_stay_as_they_are(
    signed, signers, unpacked, tmp_path
):
    csar = Path(shutil.copy(signed[1], tmp_path))
    descriptor = Path(shutil.copy(unpacked["vpn_basic_ns"] / "vpn_basic_nsd.yaml", tmp_path))
    two = tmp_path / "two.tar.gz"
    with tarfile.open(two, "w:gz") as packed:
        packed.add(descriptor, "vpn_basic_ns/vpn_basic_nsd.yaml")
        packed.add(descriptor, "other/sub/vpn_basic_nsd.yaml")
    for path, words in (
        (csar, "hss_vnf.zip: not an archive for OSM; allowed: PACKAGE.tar.gz"),
        (descriptor, "vpn_basic_nsd.yaml: not an archive for OSM; allowed: PACKAGE.tar.gz"),
        (two, "two.tar.gz: more than one folder at the top"),
    ):
        before = path.read_bytes()
        with pytest.raises(BuildError, match=f"^{words}"):
            signing.sign(path, signers[1])
        assert path.read_bytes() == before


@pytest.fixture
def small(tmp_path):
    """Return a function that packs a VNFD with these keys and other files."""

    def pack(body, files=()):
        folder = tmp_path / "x_vnf"
        folder.mkdir()
        document = {"vnfd": {"id": "x_vnf", "df": [{"id": "d"}], **body}}
        (folder / "x_vnfd.yaml").write_text(yaml.safe_dump(document))
        for name, text in dict(files).items():
            (folder / name).write_text(text)
        write(folder, tmp_path / "x_vnf.tar.gz")
        return tmp_path / "x_vnf.tar.gz"

    return pack


NAMED = {"product-name": "x", "provider": "p"}


@pytest.mark.parametrize(
    ("body", "files", "words"),
    [
        ({"provider": "p"}, {}, "product-name is missing"),
        ({"product-name": "x"}, {}, "provider is missing"),
        ({**NAMED, "product-name": "a\n\nb"}, {}, "does not fit into a line"),
        ({**NAMED, "provider": "p "}, {}, "does not fit into a line"),
        (NAMED, {"a\nb": ""}, "does not fit into a line"),
        (NAMED, {"x.mf": "notes"}, "x.mf is no manifest"),
        (NAMED, {"x_vnf.cert": "mine"}, "x_vnf.cert is the signer's"),
    ],
)
def test_what_a_manifest_cannot_tell_is_an_error(small, signers, body, files, words):
    path = small(body, files)
    before = path.read_bytes()
    with pytest.raises(BuildError, match=words):
        signing.sign(path, signers[1])
    assert path.read_bytes() == before


def test_an_authors_own_certificate_stays(small, signers):
    path = small(NAMED, {"ca.cert": "mine"})
    for _ in range(2):
        signing.sign(path, signers[1])
    with tarfile.open(path) as packed:
        tops = sorted(name.partition("/")[2] for name in packed.getnames())
    assert tops[-4:] == ["ca.cert", "x_vnf.cert", "x_vnf.mf", "x_vnfd.yaml"]
    assert verified(path, signers[0].certificate) == (0, "")


def test_modes_survive(signed):
    with tarfile.open(signed[0]) as packed:
        assert packed.getmember("hss_vnf/charms/hss/dispatch").mode & 0o111
    with zipfile.ZipFile(signed[1]) as packed:
        assert packed.getinfo(DISPATCH).external_attr >> 16 & 0o111


@pytest.mark.parametrize(
    "text",
    [
        "metadata:\n\nSource: a\nAlgorithm: MD5\nHash: 0\n",
        "metadata:\n\nSource: a\nHash: 0\n",
        "Source: a\nAlgorithm: SHA-256\nHash: 0\n\nSource: a\nAlgorithm: SHA-256\nHash: 0\n",
        "nonsense\n",
    ],
)
def test_a_manifest_out_of_form_is_refused(text):
    with pytest.raises(BuildError, match="manifest: "):
        manifest.parse(text.encode())
