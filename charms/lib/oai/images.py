"""Container images of the network functions (reasons: docs/reference/network-functions.md)."""

from typing import Dict, Tuple

import attr

DEFAULT_PREFIX = "docker.io"

IMAGES: Dict[str, Tuple[str, str]] = {
    "cassandra": ("library/cassandra", "2.1.22"),
    "hss": ("oaisoftwarealliance/oai-hss", "latest"),
    "redis": ("library/redis", "6.0.5"),
    "mme": (
        "oaisoftwarealliance/magma-mme",
        "sha256:2585b66e3e2a254e17181030b0e9b2cf1df664e6fc1a07c4527f6994adc7c2a4",
    ),
    "spgwc": ("oaisoftwarealliance/oai-spgwc", "latest"),
    "spgwu": ("oaisoftwarealliance/oai-spgwu-tiny", "v1.5.1"),
    "enb": ("oaisoftwarealliance/oai-enb", "2022.w46"),
    "ue": ("oaisoftwarealliance/oai-lte-ue", "2022.w46"),
    "mysql": ("library/mysql", "9.6.0"),
    "nrf": ("oaisoftwarealliance/oai-nrf", "v2.2.1"),
    "udr": ("oaisoftwarealliance/oai-udr", "v2.2.1"),
    "udm": ("oaisoftwarealliance/oai-udm", "v2.2.1"),
    "ausf": ("oaisoftwarealliance/oai-ausf", "v2.2.1"),
    "amf": ("oaisoftwarealliance/oai-amf", "v2.2.1"),
    "smf": ("oaisoftwarealliance/oai-smf", "v2.2.1"),
    "upf": ("oaisoftwarealliance/oai-upf", "v2.2.1"),
    "n3iwf": ("free5gc/n3iwf", "v4.2.3"),
    "n3iwue": ("free5gc/n3iwue", "latest"),
    # gNB and nrUE must be of the same build: the simulated radio follows no standard.
    "gnb": (
        "oaisoftwarealliance/oai-gnb",
        "sha256:afb4d40130632502c74e166e52663c49a3ac183b3983f1132a97d49bbdf7281e",
    ),
    "nr-ue": (
        "oaisoftwarealliance/oai-nr-ue",
        "sha256:54368b56e1a506d9be91a72c1d9330247d49358e16b154df2481ec192e4cc1ec",
    ),
}
"""Name below the registry prefix, and tag or digest, by container."""


@attr.frozen
class Registry:
    """Where images come from."""

    prefix: str = DEFAULT_PREFIX  # Registry, with optional port and path.
    # Tags, digests (`sha256:...`) or both (`TAG@sha256:...`) that replace those of `IMAGES`, by
    # container.
    pins: Tuple[Tuple[str, str], ...] = ()

    def reference(self, container: str) -> str:
        """Return the full reference of a container's image."""
        version = self.version(container)
        # A digest is enough; not every engine accepts a tag beside it.
        version = "@" + version.rpartition("@")[2] if ":" in version else ":" + version
        return "{}/{}{}".format(self.prefix, IMAGES[container][0], version)

    def version(self, container: str) -> str:
        """Return the tag, the digest, or both with an `@` between."""
        return dict(self.pins).get(container, IMAGES[container][1])
