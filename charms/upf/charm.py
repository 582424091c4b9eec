#!/usr/bin/env python3
"""Charm of the UPF."""

from oai.functions_5g import UpfCharm
from vpnaas.edge import main

if __name__ == "__main__":
    main(UpfCharm)
