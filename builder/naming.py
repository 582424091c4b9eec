"""Names that LCM gives to applications of Juju.

Source: OSM 19, n2vc (``_generate_application_name``, ``obj_to_valid...``).
"""

import re

from builder.declarations import NAME

LENGTH = 12  # Characters of an id that LCM puts into the name.


def application_name(
    *, ee_id: str, member_vnf_index: str, vdu_id: str | None, count: int = 0
) -> str:
    """Return the Juju application name of an execution environment.

    VNF level:  ``<ee[:12]>-<n>-<index[:12]>-vnf``
    VDU level:  ``<ee[:12]>-<n>-<index[:12]>-<vdu[:12]>-<n>-vdu``

    Because of the truncation two environments can end up with one name; the caller must check.
    """
    parts = [ee_id[:LENGTH], count, member_vnf_index[:LENGTH]]
    parts += ["vnf"] if vdu_id is None else [vdu_id[:LENGTH], count, "vdu"]
    return juju_name("-".join(map(str, parts)))


def juju_name(raw: str) -> str:
    """Turn a text into an application name as n2vc does; Juju refuses what stays in it.

    Lower case, ``_`` and spaces become ``-``. Juju allows no dash-separated group that is empty or
    all digits, so these get a ``z`` in front, and so does a digit at the start.
    """
    groups = re.sub("[_ -]+", "-", raw.lower()).split("-")
    name = "-".join(group if group.strip("0123456789") else f"z{group}" for group in groups)
    return f"z{name}" if name[0].isdigit() else name


def is_refused(id: str) -> bool:
    """Tell whether Juju refuses an application because of this id in its name."""
    return NAME.fullmatch(juju_name(id[:LENGTH])) is None
