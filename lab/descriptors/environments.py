"""Execution environments: which charms a network service starts, and at which level.

Only ``df[0]`` of a descriptor counts. The ``id`` of a ``day1-2`` entry is the id of its element:
the VNFD (VNF level) or a VDU (one environment per instance). Source: OSM 19, LCM
``_deploy_n2vc`` and NBI's ``common-augments``.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from builder.documents import DAY12, walk
from builder.naming import application_name
from lab.errors import LcmError


@dataclass(frozen=True)
class Environment:
    """One execution environment: one charm or chart, deployed once."""

    application: str
    charm: str
    ee_id: str
    member_vnf_index: str
    vdu_id: str | None = None
    count_index: int = 0
    num_units: int = 1
    ssh_user: str | None = None
    """``default-user`` of a required ssh-access; ``None`` means RO injects no key."""
    ssh_required: bool = False
    helm: bool = False  # Whether it is a Helm chart; ``charm`` is then the chart's name.
    initial: tuple[Mapping[str, Any], ...] = field(default=(), compare=False)
    terminate: tuple[Mapping[str, Any], ...] = field(default=(), compare=False)
    config: tuple[Mapping[str, Any], ...] = field(default=(), compare=False)

    @property
    def label(self) -> str:
        """Name for people and for LCM's error texts, ``<member-vnf-index>.<vdu-id>``."""
        return f"{self.member_vnf_index}.{self.vdu_id or ''}"


def day12(vnfd: Mapping[str, Any], entry_id: str) -> Mapping[str, Any] | None:
    """Return the ``day1-2`` entry with that id, or ``None``."""
    entries = (entry for _, entry, _ in walk(vnfd, f"{DAY12}[]"))
    return entry_of(entries, "id", str(entry_id)) or None


def vdu_count(vnfd: Mapping[str, Any], vdu_id: str) -> int:
    """Return how many instances of a VDU the first instantiation level asks for."""
    level = next((level for _, level, _ in walk(vnfd, "df[0]/instantiation-level[0]")), None)
    if level is None:
        # LCM takes the first level without a check.
        raise LcmError(f"vnfd '{vnfd['id']}' has no instantiation-level, on which OSM fails")
    entry = entry_of(level.get("vdu-level"), "vdu-id", str(vdu_id))
    return int(entry.get("number-of-instances", 1))


Instances = Mapping[tuple[str, str], Sequence[int]]
"""(member-vnf-index, VDU) -> count indexes; the descriptor's where there is no entry."""


def environments(
    nsd: Mapping[str, Any],
    vnfds: Mapping[str, Mapping[str, Any]],
    params: Mapping[str, Any],
    instances: Instances | None = None,
) -> list[Environment]:
    """Return every execution environment of a network service.

    A scaled-out VDU has one for each instance. If the VDU has cloud-init, LCM also deploys the
    VNF's charm again for each added instance.

    Args:
        vnfds: member-vnf-index -> VNFD.
        params: instantiation parameters (for ``config-units``).
        instances: count indexes of the VDUs, as scaling changed them.
    """
    if (nsd.get("ns-configuration") or {}).get("juju"):
        raise LcmError(f"nsd '{nsd['id']}' has a charm, the lab runs charms of VNFs and VDUs")
    result: list[Environment] = []
    for index, vnfd in vnfds.items():
        vnf_params = entry_of(params.get("additionalParamsForVnf"), "member-vnf-index", index)
        entry = day12(vnfd, vnfd["id"])
        if entry is not None:
            units = int(vnf_params.get("config-units") or 1)
            result.extend(_of_entry(entry, index, None, 0, units))
            for count in _added(vnfd, index, instances or {}):
                result.extend(_of_entry(entry, index, None, count, units))
        for vdu in vnfd.get("vdu") or ():
            entry = day12(vnfd, vdu["id"])
            if entry is None:
                continue
            vdu_params = entry_of(vnf_params.get("additionalParamsForVdu"), "vdu_id", vdu["id"])
            units = int(vdu_params.get("config-units") or 1)
            for count in counts_of(vnfd, index, vdu["id"], instances):
                result.extend(_of_entry(entry, index, vdu["id"], count, units))
    seen: dict[str, Environment] = {}
    for env in result:
        other = seen.setdefault(env.application, env)
        if other is not env:
            raise LcmError(
                f"execution environments {other.label} and {env.label} would share the "
                f"application name '{env.application}': make their first 12 characters differ"
            )
    return result


def counts_of(
    vnfd: Mapping[str, Any], index: str, vdu_id: str, instances: Instances | None
) -> Sequence[int]:
    """Return the count indexes of a VDU of a member."""
    given = (instances or {}).get((index, vdu_id))
    return range(vdu_count(vnfd, vdu_id)) if given is None else given


def _added(vnfd: Mapping[str, Any], index: str, instances: Instances) -> list[int]:
    """Return the count indexes that scaling added to VDUs with cloud-init."""
    return sorted(
        count
        for vdu in vnfd.get("vdu") or ()
        if vdu.get("cloud-init-file") or vdu.get("cloud-init")
        for count in instances.get((index, vdu["id"]), ())
        if count >= vdu_count(vnfd, vdu["id"])
    )


def _of_entry(
    entry: Mapping[str, Any], index: str, vdu_id: str | None, count: int, units: int
) -> Iterator[Environment]:
    access = (entry.get("config-access") or {}).get("ssh-access") or {}
    for ee in entry.get("execution-environment-list") or ():
        where = f"member-vnf-index={index}, execution environment '{ee.get('id')}'"
        juju, chart = ee.get("juju") or {}, ee.get("helm-chart")
        charm = juju.get("charm") or chart
        if not charm:
            raise LcmError(f"{where} is neither a Juju charm nor a Helm chart")
        if juju.get("cloud") == "k8s" or juju.get("proxy") is False:
            raise LcmError(f"{where} is a native or Kubernetes charm, the lab runs proxy charms")
        yield Environment(
            application=application_name(
                ee_id=ee["id"],
                member_vnf_index=index,
                vdu_id=vdu_id,
                # LCM uses the instance's count index for the VNF, too.
                count=count,
            ),
            charm=charm,
            helm=not juju,
            ee_id=ee["id"],
            member_vnf_index=index,
            vdu_id=vdu_id,
            count_index=count,
            num_units=units,
            ssh_required=bool(access.get("required")),
            ssh_user=access.get("default-user") if access.get("required") else None,
            initial=_of_environment(entry.get("initial-config-primitive"), ee["id"]),
            terminate=_of_environment(entry.get("terminate-config-primitive"), ee["id"]),
            config=_of_environment(entry.get("config-primitive"), ee["id"]),
        )


def _of_environment(primitives: Any, ee_id: str) -> tuple[Mapping[str, Any], ...]:
    return tuple(p for p in primitives or () if p.get("execution-environment-ref", ee_id) == ee_id)


def entry_of(entries: Any, key: str, value: str) -> Mapping[str, Any]:
    """Return the entry whose key has this value, {} where none has."""
    for entry in entries or ():
        if str(entry.get(key)) == value:
            result: Mapping[str, Any] = entry
            return result
    return {}
