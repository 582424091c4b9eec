"""Configurations of strongSwan as somebody writes them by hand (swanctl.conf(5))."""

from __future__ import annotations

from collections.abc import Mapping

Settings = Mapping[str, object]


def section(name: str, settings: Settings, indent: str = "") -> str:
    """Return a section; a mapping in it is a section of its own, an `include` has no sign."""
    lines = [f"{indent}{name} {{\n"]
    for key, value in settings.items():
        if isinstance(value, Mapping):
            lines.append(section(key, value, f"{indent}  "))
        else:
            lines.append(f"{indent}  {key}{' ' if key == 'include' else ' = '}{value}\n")
    return "".join([*lines, f"{indent}}}\n"])


def tunnel(name: str, local: Settings, remote: Settings, child: Settings, **more: object) -> str:
    """Return a connection with one child of the same name, over port 4500.

    `more` are settings of the connection, as are `local` and `remote`; `child` are the child's.
    """
    usual = {"version": 2, "proposals": "aes256gcm16-prfsha384-curve25519"}
    ports = {"local_port": 4500, "remote_port": 4500}
    children = {name: {"esp_proposals": "aes256gcm16-curve25519", **child}}
    ends = {"local": local, "remote": remote, "children": children}
    return section("connections", {name: {**usual, **ports, **more, **ends}})
