"""Assembly: from source packages to dist/."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from builder import alarms, archive, charms, deployment, descriptors, helm, variants
from builder.errors import BuildError
from builder.tree import Tree

Progress = Callable[[str], None]
ENDINGS = {"vnf": "vnfd.yaml", "ns": "nsd.yaml", "nst": "nst.yaml"}
VNFD_VERSION = "1.0"
"""NBI refuses another version of a VNFD in use, and with it the charms of a new release."""


@dataclass(frozen=True)
class Package:
    """A package to build.

    Attributes:
        name: Name of archive and top folder.
        kind: "vnf", "ns" or "nst".
        file: Name of the descriptor in the package.
        descriptor: Its content, expanded.
    """

    name: str
    kind: str
    file: str
    descriptor: dict[str, Any]


def catalogue(tree: Tree) -> dict[str, Package]:
    """Return every package this tree can build, by name."""
    result: dict[str, Package] = {}
    for kind, ending in ENDINGS.items():
        for path in sorted(tree.root.glob(f"{kind}-packages/*/*_{ending}")):
            name = path.parent.name
            if name in result:
                raise BuildError(f"{path.parent}: more than one descriptor, allowed is one")
            document = descriptors.load(tree, path)
            if kind != "nst":  # OSM's template has no such field
                body = document["vnfd"] if kind == "vnf" else document["nsd"]["nsd"][0]
                body["version"] = VNFD_VERSION if kind == "vnf" else tree.version
            result[name] = Package(name, kind, path.name, document)
    for variant in variants.load(tree):
        for service in variant.services:
            if service not in result:
                raise BuildError(f"ns-packages/variants.yaml: no service {service}")
            source = result[service]
            for vnfd in source.descriptor["nsd"]["nsd"][0]["vnfd-id"]:
                if vnfd not in result:
                    raise BuildError(f"{service}: vnfd-id: no VNF package {vnfd}")
                name = vnfd + variant.suffix
                base = result[vnfd]
                document = variants.vnfd(base.descriptor, variant)
                result[name] = Package(name, "vnf", base.file, document)
            name = service + variant.suffix
            document = variants.nsd(source.descriptor, variant)
            # The file keeps its name: `osm package-build` looks for *nfd.yaml and *nsd.yaml.
            result[name] = Package(name, "ns", source.file, document)
    return result


def build(
    tree: Tree,
    target: Path,
    names: Iterable[str] = (),
    architecture: str = "x86_64",
    progress: Progress = lambda _: None,
    alarm_url: str = "",
    image: str = "",
) -> list[Path]:
    """Build packages into `target` and all parameter files into `target`/params.

    Each archive's content is also written to a folder beside it, with the package's name.

    Args:
        tree: Source tree.
        target: Folder, made if missing.
        names: Packages, all if empty.
        architecture: Architecture of the proxy machines, for the vendored wheels.
        progress: Called with the name of each package before it is built.
        alarm_url: Receiver of the VDUs' alarms; if it is empty, VNFDs have no alarms.
        image: Container image of Helm execution environments; if it is empty, VNFs have charms.

    Returns:
        The archives.
    """
    packages = catalogue(tree)
    chosen = list(dict.fromkeys(names)) or list(packages)
    for name in chosen:
        if name not in packages:
            raise BuildError(f"no package {name}; allowed: {', '.join(packages)}")
    # Read all sources first, so that an error in them is found before anything is written.
    parameters = variants.parameter_files(tree)
    parameters |= deployments(tree, packages, parameters)
    if image:
        parameters = {name: related(d, packages) for name, d in parameters.items()}
        packages = {name: without_juju(package) for name, package in packages.items()}
    target.mkdir(parents=True, exist_ok=True)
    built = []
    for name in chosen:
        progress(name)
        package = packages[name]
        if alarm_url and package.kind == "vnf":
            document = alarms.with_alarms(package.descriptor, alarms.receiver(alarm_url))
            package = replace(package, descriptor=document)
        built.append(_build_one(tree, package, target, architecture, image))
    if image:
        helm.context(tree, target / helm.CONTEXT)
    folder = target / "params"
    folder.mkdir(exist_ok=True)
    for name, document in parameters.items():
        variants.dump(document, folder / f"{name}.yaml")
    return built


def without_juju(package: Package) -> Package:
    """Return a package with Helm execution environments in place of charms."""
    change = {"vnf": helm.vnfd, "ns": helm.nsd}.get(package.kind)
    return replace(package, descriptor=change(package.descriptor)) if change else package


def related(document: dict[str, Any], packages: dict[str, Package]) -> dict[str, Any]:
    """Add the relations to the parameters of a service, or of each service of a slice."""
    if "netslice-subnet" in document:
        subnets = [related(subnet, packages) for subnet in document["netslice-subnet"]]
        return dict(document, **{"netslice-subnet": subnets})
    members = {str(m["member-vnf-index"]) for m in document.get("additionalParamsForVnf") or ()}
    nsds = [p.descriptor["nsd"]["nsd"][0] for p in packages.values() if p.kind == "ns"]
    fitting = [
        nsd
        for nsd in nsds
        if members == {str(profile["id"]) for profile in nsd["df"][0].get("vnf-profile") or ()}
    ]
    return helm.parameters(document, fitting)


def deployments(
    tree: Tree, packages: dict[str, Package], files: dict[str, dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return the parameters of every deployment file of the tree, by name."""
    result = {}
    for path in sorted((tree.root / "params/deployments").glob("*.yaml")):
        if path.stem in files:
            raise BuildError(f"{path}: a service or slice has parameters of that name")
        result[path.stem] = deployed(path, packages, files)
    return result


def deployed(
    path: Path, packages: dict[str, Package], files: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    """Return OSM's parameters of a deployment file."""
    file = deployment.read(path)
    if file.service not in packages or packages[file.service].kind != "ns":
        raise BuildError(f"{path}: service: no service {file.service}")
    if "additionalParamsForVnf" not in files.get(file.parameters, {}):
        raise BuildError(f"{path}: parameters: no parameters of a service {file.parameters}")
    bodies = [p.descriptor["vnfd"] for p in packages.values() if p.kind == "vnf"]
    vnfds = {body["id"]: body for body in bodies}
    nsd = packages[file.service].descriptor["nsd"]["nsd"][0]
    return deployment.parameters(file, nsd, vnfds, files[file.parameters], path.name)


def _build_one(tree: Tree, package: Package, target: Path, architecture: str, image: str) -> Path:
    folder = target / package.name
    folder.mkdir()
    variants.dump(package.descriptor, folder / package.file)
    for charm in descriptors.charm_names(package.descriptor):
        charms.assemble(tree, charm, folder / "charms" / charm, architecture)
    for charm in helm.chart_names(package.descriptor):
        helm.chart(tree, charm, folder / "helm-charts" / charm, image)
    for name in descriptors.cloud_init_files(package.descriptor):
        source = tree.root / "cloud-init" / name
        if not source.is_file():
            raise BuildError(f"{package.name}: cloud-init/{name} does not exist")
        (folder / "cloud_init").mkdir(exist_ok=True)
        shutil.copyfile(source, folder / "cloud_init" / name)
    shutil.copyfile(tree.root / "LICENSE", folder / "LICENSE")
    (folder / "checksums.txt").write_text(archive.checksums(folder), encoding="utf-8")
    path = target / f"{package.name}.tar.gz"
    archive.write(folder, path)
    return path
