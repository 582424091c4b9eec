#!/usr/bin/env python3
"""Charm of the SPGW-C."""

from oai.functions import SpgwcCharm
from vpnaas.edge import main

if __name__ == "__main__":
    main(SpgwcCharm)
