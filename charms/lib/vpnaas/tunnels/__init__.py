"""The technologies that secure a link, and their common code.

Each technology is one class with the interface in `technology`, in a separate package. `keyed` is
the key rotation that WireGuard and IPsec share. `nesting` handles tunnels inside tunnels.
"""
