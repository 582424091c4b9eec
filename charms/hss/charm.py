#!/usr/bin/env python3
"""Charm of the HSS."""

from oai.functions import HssCharm
from ops.main import main

if __name__ == "__main__":
    main(HssCharm)
