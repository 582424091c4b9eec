#!/usr/bin/env python3
"""Charm of the gNB."""

from oai.functions_5g import GnbCharm
from vpnaas.edge import main

if __name__ == "__main__":
    main(GnbCharm)
