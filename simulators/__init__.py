"""Simulators of the container images that an offline machine cannot pull.

They speak the real protocols, and read the configuration files of the images. Charms and packages
need no change. Rooms, from the top: `programs` and `engine`, `wifi`, `epc` and `core5g`, `shared`,
`transport`. A module imports from its own room and from those below it.
"""
