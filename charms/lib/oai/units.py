"""systemd units around the container engine."""

import hashlib
import re
from typing import Iterable, List, Mapping, Sequence, Tuple

from vpnaas.vdu import nftables
from vpnaas.vdu.installed import filled
from vpnaas.vdu.programs import source

from . import pdn
from .images import Registry
from .model import LIBRARY, TABLE, Container, File, Software, conf

RUN = "/run/osm-vpnaas-nf"
"""Where `nf-prepare` records what containers start with."""
PREPARE_PROGRAM = LIBRARY + "/nf-prepare"
RULES_FILE = conf("rules.nft")
# Of a container.
UNIT_FILE = "/etc/systemd/system/{}.service"
MARK = "[Unit]\nDescription=Network function "
"""How our unit begins. An image may have a unit of the same name."""
DIGEST_FILE = conf("{}.digest")  # Digest of its configuration.
ENVIRONMENT_FILE = conf("{}.env")
AFTER_FLUSH_FILE = nftables.AFTER_FLUSH.format("nf")
TABLES = (("table", "inet", TABLE), ("table", "ip", pdn.TABLE))
"""Tables of nftables that network functions have."""
CONTAINER = "osm-vpnaas-{}"
"""Name of a container, by that of its unit. One of somebody else has another."""
LOGROTATE = "/etc/logrotate.d/osm-vpnaas-nf"
RESTART_SECONDS = 10

_PLAIN = re.compile(r"\A[A-Za-z0-9@%+=:,./_\[\]-]+\Z")


def unit(container: str) -> str:
    return container + ".service"


def table(rules: str) -> Tuple[str, ...]:
    """Return the words for nft(8) that name the table of a script."""
    return tuple(rules.splitlines()[0].split())


def run_words(container: Container, engine: str, registry: Registry) -> List[str]:
    """Return the engine's command line, in the order of words that the documentation gives."""
    words = [engine, "run", "--rm", "--name", CONTAINER.format(container.name), "--network", "host"]
    # Only the unit logs: the engine's log would show keys to users that may read the journal.
    words += ["--log-driver", "none"]
    if container.privileged:
        words.append("--privileged")
    words += ["--env-file", ENVIRONMENT_FILE.format(container.name)]
    for path, target in container.volumes:
        read_only = ":ro" if path.startswith("/etc/") else ""
        words += ["--volume", "{}:{}{}".format(path, target, read_only)]
    if container.workdir:
        words += ["--workdir", container.workdir]
    if container.entrypoint:
        words += ["--entrypoint", container.entrypoint]
    return words + [registry.reference(container.name)] + list(container.words)


def _line(words: Iterable[str]) -> str:
    """Return a command line of a unit; ValueError for a word that systemd would change."""
    listed = list(words)
    for word in listed:
        if not _PLAIN.match(word) or "%" in word:
            raise ValueError("not a plain word: {!r}".format(word))
    return " ".join(listed)


def render(
    container: Container, engine: str, registry: Registry, links: Sequence[str], rules: bool
) -> str:
    """Return the unit's text.

    `engine` is the absolute path of podman or docker, `links` are the units that bring up the
    VNF's links. With `rules`, the nftables script is loaded first.
    """
    before = ["-" + _line([engine, "rm", "--force", CONTAINER.format(container.name)])]
    before.append(_line(("/bin/sh", PREPARE_PROGRAM, container.name) + container.devices))
    if rules:
        before.append(_line(["/usr/sbin/nft", "-f", RULES_FILE]))
    if container.before_start:
        program, rest = container.before_start[0], container.before_start[1:]
        before.append(_line(("/usr/bin/python3", "-B", program, engine) + tuple(rest)))
    needed = [unit(name) for name in container.after]
    return filled(
        "templates/container.service",
        "oai",
        name=container.name,
        container=CONTAINER.format(container.name),
        engine=engine,
        after=" ".join(list(links) + needed),
        wants=" ".join(needed),
        pre="".join("ExecStartPre={}\n".format(line) for line in before),
        run=_line(run_words(container, engine, registry)),
        start_seconds=container.start_seconds,
        restart=RESTART_SECONDS,
    ).replace(" \n", "\n")


def environment(container: Container) -> str:
    return "".join("{}={}\n".format(name, value) for name, value in container.environment)


def used_files(container: Container, files: Iterable[File]) -> List[File]:
    read = {source for source, _ in container.volumes} | set(container.before_start)
    return [file for file in files if file.path in read]


def digest(container: Container, unit_text: str, files: Iterable[File]) -> str:
    """Return a digest of everything whose change needs a restart of the container."""
    state = hashlib.sha256()
    for text in [unit_text, environment(container)]:
        state.update(text.encode() + b"\0")
    for file in used_files(container, files):
        state.update(file.path.encode() + b"\0" + file.text.encode() + b"\0")
    return state.hexdigest()


def logrotate(containers: Iterable[str]) -> str:
    """Return the rule that keeps the logs small."""
    names = " ".join("/var/log/{}.log".format(name) for name in containers)
    return (
        names
        + " {\n    size 50M\n    rotate 4\n    compress\n    missingok\n    notifempty\n"
        + "    copytruncate\n}\n"
    )


def all_files(
    software: Software, engine: str, registry: Registry, links: Sequence[str]
) -> Mapping[str, File]:
    """Return every file of a network function by path, units and digests among them."""
    listed = list(software.files)
    listed.append(File(PREPARE_PROGRAM, source("nf_prepare.sh", "oai"), 0o755))
    listed.append(File(LOGROTATE, logrotate(c.name for c in software.containers), 0o644))
    if software.rules:
        listed.append(File(RULES_FILE, software.rules))
        again = nftables.after_flush_text(RULES_FILE)
        listed.append(File(AFTER_FLUSH_FILE, again, 0o644))
    for container in software.containers:
        rules = bool(software.rules) and container is software.containers[-1]
        text = render(container, engine, registry, links, rules)
        listed.append(File(UNIT_FILE.format(container.name), text, 0o644))
        listed.append(File(ENVIRONMENT_FILE.format(container.name), environment(container)))
        listed.append(
            File(DIGEST_FILE.format(container.name), digest(container, text, software.files) + "\n")
        )
    return {file.path: file for file in listed}
