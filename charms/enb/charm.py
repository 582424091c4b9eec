#!/usr/bin/env python3
"""Charm of the eNB."""

from oai.functions import EnbCharm
from vpnaas.edge import main

if __name__ == "__main__":
    main(EnbCharm)
