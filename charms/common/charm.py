#!/usr/bin/env python3
"""Charm of a VNF that needs no more than its links; `charm.yaml` names them."""

from ops.main import main
from vpnaas.charm import VnfCharm

if __name__ == "__main__":
    main(VnfCharm)
