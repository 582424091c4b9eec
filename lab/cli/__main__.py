"""``python -m lab.cli``."""

from lab.cli import main

main()
