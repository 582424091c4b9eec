"""Operator tasks that need more than single commands of `osm`; they use the `osm` client or NBI."""

from builder.start import start


def main() -> None:
    """Run the command line."""
    start("operate.cli")
