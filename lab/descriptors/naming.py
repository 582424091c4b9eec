"""Names LCM gives to applications, machines and servers.

Source: OSM 19, n2vc (``_generate_application_name``, ``obj_to_valid...``) and RO ng.
"""

import re


def application_name(
    *, ee_id: str, member_vnf_index: str, vdu_id: str | None, vnf_count: int = 0, vdu_count: int = 0
) -> str:
    """Return the Juju application name of an execution environment.

    VNF level:  ``<ee[:12]>-<n>-<index[:12]>-vnf``
    VDU level:  ``<ee[:12]>-<n>-<index[:12]>-<vdu[:12]>-<n>-vdu``

    Juju allows no dash-separated group that is all digits, so these get a ``z`` in front. Because
    of the truncation two environments can end up with one name; the caller must check.
    """
    if vdu_id is None:
        raw = f"{ee_id[:12]}-{vnf_count}-{member_vnf_index[:12]}-vnf"
    else:
        raw = f"{ee_id[:12]}-{vnf_count}-{member_vnf_index[:12]}-{vdu_id[:12]}-{vdu_count}-vdu"
    return juju_name(raw)


def juju_name(raw: str) -> str:
    """Turn a text into an application name as n2vc does; Juju refuses what stays in it.

    Lower case, ``_`` and spaces become ``-``, an empty group or one of digits only gets ``z``, and
    so does a digit at the start.
    """
    groups = re.sub("[_ -]+", "-", raw.lower()).split("-")
    name = "-".join(group if group.strip("0123456789") else f"z{group}" for group in groups)
    return f"z{name}" if name[0].isdigit() else name


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
