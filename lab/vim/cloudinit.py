"""Day-0: the seed for a VDU's own cloud-init, and the checks of its user-data.

The VDU runs the cloud-init of the machine's distribution with the NoCloud data source. There is no
package mirror: the packages of the user-data must be installed on the machine already.
"""

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from builder import documents
from builder.documents import DocumentError
from builder.programs import output
from builder.userdata import CONFIG, parts
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


def cloud_configs(user_data: str) -> list[dict[str, Any]]:
    """Every cloud-config document in user-data.

    Refuse what cloud-init would ignore silently, and boot the VDU without it.
    """
    result = []
    try:
        for part in parts(user_data):
            if reason := part.ignored():
                raise VimError(f"The user-data{part.where} {reason}: cloud-init would ignore it.")
            if part.kind == CONFIG:
                result.append(part.config())
    except DocumentError as error:
        raise VimError(f"The user-data is not what cloud-init can use: {error}.") from None
    return result


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
    why = "This machine has no dpkg database to check 'packages' against"
    words = ["dpkg-query", "--show", f"--showformat={form}"]
    listed = output(words, why, VimError, env={**os.environ, "LC_ALL": "C"})
    names: set[str] = set()
    for line in listed.splitlines():
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
