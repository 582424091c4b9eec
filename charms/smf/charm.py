#!/usr/bin/env python3
"""Charm of the SMF."""

from oai.functions_5g import SmfCharm
from vpnaas.edge import main

if __name__ == "__main__":
    main(SmfCharm)
