#!/usr/bin/env python3
"""Charm of the UE in an untrusted Wi-Fi."""

from vpnaas.edge import main

if __name__ == "__main__":
    main("oai.functions_5g", "N3ueCharm")
