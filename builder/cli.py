"""Command line of the build: `vpnaas-build`."""

import shutil
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import click

from builder import check, documents, helm, links, new_vnf, packages, release, signing
from builder.commands import Group
from builder.errors import BuildError
from builder.parameters import placement, variants
from builder.terminal import tell
from builder.tree import BASES, BIONIC, Tree
from builder.unchanged import Stamp
from builder.validate import Catalog, Problem, validate_params
from builder.vendor import ARCHITECTURES


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="osm-vpnaas")
def main() -> None:
    """Build and validate OSM packages."""


@main.command(name="list")
def list_packages() -> None:
    """List what can be built."""
    for package in packages.catalogue(Tree.find()).values():
        tell(f"{package.kind:4} {package.name}")


@main.command()
def where() -> None:
    """Print the folder of the packages: those of an installed wheel, else dist/.

    An installed wheel makes them at the first call, in the user's cache.
    """
    tree = Tree.find()
    if tree.installed:
        release.install(tree)
    tell(tree.packages)


_KIND = click.option(
    "--execution-environment",
    "kind",
    type=click.Choice(helm.KINDS),
    default=helm.JUJU,
    show_default=True,
    help="What runs the primitives: a proxy charm in Juju, or a pod in OSM's own Kubernetes.",
)


@main.command()
@click.argument("names", nargs=-1, metavar="[PACKAGE]...")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Target folder; default dist/.",
)
@click.option(
    "--architecture",
    type=click.Choice(ARCHITECTURES),
    default=ARCHITECTURES[0],
    show_default=True,
    help="Processor architecture of proxy machines.",
)
@click.option(
    "--base",
    type=click.Choice(list(BASES)),
    default=BIONIC,
    show_default=True,
    help="Oldest series of proxy machines. OSM makes bionic; jammy gets current wheels.",
)
@click.option("--alarm-url", default="", help="Add an alarm to VNFDs; OSM posts to this URL.")
@_KIND
@click.option("--image", default="", help="Container image of the pods, for the cluster to pull.")
@click.option(
    "--release",
    "released",
    is_flag=True,
    help="Also make VERSION, a wheel of the project and these packages, and SHA256SUMS.",
)
def build(
    names: tuple[str, ...],
    out: Path | None,
    architecture: str,
    base: str,
    alarm_url: str,
    kind: str,
    image: str,
    released: bool,
) -> None:
    """Build packages (all by default) and parameter files, and validate the result.

    PACKAGE is a name of `vpnaas-build list`, or the folder of a source package, such as ./my_vnf.
    What was built from the same sources is left as it is. Nothing reaches the target folder unless
    everything is valid. There each package is an archive and a folder with the same content;
    sbom.cdx.json lists the wheels in the charms.
    """
    from builder import sbom  # no other verb needs its library

    tree = replace(Tree.find(), base=base)
    target = out or tree.dist
    started = time.monotonic()
    if released and tree.installed:
        raise BuildError("--release: only in the repository")
    if image and kind != helm.HELM:
        raise BuildError("--image: only with --execution-environment helm")
    known = packages.catalogue(tree, packages.folders(names))
    if kind == helm.HELM:
        image = helm.image(image, tree)
        known = {name: packages.without_juju(package) for name, package in known.items()}
    stamp = Stamp(tree, target, (architecture, base, alarm_url, kind, image))
    if not released and set(names) <= set(known) and stamp.has(names or known):
        click.echo(f"up to date in {target}: {', '.join(names) or 'all packages'}")
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".vpnaas-build-") as scratch:
        staging = Path(scratch)
        paths = packages.build(
            tree,
            staging,
            names,
            architecture,
            lambda name: tell(f"building {name}"),
            alarm_url,
            image,
        )
        catalog, problems = check.archives(paths, known.values())
        if base != BIONIC:
            tell(f"charms for {base} and newer: not for the bionic machines of OSM's own LCM")
            problems = [problem for problem in problems if problem.code != "charm-series"]
        if not _good(problems + check.parameters(staging / "params", catalog), strict=True):
            sys.exit(1)
        sbom.write(tree, staging / "sbom.cdx.json", architecture, pods=bool(image))
        (target / "params").mkdir(parents=True, exist_ok=True)
        made = [
            path.replace(target / "params" / path.name) for path in sorted(staging.glob("params/*"))
        ]
        (staging / "params").rmdir()
        for path in sorted(staging.iterdir()):
            if path.is_dir():
                shutil.rmtree(target / path.name, ignore_errors=True)
            path.replace(target / path.name)
    archives = [target / path.name for path in paths]
    others = {f"{folder.resolve().name}.tar.gz" for folder in packages.folders(names)}
    own = [path for path in archives if path.name not in others]
    folders = [path.with_name(path.name.removesuffix(".tar.gz")) for path in own]
    stamp.write([*made, *own, *folders])
    what = "1 package" if len(paths) == 1 else f"{len(paths)} packages"
    tell(f"{what} in {target} after {time.monotonic() - started:.1f} s")
    if released:
        wheel = release.write(tree, target, [*made, *archives])
        tell(f"release {tree.version}: {wheel}, checksums in {target / release.SUMS}")


@main.command(name="deployment")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--out", required=True, type=click.Path(dir_okay=False, path_type=Path), help="Target file."
)
@click.option("--ns_name", help="Name of the service in the command that is shown.")
@_KIND
def deployment_parameters(file: Path, out: Path, ns_name: str | None, kind: str) -> None:
    """Make OSM's instantiation parameters from a deployment FILE, and validate them."""
    tree = Tree.find()
    known = packages.catalogue(tree)
    document = packages.deployed(file, known, variants.parameter_files(tree))
    if kind == helm.HELM:
        document = packages.related(document, known)
        known = {name: packages.without_juju(package) for name, package in known.items()}
    deployed = placement.read(file)
    catalog = check.add_descriptors(Catalog(), known.values())
    if not _good(check.document(document, catalog, out.name), strict=True):
        sys.exit(1)
    out.parent.mkdir(parents=True, exist_ok=True)
    variants.dump(document, out)
    tell(placement.command(deployed, ns_name or file.stem, str(out)))


@main.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--strict", is_flag=True, help="Also fail on what OSM accepts but later ignores.")
def validate(paths: tuple[Path, ...], strict: bool) -> None:
    """Report what OSM refuses in packages, and what it accepts and later fails on or ignores.

    PATHS are packages, and files of parameters for their services and slices. References are looked
    up only in these packages.
    """
    given = {path: check.parameter_file(path) for path in paths}
    catalog, problems = check.archives(path for path, params in given.items() if not params)
    for path in (path for path, params in given.items() if params):
        problems += check.users_parameters(path, catalog)
    if not _good(problems, strict):
        sys.exit(1)


@main.command(name="add-link")
@click.argument("package", type=click.Path(exists=True, path_type=Path))
@click.option("--link", "names", multiple=True, required=True, help="NAME:provider or :requirer.")
@click.option(
    "--interface", "over", multiple=True, required=True, help="VDU interface of the link before."
)
@click.option("--user", default="", help="Login of the image, if the package names none; ubuntu.")
@click.option(
    "--out",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the new package.",
)
@click.option("--force", is_flag=True, help="Replace an earlier result.")
def add_link(
    package: Path, names: tuple[str, ...], over: tuple[str, ...], user: str, out: Path, force: bool
) -> None:
    """Add links to a VNF PACKAGE of any vendor; print what the service needs."""
    wanted = links.parse(names, over)
    result = links.add(Tree.find(), package, wanted, out, user, force)
    good = _good(result.problems, strict=False)
    for note in result.notes:
        tell(f"note: {note}", err=True)
    tell(f"# {result.path}\n# Into the NSD, with the ids of both members:")
    tell(f"{result.relation}# Into the parameters of the service:\n{result.parameters}")
    if not good:
        sys.exit(1)


@main.command(name="new-vnf")
@click.argument("name")
@click.option("--link", required=True, help="NAME:provider or NAME:requirer, the VNF's link.")
@click.option("--to", "other", required=True, help="Charm of the VNF at the other end.")
@click.option("--ns", "services", multiple=True, help="Service that gets the VNF; several times.")
@click.option("--carries", default="", help="Transport and ports in the tunnel, as tcp:3868.")
def new_vnf_command(
    name: str, link: str, other: str, services: tuple[str, ...], carries: str
) -> None:
    """Write a VNF and its charm into this tree, with a link to a VNF that is there."""
    [wanted] = links.parse([link], ["auto"])
    new = new_vnf.Link(wanted.name, wanted.role, carries)
    tree = Tree.find()
    for path, what in new_vnf.create(tree, name, new, other, services):
        tell(f"{path.relative_to(tree.root)}: {what}")
    tell("Now give it addresses in the parameters of its services, and run ./run build.")


_PEM = click.Path(exists=True, dir_okay=False, path_type=Path)
_ARCHIVES = click.argument("paths", nargs=-1, required=True, type=_PEM, metavar="PACKAGE...")


@main.command()
@_ARCHIVES
@click.option("--certificate", required=True, type=_PEM, help="Certificate of the signer, PEM.")
@click.option("--key", required=True, type=_PEM, help="Key of the signer, PEM, for OpenSSL.")
@click.option("--csar", is_flag=True, help="Also write the SOL004 form, PACKAGE.zip.")
def sign(paths: tuple[Path, ...], certificate: Path, key: Path, csar: bool) -> None:
    """Put a signed manifest (SOL004) into packages that were built."""
    signer = signing.Signer(certificate, key)
    for path in paths:
        signing.sign(path, signer)
        tell(f"signed {path}")
        if csar:
            target = path.with_name(path.name.removesuffix(".tar.gz") + ".zip")
            signing.csar(path, target, signer)
            tell(f"signed {target}")


@main.command()
@_ARCHIVES
@click.option("--trust", required=True, type=_PEM, help="Certificate of signer or its CA, PEM.")
def verify(paths: tuple[Path, ...], trust: Path) -> None:
    """Check that packages are as a trusted signer signed them."""
    sentences = [
        f"{path}: {sentence}" for path in paths for sentence in signing.verify(path, trust)
    ]
    for sentence in sentences:
        tell(sentence, err=True)
    if sentences:
        sys.exit(1)


@main.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
def agree(files: tuple[Path, ...]) -> None:
    """Report values on which the network functions of parameter files do not agree."""
    good = [_agrees(file) for file in files]
    if not all(good):
        sys.exit(1)


def _agrees(file: Path) -> bool:
    """Print what does not agree in a parameter file; return whether nothing was printed."""
    document = documents.read(file)
    if not {"additionalParamsForVnf", "netslice-subnet"} & set(document):
        raise BuildError(f"{file}: no parameters of VNFs; allowed: a file of dist/params")
    kind = "nsi" if "netslice-subnet" in document else "ns"
    return _good(validate_params(kind, document, Catalog(), str(file)), strict=True)


def _good(problems: list[Problem], strict: bool) -> bool:
    """Print problems, one per line; return whether the result counts as valid."""
    for problem in problems:
        tell(f"{problem.severity}: {problem.path}: {problem.sentence}", err=True)
    return not any(strict or problem.severity == "refused" for problem in problems)
