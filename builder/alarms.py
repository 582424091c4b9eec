"""Alarms of VNFDs, for operators who have a receiver for the notifications.

OSM 19 turns a VDU's alarm into a rule of its Prometheus. The rule compares `osm_<performance
metric>` of the VDU with a value, and OSM posts to the alarm's URLs. A URL belongs to a site and
not to a package. So packages have alarms only if the build gets a URL.
operate/prometheus/osm.yaml records this metric from the metrics of our exporters.
"""

import copy
from typing import Any
from urllib.parse import urlsplit

from builder.errors import BuildError

METRIC = "vpnaas_peers_down"


def receiver(text: str) -> str:
    try:
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # a host like "[", a port like 99999
        good = False
    if not good or " " in text:
        raise BuildError(f"alarm URL '{text}': allowed is http://HOST/PATH or https://HOST/PATH")
    return text


def with_alarms(document: dict[str, Any], url: str) -> dict[str, Any]:
    """Return a VNFD whose VDUs notify `url` when a peer is down, and when all are up again.

    A VDU gets only one alarm. If it had several, OSM would change the state of the first alarm it
    finds and not of the alarm that fired.
    """
    document = copy.deepcopy(document)
    for vdu in document["vnfd"]["vdu"]:
        name = f"{vdu['id']}-peers-down"
        vdu["monitoring-parameter"] = [
            *vdu.get("monitoring-parameter", ()),
            {"id": name, "name": name, "performance-metric": METRIC},
        ]
        vdu["alarm"] = [
            {
                "alarm-id": name,
                "vnf-monitoring-param-ref": name,
                "operation": "GE",
                "value": 1,
                "actions": {state: [{"url": url}] for state in ("alarm", "ok")},
            }
        ]
    return document
