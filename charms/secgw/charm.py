#!/usr/bin/env python3
"""Charm of a security gateway, which may be one of a pair."""

from vpnaas.edge import main

if __name__ == "__main__":
    main("vpnaas.pair_charm", "GatewayCharm")
