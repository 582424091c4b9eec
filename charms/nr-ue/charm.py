#!/usr/bin/env python3
"""Charm of the nrUE."""

from oai.functions_5g import NrUeCharm
from vpnaas.edge import main

if __name__ == "__main__":
    main(NrUeCharm)
