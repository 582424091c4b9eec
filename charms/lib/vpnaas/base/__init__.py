"""What everything else stands on: errors, parsers of single values, names of links, certificates.

Nothing here knows of a VDU, a peer or a tunnel.
"""
