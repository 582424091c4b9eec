#!/usr/bin/env python3
"""Charm of an access VNF."""

from vpnaas.edge import main

if __name__ == "__main__":
    main("vpnaas.access_charm", "AccessCharm")
