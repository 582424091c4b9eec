#!/usr/bin/env python3
"""Charm of the N3IWF."""

from vpnaas.edge import main

if __name__ == "__main__":
    main("oai.functions_5g", "N3iwfCharm")
