#!/usr/bin/env python3
"""Charm of the SPGW-U."""

from oai.functions import SpgwuCharm
from vpnaas.edge import main

if __name__ == "__main__":
    main(SpgwuCharm)
