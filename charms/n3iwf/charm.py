#!/usr/bin/env python3
"""Charm of the N3IWF."""

from oai.functions_5g import N3iwfCharm
from vpnaas.edge import main

if __name__ == "__main__":
    main(N3iwfCharm)
