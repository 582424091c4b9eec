"""``osm-lab``: osmclient's verbs for the lab, and their output."""

from builder.start import start


def main() -> None:
    """Run the command line."""
    start("lab.cli.commands")
