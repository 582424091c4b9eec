#!/usr/bin/env python3
"""Charm of a VNF that needs no more than its links; `charm.yaml` names them."""

from vpnaas.edge import main

if __name__ == "__main__":
    main("vpnaas.charm", "VnfCharm")
