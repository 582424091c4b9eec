"""``osm-lab``: osmclient's verbs against the lab, and what they print."""

from lab.cli.commands import cli, main

__all__ = ["cli", "main"]
