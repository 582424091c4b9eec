"""Day-0: the seed for a VDU's own cloud-init, and the checks of its user-data.

The VDU runs the cloud-init of the machine's distribution with the NoCloud data source. There is no
package mirror: the packages of the user-data must be installed on the machine already.
"""

import email
import email.policy
import json
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from builder import documents
from builder.documents import DocumentError, load
from lab.errors import VimError
from lab.vim import containers

#: Where cloud-init looks for a NoCloud seed, below the VDU's root.
SEED = Path("var/lib/cloud/seed/nocloud")

FINISHED = re.compile(r"Cloud-init v\. \S+ finished at ")  # The last message of a boot.


def cloud_cfg(distribution: str, default_user: str) -> str:
    """The image's /etc/cloud/cloud.cfg.

    Args:
        distribution: cloud-init's name of it ("debian", "ubuntu").
        default_user: the image's user; it has no password, and sudo asks for none.
    """
    config = documents.read(Path(__file__).with_name("cloud.cfg.yaml"))
    info = config["system_info"]
    info["distro"] = distribution
    info["default_user"] |= {"name": default_user, "gecos": default_user.capitalize()}
    return yaml.safe_dump(config, sort_keys=False)


def seed(
    instance_id: str,
    hostname: str,
    ssh_keys: Sequence[str],
    user_data: str | None,
    devices: Sequence[dict[str, Any]] = (),
) -> dict[str, str]:
    """The files of the NoCloud seed by name; the user-data goes in byte for byte.

    ``devices`` are the tagged NICs, as Nova's metadata has them.
    """
    meta = {
        "instance-id": instance_id,
        "local-hostname": hostname,
        "public-keys": list(ssh_keys),
        "devices": list(devices),
    }
    return {
        "meta-data": json.dumps(meta, indent=1) + "\n",
        "user-data": user_data if user_data is not None else "#cloud-config\n{}\n",
    }


def result_errors(text: bytes) -> list[str] | None:
    """The errors in cloud-init's result.json; None while it is not complete.

    Root of the VDU may have written anything there.
    """
    try:
        errors = json.loads(text)["v1"]["errors"]
        if isinstance(errors, list):
            return [str(error) for error in errors]
    except ValueError:
        return None
    except (KeyError, TypeError, RecursionError):
        pass
    return ["its result.json is not what cloud-init writes"]


def end_of(output: str) -> str:
    """The last five lines of the end of cloud-init's output, in one.

    Since cloud-init 24.3 one process runs all stages. What its modules have buffered follows its
    last message, far from what failed.
    """
    lines = output.strip().splitlines()
    ends = [index for index, line in enumerate(lines, 1) if FINISHED.search(line)]
    return " | ".join(lines[: max(ends, default=None)][-5:])


@dataclass(frozen=True)
class _Part:
    where: str
    text: str
    #: Its type in a MIME message; of text/plain, as outside of a message, the first line decides.
    kind: str = "text/plain"

    @property
    def is_config(self) -> bool:
        if self.kind in _GUESSED:
            return self.text.lstrip().lower().startswith("#cloud-config") and not self.is_archive
        return self.kind == _CONFIG

    @property
    def is_archive(self) -> bool:
        if self.kind in _GUESSED:
            return self.text.lstrip().lower().startswith("#cloud-config-archive")
        return self.kind == "text/cloud-config-archive"

    @property
    def is_known(self) -> bool:
        """Whether cloud-init has a handler for it."""
        if self.kind in _GUESSED:
            header = r"$|#!|#cloud-|#include|## template:|#part-handler"
            return re.match(header, self.text.lstrip(), re.IGNORECASE) is not None
        known = r"text/(cloud-|x-shellscript|x-include-|jinja2$|part-handler$)"
        return re.match(known, self.kind) is not None


#: Types of parts that cloud-init determines by the first line (cloudinit/user_data.py).
_GUESSED = ("text/plain", "text/x-not-multipart")
_CONFIG = "text/cloud-config"


def _parts(user_data: str) -> Iterator[_Part]:
    """The leaves of user-data: itself, or the parts of a MIME message and of archives."""
    for part in _messages(user_data):
        if part.is_archive:
            yield from _entries(part)
        else:
            yield part


def _entries(archive: _Part) -> Iterator[_Part]:
    """The entries of a cloud-config-archive: texts, or mappings with a text and perhaps a type.

    An entry without a type and a header is a cloud-config.
    """
    entries = _yaml(archive)
    if not isinstance(entries, list):
        raise VimError(f"The cloud-config-archive in {archive.where} is not a list of parts.")
    for number, entry in enumerate(entries, 1):
        entry = entry if isinstance(entry, dict) else {"content": entry}
        text = str(entry.get("content") or "")
        kind = str(entry.get("type") or "text/plain")
        where = f"{archive.where} (entry {number})"
        part = _Part(where, text, kind)
        yield part if part.is_known or entry.get("type") else _Part(where, text, _CONFIG)


def _messages(user_data: str) -> Iterator[_Part]:
    """User-data itself, or the parts of a MIME message."""
    # By this alone cloud-init takes a text for a message (cloudinit/user_data.py).
    if "mime-version:" not in user_data[:4096].lower():
        yield _Part("user-data", user_data)
        return
    message = email.message_from_string(user_data, policy=email.policy.default)
    for number, part in enumerate(message.walk(), 1):
        if part.is_multipart():
            continue
        payload = part.get_payload(decode=True)
        if isinstance(payload, bytes):
            name = part.get_filename() or f"part {number}"
            text = payload.decode("utf-8", "replace")
            yield _Part(f"user-data ({name})", text, part.get_content_type())


def cloud_configs(user_data: str) -> list[dict[str, Any]]:
    """Every cloud-config document in user-data.

    cloud-init would ignore a document of another form, and boot the VDU without it.
    """
    result = []
    for part in _parts(user_data):
        if not part.is_config:
            continue
        document = _yaml(part)
        if document is None:
            continue
        if not isinstance(document, dict):
            raise VimError(f"The cloud-config in {part.where} is not a mapping of options.")
        result.append(document)
    return result


def _yaml(part: _Part) -> Any:
    try:
        return load(part.text)
    except DocumentError as error:
        lines = re.findall(r"line (\d+)", str(error))
        line = f" at line {lines[-1]}" if lines else f": {error}"
        raise VimError(f"The cloud-config in {part.where} is not valid YAML{line}.") from None


def check_user_data(user_data: str) -> None:
    """Refuse user-data of a kind unknown to cloud-init, which would ignore it silently."""
    for part in _parts(user_data):
        if part.is_known:
            continue
        if part.kind not in _GUESSED:
            raise VimError(
                f"The {part.where} has the type {part.kind}, not one such as text/cloud-config or "
                "text/x-shellscript, so cloud-init would ignore it."
            )
        first = part.text.lstrip().splitlines()[0][:60]
        raise VimError(
            f"The {part.where} begins with {first!r}, not with '#cloud-config' or '#!', so "
            "cloud-init would ignore it."
        )


def wanted_packages(user_data: str) -> list[str]:
    """Names of the packages that user-data installs, without versions, each once."""
    names: list[str] = []
    for config in cloud_configs(user_data):
        packages = config.get("packages") or []
        if not isinstance(packages, list):
            raise VimError("The cloud-config option 'packages' is not a list.")
        for entry in packages:
            names.extend(_package_names(entry))
    return list(dict.fromkeys(names))


def _package_names(entry: object) -> list[str]:
    # cloud-init's forms: name, "name=version", [name, version] and, newer, {apt: [the former]}.
    if isinstance(entry, str) and entry:
        return [entry.split("=")[0].split("/")[0]]
    if isinstance(entry, list) and entry and isinstance(entry[0], str):
        return [entry[0]]
    if isinstance(entry, dict) and isinstance(entry.get("apt"), list):
        return [name for inner in entry["apt"] for name in _package_names(inner)]
    raise VimError(f"The cloud-config option 'packages' has an entry that is no package: {entry}.")


def installed_packages() -> set[str]:
    """Packages installed on the machine, and the names they provide."""
    form = "${db:Status-Status}\t${Package}\t${Provides}\n"
    try:
        done = subprocess.run(
            ["dpkg-query", "--show", f"--showformat={form}"],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "LC_ALL": "C"},
        )
    except (FileNotFoundError, subprocess.CalledProcessError):
        raise VimError("This machine has no dpkg database to check 'packages' against.") from None
    names: set[str] = set()
    for line in done.stdout.splitlines():
        status, package, provides = line.split("\t")
        if status == "installed":
            names.add(package)
            names.update(item.split()[0] for item in provides.split(",") if item.strip())
    return names


def check_packages(user_data: str) -> None:
    """Check that the packages of user-data are installed: the lab has no package mirror."""
    packages = wanted_packages(user_data)
    if not packages:
        return
    installed = installed_packages()
    if containers.simulators() is not None:
        installed |= containers.PACKAGES
    missing = [name for name in packages if name not in installed]
    if missing:
        raise VimError(
            "The user-data asks for packages that this machine, the lab's image, lacks: "
            f"install them with 'apt-get install {' '.join(missing)}'."
        )
