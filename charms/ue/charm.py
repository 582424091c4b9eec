#!/usr/bin/env python3
"""Charm of the UE."""

from oai.functions import UeCharm
from vpnaas.edge import main

if __name__ == "__main__":
    main(UeCharm)
