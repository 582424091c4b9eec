#!/usr/bin/env python3
"""Charm of the nrUE."""

from vpnaas.edge import main

if __name__ == "__main__":
    main("oai.functions_5g", "NrUeCharm")
