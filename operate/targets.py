"""Targets for Prometheus: the exporters of the VNFs of network services.

OSM 19 uses the labels `ns_id`, `vnf_member_index` and `vdu_id` to identify VDUs in the rules that
it makes from VNFDs' alarms.
"""

from collections.abc import Iterable

from operate.client import Instance, OperateError, understood
from operate.nbi import Document
from operate.osm import Driver, charms_of

PORT = 9815


@understood("OSM")
def targets(client: Driver, names: Iterable[str], port: int, turn_on: bool) -> list[Document]:
    """Return entries for Prometheus's file_sd_configs.

    Args:
        names: NS or NS/MEMBER-VNF-INDEX.
        port: TCP port of the exporters.
        turn_on: Whether to start the exporters first, with the primitive configure-monitoring.
    """
    entries = []
    for name in names:
        ns, member, service = _service(client, name)
        for record in _members(client, ns, service, member):
            entries += [
                _target(client, ns, record, instance, port, turn_on)
                for instance in _instances(service, record)
            ]
    return entries


def _service(client: Driver, name: str) -> tuple[str, str, Document]:
    """Return the service, the member ("": all) and the service's record."""
    try:
        return name, "", client.document("ns-show", name)
    except OperateError:
        if "/" not in name:  # the names of services may have it as well
            raise
    ns, _, member = name.rpartition("/")
    return ns, member, client.document("ns-show", ns)


def _members(client: Driver, ns: str, service: Document, member: str) -> list[Document]:
    ids = service.get("constituent-vnfr-ref") or []
    records = [client.document("vnf-show", str(id)) for id in ids]
    if not member:
        return records
    matching = [record for record in records if record["member-vnf-index-ref"] == member]
    if not matching:
        known = ", ".join(record["member-vnf-index-ref"] for record in records)
        raise OperateError(f"{ns} has no VNF {member}; allowed: {known}")
    return matching


def _instances(service: Document, record: Document) -> list[Instance]:
    """Return the instance of each charm of a VNF, or None for a charm of the whole VNF."""
    member = record["member-vnf-index-ref"]
    found = {instance for index, instance in charms_of(service) if index == member and instance}
    return [*sorted(found)] or [None]


def _target(
    client: Driver, ns: str, record: Document, instance: Instance, port: int, turn_on: bool
) -> Document:
    member, place = str(record["member-vnf-index-ref"]), record
    if instance is not None:
        vdus = {(v["vdu-id-ref"], v["count-index"]): v for v in record["vdur"]}
        place = vdus.get(instance, {})  # OSM removes the charm of a scaled-in VDU after the VDU
    # If there are several addresses, OSM writes them as one text with ";".
    address = str(place.get("ip-address") or "").split(";")[0]
    if not address:
        raise OperateError(f"{ns}/{member} has no management address")
    if turn_on:
        given = {"exporter-port": port}
        service = str(record["nsr-id-ref"])  # Another service may get the name meanwhile.
        client.action(service, member, "configure-monitoring", given, instance=instance)
    host = f"[{address}]" if ":" in address else address
    labels = {
        "ns": ns,
        "vnf": member,
        "ns_id": str(record["nsr-id-ref"]),
        "vnf_member_index": member,
        "vdu_id": instance[0] if instance else str(record["vdur"][0]["vdu-id-ref"]),
    }
    return {"targets": [f"{host}:{port}"], "labels": labels}
