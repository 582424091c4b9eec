#!/usr/bin/env python3
"""Starts the class of the charm's code; the build writes its name, and what is joined with it."""

from vpnaas.edge import main

if __name__ == "__main__":
    main("MODULE", "CLASS", "MORE")
