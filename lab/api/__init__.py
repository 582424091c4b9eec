"""OSM's northbound interface over HTTPS, in front of the lab's engine.

Paths, statuses and error bodies are those of OSM's NBI (osm_nbi/nbi.py), which follow SOL005.
"""
