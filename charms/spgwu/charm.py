#!/usr/bin/env python3
"""Charm of the SPGW-U."""

from vpnaas.edge import main

if __name__ == "__main__":
    main("oai.functions", "SpgwuCharm")
