"""Day-0 that locks OSM out: no user gets OSM's key, or SSH does not answer at port 22.

RO gives its key to cloud-init's default user and logs in as `default-user` to add the charm's key.
If that fails, LCM waits ten minutes, and the charm never reaches the VDU.
"""

import base64
import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from builder import documents
from builder.userdata import unzipped
from builder.validate.context import Context, Document

MODULES = {"cloud_init_modules": ("users-groups", "ssh")}
"""Modules that make the default user and write its keys, by cloud-init's list that has them."""
NO_SHELL = ("nologin", "false")
Reason = tuple[str, dict[str, Any]]
"""The case of a sentence of `cloud-init-login`, and the words in it."""


def _commands_of(kind: str, flags: int = 0) -> re.Pattern[str]:
    """Return the pattern of the commands of a kind."""
    return re.compile("|".join(_COMMANDS[kind]), flags)


_COMMANDS = documents.read(Path(__file__).with_name("login.yaml"))
STOPS, LOCKS = _commands_of("stops", re.IGNORECASE), _commands_of("locks")
CLOSES, OPENS = _commands_of("closes"), _commands_of("opens")
APPENDED = re.compile(
    r"""\b(?:echo|printf)\s+["']?([^"'>]+?)(?:\\n)?["']?\s*>>?\s*(/etc/ssh/[\w./-]+|/etc/hosts\.deny|/\S*bashrc)"""
)
"""A command that writes a line of sshd's configuration, or of what keeps a login out."""
EDITED = re.compile(r"\bsed\b.*\s(/etc/ssh/[\w./-]+)")
REPLACEMENT = re.compile(r"\bs([/|#,])(?:(?!\1).)*\1((?:(?!\1).)*)\1")
"""What sed(1) writes in place of the lines that it finds."""
SAID = re.compile(r"""\b(?:echo|printf|logger)\s(?:"[^"]*"|'[^']*'|[^;&|>"'])*|^\s*#.*""")
"""Text that a command only prints, or a comment."""
GROUPS = {"adm", "admin", "sudo", "users", "wheel"}
"""Groups of default users of images."""
PORT_22 = re.compile(r"^\s*port[\s=]+\"?22\b", re.IGNORECASE | re.MULTILINE)
KEEPS_OUT = {
    r"/etc/hosts\.deny": r"^\s*(?:ALL|sshd)\s*:.*",
    # sshd has bash read it for a command, too.
    r"/etc/bash\.bashrc|/home/{user}/\.bashrc": r"^(?:exit|exec)\b.*",
}
"""Lines of files, by their paths, with which no command of a login runs."""
SUDO = r"^\s*(?:{user}|ALL|%(?:sudo|admin|wheel))\s[^=#]*=(?!.*NOPASSWD)"
"""A line of sudoers(5), of which the last one counts, that asks for a password."""
SUDOERS = "/etc/sudoers.d/90-cloud-init-users"
HOST_KEYS = {"ecdsa", "ed25519", "rsa"}
SSHD = re.compile(r"/etc/ssh/sshd_config(\.d/[^/]+\.conf)?$")


def shut_out(config: Document, injected: set[str], all_users: set[str]) -> Iterator[Reason]:
    """Return a reason for each way in which a cloud-config locks OSM out.

    Args:
        config: The cloud-config.
        injected: Users whom OSM gives its key, `default-user` of ssh-access.
        all_users: These, and users as whom a charm logs in.
    """
    for user in sorted(injected):
        yield from _default_user(config, user)
        if not _true(config.get("allow_public_ssh_keys", True)):
            yield "keys", {"user": user}
    if not all_users:
        return
    names = ", ".join(sorted(all_users))
    for key, needed in MODULES.items():
        listed = config.get(key)
        if isinstance(listed, list):
            have = {str(item[0] if isinstance(item, list) and item else item) for item in listed}
            missing = [name for name in needed if name not in {h.replace("_", "-") for h in have}]
            if missing:
                yield "modules", {"key": key, "missing": ", ".join(missing), "names": names}
    kinds = config.get("ssh_genkeytypes")
    if isinstance(kinds, list) and not HOST_KEYS & set(map(str, kinds)):
        if not config.get("ssh_keys"):
            yield "hostkeys", {"may": HOST_KEYS}
    power = config.get("power_state")
    if isinstance(power, dict) and str(power.get("mode")) in ("poweroff", "halt"):
        yield "power", {"power": power}
    commands = [(command, SAID.sub("", command)) for command in _commands(config)]
    opened = any(OPENS.search(done) for _, done in commands)
    for command, done in commands:
        if STOPS.search(done) or (CLOSES.search(done) and not opened):
            yield "closed", {"command": _cut(command)}
        for user in sorted(all_users):
            if LOCKS.search(done) and re.search(rf"\b{re.escape(user)}\b", done):
                yield "locked", {"command": _cut(command), "user": user}
    for user in sorted(all_users):
        yield from _expired(config, user, user in injected)
    elsewhere = str({key: value for key, value in config.items() if key != "write_files"})
    for path, text in _files(config):
        if path == "/etc/nologin":
            yield "nologin", {"path": path}
        if path.startswith("/etc/sudoers") and re.search(r"[^!]\brequiretty\b", text):
            yield "requiretty", {"path": path}
        for user in sorted(all_users):
            if SSHD.search(path):
                yield from _sshd(path, text, user, elsewhere)
            asks = path.startswith("/etc/sudoers.d/") and path > SUDOERS
            if asks and re.search(SUDO.format(user=re.escape(user)), text, re.MULTILINE):
                yield "sudo", {"user": user}
            for place, line in KEEPS_OUT.items():
                if re.fullmatch(place.format(user=re.escape(user)), path):
                    for found in re.findall(line, text, re.MULTILINE):
                        yield "sshd", {"path": path, "line": _cut(found), "user": user}


def _default_user(config: Document, user: str) -> Iterator[Reason]:
    """OSM's key goes to cloud-init's default user, who must exist and be OSM's `default-user`."""
    entries = _users(config["users"]) if "users" in config else ["default"]
    own = [entry for entry in entries if _name(entry) == user]
    # cloud-init adds the user whom `user` names to those of `users`.
    if not config.get("user") and all(_name(entry) != "default" for entry in entries):
        made = " is made, but gets no key of OSM" if own else " is not made"
        yield "default", {"user": user, "made": made}
    system = config.get("system_info")
    renamed = [config.get("user"), system.get("default_user") if isinstance(system, dict) else None]
    for value in renamed:
        name = value.get("name") if isinstance(value, dict) else value
        if isinstance(name, str) and name != user:
            yield "renamed", {"name": name, "user": user}
        if isinstance(value, dict):
            own.append(value)
            if user != "root" and "NOPASSWD" not in str(value.get("sudo", "NOPASSWD")):
                yield "sudo", {"user": user}
    for entry in own:
        if isinstance(entry, dict):
            shell = str(entry.get("shell") or "")
            if shell.rpartition("/")[2] in NO_SHELL:
                yield "shell", {"user": user, "shell": shell}
            if entry.get("inactive") or entry.get("expiredate"):
                yield "ends", {"user": user}
    if user == "root" and _true(config.get("disable_root", True)):
        yield "root", {}


def _users(value: Any) -> list[Any]:
    """Return the entries that cloud-init makes of `users`; none of what is no list of users."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",")]
    if isinstance(value, dict):
        return [name for name, user in value.items() if isinstance(user, dict) or _true(user)]
    if not isinstance(value, list):
        return []
    return [each for entry in value for each in (entry if isinstance(entry, list) else [entry])]


def _true(value: Any) -> bool:
    """Tell whether cloud-init takes a value for true."""
    return str(value).strip().lower() in ("true", "1", "on", "yes")


def _expired(config: Document, user: str, default: bool) -> Iterator[Reason]:
    """A password of Day-0 counts as expired, and then sshd runs no command, also with a key."""
    change = config.get("chpasswd")
    change = change if isinstance(change, dict) else {}
    lines, users = change.get("list"), change.get("users")
    lines = lines.splitlines() if isinstance(lines, str) else lines
    names = {str(line).partition(":")[0] for line in lines} if isinstance(lines, list) else set()
    names |= {_name(entry) for entry in users} if isinstance(users, list) else set()
    if not names and default and config.get("password"):
        names = {user}
    if user in names and _true(change.get("expire", True)):
        yield "expires", {"user": user}


def _name(entry: Any) -> str:
    return str(entry.get("name", "default")) if isinstance(entry, dict) else str(entry)


def _commands(config: Document) -> Iterator[str]:
    for key in ("bootcmd", "runcmd"):
        listed = config.get(key)
        for command in listed if isinstance(listed, list) else ():
            text = " ".join(map(str, command)) if isinstance(command, list) else str(command)
            yield from text.splitlines()


def _files(config: Document) -> Iterator[tuple[str, str]]:
    listed = config.get("write_files")
    for file in listed if isinstance(listed, list) else ():
        if isinstance(file, dict):
            yield str(file.get("path")), _content(file)
    for command in _commands(config):
        added = APPENDED.search(command)
        if added:
            yield added.group(2), added.group(1)
        edited = EDITED.search(command)
        if edited:
            for replacement in REPLACEMENT.finditer(command):
                yield edited.group(1), replacement.group(2)


def _content(file: Document) -> str:
    """Return the text of an entry of write_files, unpacked as cloud-init does."""
    content, encoding = file.get("content") or "", str(file.get("encoding")).lower().strip()
    data = content if isinstance(content, bytes) else str(content).encode()
    with suppress(ValueError, zlib.error):
        if encoding.endswith(("b64", "base64")):
            data = base64.b64decode(data)
        if encoding.startswith("gz"):
            data = unzipped(data)
    return data.decode("utf-8", "replace")


def _sshd(path: str, text: str, user: str, elsewhere: str) -> Iterator[Reason]:
    """Check lines of sshd_config(5), up to the first Match.

    A user may be in any group that Day-0 names `elsewhere`.
    """
    at_22 = PORT_22.search(text) is not None  # sshd listens on the ports of all lines.
    for line in text.splitlines():
        word, rest = [*re.split(r"[\s=]+", line.strip(), maxsplit=1), ""][:2]
        values, word = rest.replace('"', "").split(), word.lower()
        if word == "match":
            return
        plain = {value.partition("@")[0] for value in values}
        member = {user, "*", *GROUPS} | {value for value in plain if value in elsewhere}
        if (
            (word == "port" and not at_22)
            or (word == "pubkeyauthentication" and values == ["no"])
            or word == "forcecommand"
            or (word == "listenaddress" and rest.startswith(("127.", "::1", "localhost")))
            or (word == "authorizedkeysfile" and ".ssh/authorized_keys" not in rest)
            or (word == "authenticationmethods" and "publickey" not in values)
            or (word == "denyusers" and plain & {user, "*"})
            or (word == "allowusers" and not plain & {user, "*"})
            or (word == "denygroups" and plain & {user, "*"})
            or (word == "allowgroups" and not plain & member)
            or (word == "maxsessions" and values == ["0"])
            or (word == "permitrootlogin" and user == "root" and values == ["no"])
        ):
            yield "sshd", {"path": path, "line": _cut(line.strip()), "user": user}


def _cut(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")


def logins(ctx: Context, vdu: str) -> tuple[set[str], set[str]]:
    """Return the users whom OSM gives its key on a VDU, and all as whom OSM or a charm logs in."""
    points = {point["id"]: point.get("int-cpd") or {} for point in ctx.body.get("ext-cpd") or ()}
    managed = points.get(str(ctx.body.get("mgmt-cp")), {}).get("vdu-id")
    injected, users = set(), set()
    for _, entry in ctx.day12():
        if entry["id"] != vdu and not (entry["id"] == ctx.body["id"] and managed == vdu):
            continue
        access = (entry.get("config-access") or {}).get("ssh-access") or {}
        if access.get("required") and access.get("default-user"):
            injected.add(str(access["default-user"]))
        for primitive in entry.get("initial-config-primitive") or ():
            for parameter in primitive.get("parameter") or ():
                value = str(parameter.get("value") or "")
                if primitive["name"] == "config" and parameter["name"] == "ssh-username":
                    users |= {value} if value and not value.startswith("<") else set()
    return injected, injected | users
