"""Assembles OSM packages from the sources of this repository, and validates packages."""

from builder.start import start


def main() -> None:
    """Run the command line."""
    start("builder.cli")
