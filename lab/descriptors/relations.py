"""Relations in the descriptors of a network service, as LCM reads them.

NSD: ``ns-configuration.relation[]``; VNFD: ``relation`` of the ``day1-2`` entry that bears the
VNFD's id (entries of VDUs are ignored). Two spellings: ``provider``/``requirer``, and the
deprecated ``entities`` pair, whose first member is the provider.
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
        """The two application names."""
        return self.provider.split(":")[0], self.requirer.split(":")[0]


def relations(
    nsd: Mapping[str, Any],
    vnfds: Mapping[str, Mapping[str, Any]],
    envs: Sequence[Environment],
) -> list[Relation]:
    """Return all relations of the service.

    An end without an environment is an error here; LCM waits an hour for it.
    """
    result = []
    for entry in (nsd.get("ns-configuration") or {}).get("relation") or ():
        ends = [_end(side, entry, nsd["id"], None) for side in _sides(entry)]
        result.append(_join(entry, ends, envs))
    for index, vnfd in vnfds.items():
        day = day12(vnfd, vnfd["id"]) or {}
        for entry in day.get("relation") or ():
            ends = [_end(side, entry, vnfd["id"], index) for side in _sides(entry)]
            result.append(_join(entry, ends, envs))
    return result


@dataclass(frozen=True)
class _End:
    member_vnf_index: str | None
    vdu_id: str | None
    ee_id: str | None
    endpoint: str


def _sides(entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    name = entry.get("name")
    if "entities" in entry:
        if "provider" in entry or "requirer" in entry:
            raise LcmError(f"relation '{name}' has both entities and provider/requirer, use one")
        entities = list(entry["entities"])
        if len(entities) != 2:
            raise LcmError(f"relation '{name}' must have two entities, it has {len(entities)}")
        return [{**e, "entity": e["id"]} for e in entities]
    missing = [side for side in ("provider", "requirer") if side not in entry]
    if missing:
        raise LcmError(f"relation '{name}' has no {missing[0]}")
    return [entry["provider"], entry["requirer"]]


def _end(side: Mapping[str, Any], entry: Mapping[str, Any], top: str, index: str | None) -> _End:
    """Return an end of a relation.

    ``top`` is the id of the descriptor that has the relation, ``index`` its member (None: an NSD).
    """
    if "entity" not in side and side.get("kdu-resource-profile-id"):
        raise LcmError(f"relation '{entry.get('name')}' names a KDU, the lab runs none")
    if "endpoint" not in side:
        raise LcmError(
            f"relation '{entry.get('name')}' has an end without endpoint, on which OSM fails"
        )
    endpoint = str(side["endpoint"])
    if "entity" in side:
        below = None if side["entity"] == top else str(side["entity"])
        vnf, vdu = (below, None) if index is None else (index, below)
        return _End(vnf, vdu, None, endpoint)
    profile = side.get("vnf-profile-id")
    if index is None and profile is not None:
        index = str(profile)
    return _End(index, side.get("vdu-profile-id"), side.get("execution-environment-ref"), endpoint)


def _join(entry: Mapping[str, Any], ends: Sequence[_End], envs: Sequence[Environment]) -> Relation:
    names = [f"{_find(end, envs, entry).application}:{end.endpoint}" for end in ends]
    return Relation(str(entry.get("name", "")), names[0], names[1])


def _find(end: _End, envs: Sequence[Environment], entry: Mapping[str, Any]) -> Environment:
    for env in envs:
        if env.member_vnf_index != end.member_vnf_index or env.vdu_id != end.vdu_id:
            continue
        # Without a reference LCM takes the first Juju environment; of several instances of a
        # VDU only the first one is ever related.
        if end.ee_id is None or env.member_vnf_index is None or env.ee_id == end.ee_id:
            return env
    where = f"vnf-profile-id {end.member_vnf_index}" if end.member_vnf_index else "the NS"
    if end.vdu_id:
        where += f", vdu-profile-id {end.vdu_id}"
    if end.ee_id:
        where += f", execution-environment-ref {end.ee_id}"
    raise LcmError(
        f"relation '{entry.get('name')}': no execution environment at {where} "
        f"(endpoint {end.endpoint})"
    )
