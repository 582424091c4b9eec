"""Container images of the network functions; docs/reference/network-functions.md says why these."""

from typing import Dict

DEFAULT_PREFIX = "docker.io"

IMAGES: Dict[str, str] = {
    "cassandra": "library/cassandra:2.1",
    "hss": "oaisoftwarealliance/oai-hss:latest",
    "redis": "library/redis:6.0.5",
    "mme": "oaisoftwarealliance/magma-mme:latest",
    "spgwc": "oaisoftwarealliance/oai-spgwc:latest",
    "spgwu": "oaisoftwarealliance/oai-spgwu-tiny:v1.5.1",
    "enb": "oaisoftwarealliance/oai-enb:2022.w46",
    "ue": "oaisoftwarealliance/oai-lte-ue:2022.w46",
}
"""Name and tag, or `NAME@sha256:DIGEST`, below the registry prefix, by container."""


def reference(container: str, prefix: str = DEFAULT_PREFIX) -> str:
    """Return the full reference of a container's image."""
    return "{}/{}".format(prefix, IMAGES[container])
