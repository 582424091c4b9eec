#!/usr/bin/env python3
"""Charm of the UE in an untrusted Wi-Fi."""

from oai.functions_5g import N3ueCharm
from vpnaas.edge import main

if __name__ == "__main__":
    main(N3ueCharm)
