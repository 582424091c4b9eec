"""Relations in the descriptors of a network service, as LCM reads them.

NSD: ``ns-configuration.relation[]``; VNFD: ``relation`` of the ``day1-2`` entry that bears the
VNFD's id (entries of VDUs are ignored).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lab.descriptors.environments import Environment, day12
from lab.errors import LcmError


@dataclass(frozen=True)
class Relation:
    """One relation between two applications; ``provider`` and ``requirer`` are ``app:endpoint``."""

    name: str
    provider: str
    requirer: str

    @property
    def applications(self) -> tuple[str, str]:
        return self.provider.split(":")[0], self.requirer.split(":")[0]


def relations(
    nsd: Mapping[str, Any], vnfds: Mapping[str, Mapping[str, Any]], envs: Sequence[Environment]
) -> list[Relation]:
    """Return all relations of the service.

    An end without an environment is an error here; LCM waits an hour for it.
    """
    result = []
    for entry in (nsd.get("ns-configuration") or {}).get("relation") or ():
        result.append(_join(entry, None, envs))
    for index, vnfd in vnfds.items():
        day = day12(vnfd, vnfd["id"]) or {}
        for entry in day.get("relation") or ():
            result.append(_join(entry, index, envs))
    return result


def _join(entry: Mapping[str, Any], index: str | None, envs: Sequence[Environment]) -> Relation:
    """Return a relation; ``index`` is the member whose VNFD has it, None for one of the NSD."""
    name = entry.get("name")
    if "entities" in entry:
        raise LcmError(f"relation '{name}' has entities, the lab reads provider and requirer")
    ends = []
    for role in ("provider", "requirer"):
        if role not in entry:
            raise LcmError(f"relation '{name}' has no {role}")
        side = entry[role]
        if "endpoint" not in side:
            raise LcmError(f"relation '{name}' has an end without endpoint, on which OSM fails")
        member = index if index is not None else str(side.get("vnf-profile-id"))
        ends.append(f"{_find(side, member, envs, entry).application}:{side['endpoint']}")
    return Relation(str(entry.get("name", "")), *ends)


def _find(
    side: Mapping[str, Any], member: str, envs: Sequence[Environment], entry: Mapping[str, Any]
) -> Environment:
    vdu_id, ee_id = side.get("vdu-profile-id"), side.get("execution-environment-ref")
    for env in envs:
        # Without a reference LCM takes the first Juju environment; of several instances of a
        # VDU only the first one is ever related.
        if (env.member_vnf_index, env.vdu_id) == (member, vdu_id) and ee_id in (None, env.ee_id):
            return env
    where = f"vnf-profile-id {member}"
    if vdu_id:
        where += f", vdu-profile-id {vdu_id}"
    if ee_id:
        where += f", execution-environment-ref {ee_id}"
    raise LcmError(
        f"relation '{entry.get('name')}': no execution environment at {where} "
        f"(endpoint {side['endpoint']})"
    )
