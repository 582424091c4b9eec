#!/usr/bin/env python3
"""Charm of the MME."""

from oai.functions import MmeCharm
from vpnaas.edge import main

if __name__ == "__main__":
    main(MmeCharm)
