"""Signed packages: archives for OSM, and CSARs, each with a manifest that OpenSSL signs."""

import datetime
import subprocess
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builder import archive, manifest
from builder.errors import BuildError
from builder.validate import body_of
from builder.validate.reader import Entry, Package, PackageError, read

META = "TOSCA-Metadata/TOSCA.meta"
CERTIFICATE = ".cert"
MANIFEST = ".mf"
RELEASED = datetime.datetime.fromtimestamp(archive.TIMESTAMP, datetime.UTC).isoformat()


@dataclass(frozen=True)
class Signer:
    """The signer's certificate and key, as PEM files."""

    certificate: Path  # X.509 certificate of the key.
    key: Path  # Private key; only OpenSSL reads it.

    def sign(self, content: bytes) -> str:
        """Return a detached CMS signature (RFC 5652) in PEM."""
        arguments = ["-signer", str(self.certificate), "-inkey", str(self.key), "-outform", "PEM"]
        return _openssl(["cms", "-sign", "-binary", *arguments], content).decode("ascii")


def sign(path: Path, signer: Signer) -> None:
    """Put a signed manifest into an archive for OSM; it replaces an earlier one."""
    package = _read(path)
    name = path.name.removesuffix(".tar.gz")
    files = _unsigned(package)
    if name + CERTIFICATE in files:
        raise BuildError(f"{path}: {name}{CERTIFICATE} is the signer's; allowed: another name")
    sealed = files | _sealed(package, files, name, signer)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, name)
        for relative, entry in sealed.items():
            target = folder / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(entry.data)
            target.chmod(entry.mode)
        archive.write(folder, path)


def csar(path: Path, target: Path, signer: Signer) -> None:
    """Write the SOL004 form of an archive for OSM: a ZIP file with TOSCA-Metadata."""
    package = _read(path)
    name = path.name.removesuffix(".tar.gz")
    files = {_place(package, old): entry for old, entry in _unsigned(package).items()}
    meta = {
        "TOSCA-Meta-File-Version": "1.0",
        "CSAR-Version": "1.1",
        "Created-By": "osm-vpnaas",
        "Entry-Definitions": _place(package, package.descriptor_path),
        "ETSI-Entry-Manifest": name + MANIFEST,
        "ETSI-Entry-Change-Log": "ChangeLog.txt",
        "ETSI-Entry-Licenses": "Licenses",
        "ETSI-Entry-Certificate": name + CERTIFICATE,
    }
    history = f"{name} {_body(package).get('version', '1.0')}, {RELEASED}\n"
    files["ChangeLog.txt"] = Entry(history.encode())
    files[META] = Entry("".join(f"{key}: {value}\n" for key, value in meta.items()).encode())
    files |= _sealed(package, files, name, signer)
    moment = datetime.datetime.fromtimestamp(archive.TIMESTAMP, datetime.UTC).timetuple()[:6]
    staging = target.with_suffix(".tmp")
    with zipfile.ZipFile(staging, "w", zipfile.ZIP_DEFLATED) as packed:
        # TOSCA.meta comes first (TOSCA Simple Profile 1.1, clause 16.1).
        for relative in [META, *sorted(files.keys() - {META})]:
            info = zipfile.ZipInfo(relative, moment)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (0o100000 | files[relative].mode) << 16
            packed.writestr(info, files[relative].data)
    staging.replace(target)


def verify(path: Path, trust: Path) -> list[str]:
    """Return the reasons why a package is not as a trusted signer signed it; [] if it is.

    Args:
        path: Archive for OSM or CSAR.
        trust: Certificates in PEM: of the signer's CA, or of the signer.
    """
    package = _read(path)
    if package.notes:
        return [problem.sentence for problem in package.notes]
    names = [name for name in package.files if name.endswith(MANIFEST) and "/" not in name]
    if len(names) != 1:
        return [f"{len(names)} manifests (*{MANIFEST}) at the top; a signed package has one"]
    links = [name for name, entry in package.files.items() if entry.link]
    if links:
        return [f"{links[0]}: a link, of which a manifest can have no digest"]
    try:
        said = manifest.parse(package.files[names[0]].data)
    except BuildError as error:
        return [str(error)]
    sentences = manifest.differences(said, _bytes(package.files, names[0]))
    if not said.signature:
        return [*sentences, f"{names[0]}: it is not signed"]
    with tempfile.TemporaryDirectory() as scratch:
        content, signature = Path(scratch, "content"), Path(scratch, "signature")
        content.write_bytes(said.content)
        signature.write_text(said.signature, encoding="ascii", errors="replace")
        arguments = ["-inform", "PEM", "-in", str(signature), "-content", str(content)]
        # The trusted certificate may be the signer's own; no key usage is required.
        arguments += ["-CAfile", str(trust), "-partial_chain", "-purpose", "any"]
        # Without these, openssl also trusts the authorities that the machine knows.
        arguments += ["-no-CApath", "-no-CAstore"]
        try:
            _openssl(["cms", "-verify", "-binary", *arguments])
        except BuildError as error:
            sentences.append(f"{names[0]}: the signature is not one of a trusted signer: {error}")
    return sentences


def _sealed(
    package: Package, files: Mapping[str, Entry], name: str, signer: Signer
) -> dict[str, Entry]:
    """Return the manifest and the certificate for some files."""
    certificate = Entry(_certificate(signer.certificate))
    about = manifest.metadata(package.kind, _body(package), RELEASED)
    covered = _bytes({**files, name + CERTIFICATE: certificate})
    text = manifest.render(about, covered)
    return {
        name + CERTIFICATE: certificate,
        name + MANIFEST: Entry((text + signer.sign(text.encode())).encode()),
    }


def _body(package: Package) -> dict[str, Any]:
    body = body_of(package)
    if not isinstance(body, dict):
        raise BuildError(f"{package.name}: {package.descriptor_path}: no vnfd, nsd or nst")
    return body


def _certificate(path: Path) -> bytes:
    """Return the certificate of a PEM file, without its other content, such as a private key."""
    return _openssl(["x509", "-in", str(path)])


def _read(path: Path) -> Package:
    try:
        return read(path)
    except PackageError as error:
        raise BuildError(f"{path}: {error.problem.sentence}") from None


def _unsigned(package: Package) -> dict[str, Entry]:
    """Return the files of a package without manifest and certificate of an earlier signature."""
    if not package.name.endswith(".tar.gz"):
        raise BuildError(f"{package.name}: not an archive for OSM; allowed: PACKAGE.tar.gz")
    if package.notes:
        raise BuildError(f"{package.notes[0].path}: {package.notes[0].sentence}")
    links = [name for name, entry in package.files.items() if entry.link]
    if links:
        raise BuildError(f"{package.name}: {links[0]} is a link; a signed package has files only")
    old = [name for name in package.files if name.endswith(MANIFEST) and "/" not in name]
    for name in old:
        if not package.files[name].data.startswith(b"metadata:"):
            raise BuildError(
                f"{package.name}: {name} is no manifest; allowed: another ending than {MANIFEST}"
            )
    gone = {*old, *(name.removesuffix(MANIFEST) + CERTIFICATE for name in old)}
    return {path: entry for path, entry in package.files.items() if path not in gone}


def _bytes(files: Mapping[str, Entry], without: str = "") -> dict[str, bytes]:
    return {path: entry.data for path, entry in files.items() if path != without}


def _place(package: Package, path: str) -> str:
    """Return the path in a CSAR, as NBI and LCM expect it, of a file of an archive for OSM."""
    if path == package.descriptor_path:
        return f"Definitions/{path}"
    if path.startswith(("charms/", "cloud_init/", "helm-charts/")):
        return f"Scripts/{path}"
    return f"Licenses/{path}" if path == "LICENSE" else f"Files/{path}"


def _openssl(arguments: list[str], data: bytes = b"") -> bytes:
    try:
        done = subprocess.run(
            ["openssl", *arguments], input=data, capture_output=True, check=False, timeout=60
        )
    except FileNotFoundError:
        raise BuildError("openssl is missing; install the package openssl") from None
    except subprocess.TimeoutExpired:
        raise BuildError(f"openssl {arguments[0]}: no result after 60 s") from None
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise BuildError(f"openssl {arguments[0]}: {lines[-1] if lines else 'failed'}")
    return done.stdout
