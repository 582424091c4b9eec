"""Assembly: from source packages to dist/."""

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from builder import alarms, archive, charms, descriptors, documents, helm, validate
from builder.errors import BuildError
from builder.parameters import placement, variants
from builder.tree import Tree

Progress = Callable[[str], None]
ENDINGS = {"vnf": "vnfd.yaml", "ns": "nsd.yaml", "nst": "nst.yaml"}
ENVELOPES = {"vnf": ("vnfd",), "ns": ("nsd", "nsd", 0), "nst": ("nst", 0)}
"""Keys around a descriptor."""
NOT_PACKED = ("README.md", "checksums.txt", "__pycache__", "*.pyc", ".*")
"""Files of a source package that OSM does not need."""
VNFD_VERSION = "1.0"
"""NBI refuses another version of a VNFD in use, and with it the charms of a new release."""


@dataclass(frozen=True)
class Package:
    """A package to build."""

    name: str  # Name of archive and top folder.
    kind: str  # "vnf", "ns" or "nst".
    file: str  # Name of the descriptor in the package.
    descriptor: dict[str, Any]  # Its content, completed.
    folder: Path  # The source package.

    @property
    def body(self) -> dict[str, Any]:
        """Return the descriptor inside its envelope."""
        inner: Any = self.descriptor
        for key in ENVELOPES[self.kind]:
            inner = inner[key]
        return inner  # type: ignore[no-any-return]


def source(tree: Tree, folder: Path) -> Package:
    found = [(kind, path) for kind, end in ENDINGS.items() for path in folder.glob(f"*{end}")]
    if len(found) != 1:
        endings = ", ".join(f"*{ending}" for ending in ENDINGS.values())
        raise BuildError(f"{folder}: {len(found)} descriptors; allowed: one, {endings}")
    [(kind, path)] = found
    package = Package(folder.resolve().name, kind, path.name, documents.read(path), folder)
    unpacked = validate.Package(str(folder), "tar", {}, path.name, package.descriptor)
    form, problems = validate.form(unpacked)
    if form is None:
        raise BuildError(f"{problems[-1].path}: {problems[-1].sentence}")
    try:
        body = package.body
    except (KeyError, IndexError, TypeError):  # Another kind, or without its envelope.
        raise BuildError(f"{path}: must have the envelope {ENVELOPES[kind]}") from None
    if kind == "vnf":
        try:
            descriptors.complete(tree, body, {charm.name for charm in folder.glob("charms/*")})
        except BuildError as error:
            raise BuildError(f"{path}: {error}") from None
    if kind != "nst":  # OSM's template has no such field
        body["version"] = VNFD_VERSION if kind == "vnf" else tree.version
    return package


def folders(names: Iterable[str]) -> list[Path]:
    """Return the folders of source packages among names of packages: those with a /."""
    return [Path(name) for name in names if "/" in name]


def catalogue(tree: Tree, others: Iterable[Path] = ()) -> dict[str, Package]:
    """Return every package this tree can build, and those of other source folders, by name."""
    result: dict[str, Package] = {}
    own = [path for kind in ENDINGS for path in sorted(tree.root.glob(f"{kind}-packages/*/"))]
    for folder in (*own, *others):
        package = source(tree, folder)
        result[package.name] = package
    for variant in variants.load(tree):
        for service in variant.services:
            if service not in result:
                raise BuildError(f"ns-packages/variants.yaml: no service {service}")
            plain = result[service]
            for vnfd in plain.body["vnfd-id"]:
                if vnfd not in result:
                    raise BuildError(f"{service}: vnfd-id: no VNF package {vnfd}")
                name = vnfd + variant.suffix
                base = result[vnfd]
                document = variants.vnfd(base.descriptor, variant)
                result[name] = Package(name, "vnf", base.file, document, base.folder)
            name = service + variant.suffix
            document = variants.nsd(plain.descriptor, variant)
            # The file keeps its name: `osm package-build` looks for *nfd.yaml and *nsd.yaml.
            result[name] = Package(name, "ns", plain.file, document, plain.folder)
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
        names: Packages, all if empty; with a /, the folder of a source package.
        architecture: Architecture of the proxy machines, for the vendored wheels.
        progress: Called with the name of each package before it is built.
        alarm_url: Receiver of the VDUs' alarms; if it is empty, VNFDs have no alarms.
        image: Container image of Helm execution environments; if it is empty, VNFs have charms.

    Returns:
        The archives.
    """
    packages = catalogue(tree, folders(names))
    asked = [Path(name).resolve().name if "/" in name else name for name in names]
    chosen = list(dict.fromkeys(asked)) or list(packages)
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
    nsds = [package.body for package in packages.values() if package.kind == "ns"]
    fitting = [nsd for nsd in nsds if members == documents.profiles_of(nsd).keys()]
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
    file = placement.read(path)
    if file.service not in packages or packages[file.service].kind != "ns":
        raise BuildError(f"{path}: service: no service {file.service}")
    if "additionalParamsForVnf" not in files.get(file.parameters, {}):
        raise BuildError(f"{path}: parameters: no parameters of a service {file.parameters}")
    vnfds = {p.body["id"]: p.body for p in packages.values() if p.kind == "vnf"}
    nsd = packages[file.service].body
    return placement.parameters(file, nsd, vnfds, files[file.parameters], path.name)


def _build_one(tree: Tree, package: Package, target: Path, architecture: str, image: str) -> Path:
    folder = target / package.name
    for name in descriptors.named(package.descriptor, "cloud-init-file"):
        if not (package.folder / "cloud_init" / name).is_file():
            raise BuildError(f"{package.folder}: cloud_init/{name} does not exist")
    shutil.copytree(package.folder, folder, ignore=shutil.ignore_patterns(*NOT_PACKED))
    variants.dump(package.descriptor, folder / package.file)
    for charm in descriptors.named(package.descriptor, "charm"):
        if not (folder / "charms" / charm).exists():
            charms.assemble(tree, charm, folder / "charms" / charm, architecture)
    for charm in sorted(documents.environments(package.descriptor.get("vnfd") or {}, "helm-chart")):
        helm.chart(tree, charm, folder / "helm-charts" / charm, image)
    shutil.copyfile(tree.root / "LICENSE", folder / "LICENSE")
    (folder / "checksums.txt").write_text(archive.checksums(folder), encoding="utf-8")
    path = target / f"{package.name}.tar.gz"
    archive.write(folder, path)
    return path
