#!/usr/bin/env python3
"""Runs the charm; the build writes its kind, and the groups of actions it has besides."""

from vpnaas.edge import main

if __name__ == "__main__":
    main("NAMES")
