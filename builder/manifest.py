"""The manifest of a package: digests of all its files, and a signature (SOL004 clauses 4.3 and 5).

The text has three parts: `metadata:`, a block per file (Source, Algorithm, Hash), and a CMS
signature over everything before it (RFC 5652, detached, PEM).
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from unicodedata import category

from builder.errors import BuildError

DIGESTS = {"SHA-256": hashlib.sha256, "SHA-512": hashlib.sha512}
UNFIT = ("Cc", "Cs", "Zl", "Zp")
"""Unicode's categories of characters that break a line, or that UTF-8 does not have."""
BEGIN, END = "-----BEGIN CMS-----", "-----END CMS-----"


@dataclass(frozen=True)
class Manifest:
    """Content of a manifest (SOL004)."""

    # Algorithm and hexadecimal digest by path in the package.
    digests: Mapping[str, tuple[str, str]]
    content: bytes  # The bytes that are signed.
    signature: str = ""  # CMS in PEM, "" if there is none.


def metadata(kind: str, body: Mapping[str, Any], released: str) -> dict[str, str]:
    """Return the metadata of a package.

    Args:
        kind: "vnfd" (SOL004 clause 4.3.2), "nsd" (SOL007 clause 4.3.2) or "nst", which no
            specification covers and which has the keys of "nsd" under its own name.
        body: The descriptor without its envelope.
        released: Date and time of the release (RFC 3339).
    """
    version = str(body.get("version", "1.0"))
    for key in ("product-name", "provider") if kind == "vnfd" else ():
        if key not in body:
            raise BuildError(f"vnfd: {key} is missing, and a manifest needs it; allowed: a text")
    if kind == "vnfd":
        return {
            "vnf_product_name": str(body["product-name"]),
            "vnf_provider_id": str(body["provider"]),
            "vnf_package_version": version,
            "vnf_release_date_time": released,
        }
    return {
        f"{kind}_name": str(body.get("name", body["id"])),
        f"{kind}_designer": str(body.get("designer", "osm-vpnaas")),
        f"{kind}_file_structure_version": version,
        f"{kind}_release_date_time": released,
    }


def render(about: Mapping[str, str], files: Mapping[str, bytes]) -> str:
    """Return the manifest of some files, without a signature."""
    for text in (*about.values(), *files):
        if text != text.strip() or any(category(sign) in UNFIT for sign in text):
            raise BuildError(
                f"manifest: {text!r} does not fit into a line; allowed: no control characters, "
                "and no spaces at the ends"
            )
    lines = ["metadata:", *(f"{key}: {value}" for key, value in about.items()), ""]
    for path, data in sorted(files.items()):
        digest = hashlib.sha256(data).hexdigest()
        lines += [f"Source: {path}", "Algorithm: SHA-256", f"Hash: {digest}", ""]
    return "\n".join([*lines, ""])


def parse(data: bytes) -> Manifest:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise BuildError("manifest: not UTF-8 text") from None
    content, begin, rest = text.partition(BEGIN)
    signature, end, after = rest.partition(END)
    if begin and (not end or after.strip()):
        raise BuildError("manifest: the signature must be its end, and whole")
    digests: dict[str, tuple[str, str]] = {}
    for block in content.replace("\r\n", "\n").split("\n\n"):
        lines = [line.strip() for line in block.split("\n") if line.strip()]
        if not lines or lines[0] == "metadata:":
            continue
        entry = dict(line.split(": ", 1) for line in lines if ": " in line)
        if len(entry) != len(lines) or set(entry) != {"Source", "Algorithm", "Hash"}:
            raise BuildError(f"manifest: {lines[0]!r}: a file needs Source, Algorithm and Hash")
        if entry["Algorithm"].upper() not in DIGESTS:
            raise BuildError(f"manifest: {entry['Algorithm']!r}; allowed: {', '.join(DIGESTS)}")
        if entry["Source"] in digests:
            raise BuildError(f"manifest: {entry['Source']} stands twice")
        digests[entry["Source"]] = (entry["Algorithm"].upper(), entry["Hash"].lower())
    signed = f"{BEGIN}{signature}{END}\n" if begin else ""
    return Manifest(digests, content.encode("utf-8"), signed)


def differences(manifest: Manifest, files: Mapping[str, bytes]) -> list[str]:
    """Return a sentence for each file that differs from the manifest."""
    sentences = [
        f"{path}: the manifest has no digest of it" for path in files.keys() - manifest.digests
    ]
    for path, (algorithm, digest) in manifest.digests.items():
        if path not in files:
            sentences.append(f"{path}: the manifest names it, and it is missing")
        elif DIGESTS[algorithm](files[path]).hexdigest() != digest:
            sentences.append(f"{path}: it was changed after the manifest was made")
    return sorted(sentences)
