#!/usr/bin/env python3
"""Charm of a VNF that runs a network function of the EPC on top of its links."""

from oai.charm import NfCharm
from ops.main import main

if __name__ == "__main__":
    main(NfCharm)
