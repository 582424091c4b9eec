"""What a network service consists of, read from its descriptors as OSM's LCM reads them.

This package only computes; it creates no resources.
"""
