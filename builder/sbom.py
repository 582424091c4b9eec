"""Bill of materials of charms, or of the pods' image: their wheels, as CycloneDX 1.5 JSON."""

import datetime
import uuid
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL

from builder import archive, helm
from builder.tree import Tree
from builder.vendor import pinned, wheels


def write(tree: Tree, path: Path, architecture: str, pods: bool = False) -> None:
    """Write the bill of materials: each wheel with version and SHA-256.

    Args:
        architecture: Architecture of the proxy machines, or of the cluster's nodes.
        pods: Whether the packages have Helm execution environments and no charms.
    """
    bom = Bom(serial_number=uuid.uuid5(uuid.NAMESPACE_URL, f"osm-vpnaas/{tree.version}"))
    name = "osm-vpnaas"
    project = Component(
        name=name, version=tree.version, type=ComponentType.APPLICATION, bom_ref=name
    )
    bom.metadata.component = project
    # A fixed time, so that the same sources give the same bytes.
    bom.metadata.timestamp = datetime.datetime.fromtimestamp(archive.TIMESTAMP, datetime.UTC)
    components = (
        pinned(tree.common / helm.PINS, architecture) if pods else wheels(tree, architecture)
    )
    for wheel in components:
        url = PackageURL("pypi", name=wheel.name.lower(), version=wheel.version)
        qualified = f"{url.to_string()}?python={wheel.python}" if wheel.python else url.to_string()
        bom.components.add(
            Component(
                name=wheel.name,
                version=wheel.version,
                type=ComponentType.LIBRARY,
                purl=url,
                bom_ref=qualified,
                hashes=[HashType(alg=HashAlgorithm.SHA_256, content=wheel.sha256)],
                description=f"the backend for Python {wheel.python} only" if wheel.python else None,
            )
        )
    bom.register_dependency(project, bom.components)
    outputter = make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_5)
    path.write_text(outputter.output_as_string(indent=1) + "\n", encoding="utf-8")
