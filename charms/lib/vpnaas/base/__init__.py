"""The lowest layer: errors, parsers of single values, names of links, certificates.

Nothing here depends on a VDU, a peer or a tunnel.
"""
