"""Container images of the network functions (reasons: docs/reference/network-functions.md)."""

from typing import Dict, List, Tuple

import attr
from vpnaas.base import tables

DEFAULT_PREFIX = "docker.io"


# gNB and nrUE must be of the same build: the simulated radio follows no standard.
IMAGES: Dict[str, List[str]] = tables.read("images.json", __package__)
"""Name below the registry prefix, and tag or digest, by container."""


@attr.frozen
class Registry:
    """Where images come from."""

    prefix: str = DEFAULT_PREFIX  # Registry, with optional port and path.
    # Tags, digests (`sha256:...`) or both (`TAG@sha256:...`) that replace those of `IMAGES`, by
    # container.
    pins: Tuple[Tuple[str, str], ...] = ()

    def reference(self, container: str) -> str:
        version = self.version(container)
        # A digest is enough; not every engine accepts a tag beside it.
        version = "@" + version.rpartition("@")[2] if ":" in version else ":" + version
        return "{}/{}{}".format(self.prefix, IMAGES[container][0], version)

    def version(self, container: str) -> str:
        """Return the tag, the digest, or both with an `@` between."""
        return dict(self.pins).get(container, IMAGES[container][1])
