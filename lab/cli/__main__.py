"""``python -m lab.cli``."""

from lab.cli.commands import main

main()
