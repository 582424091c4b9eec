"""Targets for Prometheus: the exporters of the VNFs of network services.

By the labels `ns_id`, `vnf_member_index` and `vdu_id` OSM 19 tells VDUs apart in the rules it makes
of VNFDs' alarms.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from operate.client import Client, OperateError

PORT = 9815


def targets(client: Client, names: Iterable[str], port: int, turn_on: bool) -> list[dict[str, Any]]:
    """Return entries for Prometheus's file_sd_configs.

    Args:
        client: Of OSM.
        names: NS or NS/MEMBER-VNF-INDEX.
        port: TCP port of the exporters.
        turn_on: Whether to have the exporters run first, by the primitive configure-monitoring.

    Raises:
        OperateError: there is no such member, it has no address, or a verb or primitive failed.
    """
    return [
        _target(client, name, record, port, turn_on)
        for name in names
        for record in _members(client, name)
    ]


def _members(client: Client, name: str) -> list[dict[str, Any]]:
    ns, _, member = name.partition("/")
    ids = client.document("ns-show", ns).get("constituent-vnfr-ref") or []
    records = [client.document("vnf-show", str(id)) for id in ids]
    if not member:
        return records
    matching = [record for record in records if record["member-vnf-index-ref"] == member]
    if not matching:
        known = ", ".join(record["member-vnf-index-ref"] for record in records)
        raise OperateError(f"{ns} has no VNF {member}; allowed: {known}")
    return matching


def _target(
    client: Client, name: str, record: dict[str, Any], port: int, turn_on: bool
) -> dict[str, Any]:
    ns, member = name.partition("/")[0], str(record["member-vnf-index-ref"])
    # OSM writes several addresses as one text.
    address = str(record.get("ip-address") or "").split(";")[0]
    if not address:
        raise OperateError(f"{ns}/{member} has no management address")
    if turn_on:
        client.action(ns, member, "configure-monitoring", {"exporter-port": port})
    host = f"[{address}]" if ":" in address else address
    labels = {
        "ns": ns,
        "vnf": member,
        "ns_id": str(record["nsr-id-ref"]),
        "vnf_member_index": member,
        "vdu_id": str(record["vdur"][0]["vdu-id-ref"]),
    }
    return {"targets": [f"{host}:{port}"], "labels": labels}
