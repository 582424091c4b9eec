"""Names that RO gives to servers and networks; `builder.naming` has those of applications."""

import re


def server_name(ns_name: str, member_vnf_index: str, vdu_name: str, count: int) -> str:
    """Return the name RO gives a server; older releases cut the parts (16, 16, 32 characters)."""
    return f"{ns_name}-{member_vnf_index}-{vdu_name}-{count}"


def host_name(server: str) -> str:
    """Return the host name a cloud derives from a server name (RFC 1123 label, 63 characters)."""
    text = re.sub(r"[^a-z0-9-]+", "-", server.lower()).strip("-")
    return text[:63].strip("-") or "vdu"


def network_name(ns_name: str, link: str) -> str:
    """Return the name RO gives a network it creates for a virtual link."""
    return f"{ns_name[:16]}-{link[:16]}"
