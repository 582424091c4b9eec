"""What a network service consists of, read from its descriptors as OSM's LCM reads them.

Nothing here makes anything.
"""
