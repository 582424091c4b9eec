"""The technologies that secure a link, and what they share.

A technology is one class with one interface (`technology`), in a package of its own. `keyed` holds
the key rotation that WireGuard and IPsec share, `nesting` tunnels inside tunnels.
"""
