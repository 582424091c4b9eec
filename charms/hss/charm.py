#!/usr/bin/env python3
"""Charm of the HSS."""

from oai.functions import HssCharm
from vpnaas.edge import main

if __name__ == "__main__":
    main(HssCharm)
