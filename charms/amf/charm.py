#!/usr/bin/env python3
"""Charm of the AMF."""

from oai.functions_5g import AmfCharm
from vpnaas.edge import main

if __name__ == "__main__":
    main(AmfCharm)
