"""``osm-lab``: osmclient's verbs for the lab, and their output."""

from lab.cli.commands import cli, main

__all__ = ["cli", "main"]
