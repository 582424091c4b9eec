"""`add-link`: links for a VNF package that exists already, of any vendor.

The package keeps all that it has. It gets a charm whose links the command names, an execution
environment for it beside those that are there, the primitives of Day-1 and of operators, and OSM's
key. What only the service can say, its relation and parameters, is returned as text.
"""

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from builder import archive, charms, documents
from builder.descriptors import day_2, parameters
from builder.errors import BuildError
from builder.parameters import variants
from builder.tree import Tree
from builder.validate import Catalog, Package, Problem, body_of, read, validate

CHARM = "vpn-links"
ENVIRONMENT = "vpn-ee"
PREFIX = "vpn-"
"""Before the name of an operator's primitive where the package has one of that name."""
TOOLS = ("wireguard-tools", "nftables", "python3")
"""Packages of Debian and Ubuntu that a VDU needs for WireGuard."""


@dataclass(frozen=True)
class Link:
    """A link to add."""

    name: str  # Its name, that of the relation's endpoint.
    role: str  # "provider" or "requirer"; the other end has the other role.
    interface: str  # The VDU's interface it runs over, as the VDU names it.


@dataclass(frozen=True)
class Extended:
    """The result."""

    # `folder`, `path`: The package as a folder and as an archive.
    folder: Path
    path: Path
    relation: str  # What the NSD of a service needs, YAML.
    parameters: str  # `additionalParams` of the member, YAML, with the charm's defaults.
    problems: list[Problem]  # Of the new package.
    notes: list[str] = field(default_factory=list)  # What the operator has to see to, as sentences.


def parse(links: Iterable[str], interfaces: Iterable[str]) -> list[Link]:
    """Return the links of the options `--link NAME:ROLE` and `--interface IF`, in pairs."""
    words, over = list(links), list(interfaces)
    if len(words) != len(over):
        raise BuildError(
            f"{len(words)} of --link and {len(over)} of --interface; allowed: one for each link"
        )
    result = []
    for word, interface in zip(words, over, strict=True):
        name, _, role = word.partition(":")
        if role not in ("provider", "requirer"):
            raise BuildError(f"--link {word}; allowed: NAME:provider or NAME:requirer")
        if interface in ("", "lo"):
            raise BuildError(f"--interface {interface!r}; allowed: a NIC such as ens4, or auto")
        result.append(Link(name, role, interface))
    names = [link.name for link in result]
    if len(set(names)) != len(names):
        raise BuildError(f"--link: {', '.join(names)}; allowed: each name once")
    return result


def add(
    tree: Tree, source: Path, links: list[Link], target: Path, user: str = "", force: bool = False
) -> Extended:
    """Add links to a VNF package; write the new one, as folder and archive, into `target`.

    Args:
        user: As whom OSM and the charm log in, if the package does not say.
        force: Whether an earlier result is replaced.
    """
    package = _readable(source)
    document = yaml.safe_load(yaml.safe_dump(package.document))
    body = body_of(replace(package, document=document))
    entry = _entry(body)
    name = _free(CHARM, package.names("charms"))
    environments = entry.setdefault("execution-environment-list", [])
    reference = _free(ENVIRONMENT, [str(one["id"]) for one in environments])
    access = entry.setdefault("config-access", {}).setdefault("ssh-access", {})
    login = access.get("default-user") or user or "ubuntu"
    access.update({"required": True, "default-user": login})
    declared = {
        "name": name,
        "summary": f"Secures links of {body['id']}.",
        "description": "Proxy charm that secures the links that vpnaas-build add-link was given.",
        "links": {link.name: link.role for link in links},
    }
    tree = replace(tree, own={name: declared})
    charm = charms.load(tree, name)
    _primitives(entry, environments, _day_1(charm, links, reference, login))
    _operators(entry, day_2(charm, reference))
    environments.append(
        {
            "id": reference,
            "external-connection-point-ref": body.get("mgmt-cp"),
            "juju": {"charm": name, "proxy": True},
        }
    )
    top = PurePosixPath(source.name.removesuffix(".tar.gz").removesuffix(".zip")).name
    folder = target / top
    if folder.resolve() == source.resolve():
        raise BuildError(
            f"{folder}: that is the package itself; allowed: --out with another folder"
        )
    if folder.exists() and not force:
        raise BuildError(f"{folder} is there; allowed: --force, or --out with another folder")
    shutil.rmtree(folder, ignore_errors=True)
    _unpack(package, folder, source)
    variants.dump(document, folder / PurePosixPath(package.descriptor_path).name)
    charms.assemble(tree, name, folder / "charms" / name)
    (folder / "checksums.txt").write_text(archive.checksums(folder), encoding="utf-8")
    path = target / f"{top}.tar.gz"
    archive.write(folder, path)
    return Extended(
        folder,
        path,
        _relation(links, reference),
        _parameters(tree, name, entry, reference),
        validate(read(folder), Catalog()),
        _notes(package, body),
    )


def _readable(source: Path) -> Package:
    package = read(source)
    refused = [p for p in validate(package, Catalog()) if p.severity == "refused"]
    if refused:
        raise BuildError(f"OSM refuses the package: {refused[0].path}: {refused[0].sentence}")
    if package.kind != "vnfd":
        raise BuildError(f"{source}: no VNF package; allowed: a folder, tar.gz or zip of one")
    if not body_of(package).get("vdu"):
        raise BuildError(f"{source}: a link ends on a VDU, and the VNF has none")
    return package


def _entry(body: dict[str, Any]) -> dict[str, Any]:
    """Return the day1-2 entry of the VNF, made if it is not there."""
    flavour = body["df"][0]
    operations = flavour.setdefault("lcm-operations-configuration", {})
    entries = operations.setdefault("operate-vnf-op-config", {}).setdefault("day1-2", [])
    for entry in entries:
        if str(entry["id"]) == str(body["id"]):
            return entry  # type: ignore[no-any-return]
    entries.append({"id": body["id"]})
    return entries[-1]  # type: ignore[no-any-return]


def _free(name: str, taken: Iterable[str]) -> str:
    """Return a name that is not taken: itself, or with a number."""
    known, number = set(taken), 1
    free = name
    while free in known:
        number += 1
        free = f"{name}{number}"
    return free


def _day_1(
    charm: charms.Charm, links: list[Link], reference: str, login: str
) -> list[dict[str, Any]]:
    """Return the login and one `configure` for each link, without numbers."""
    wanted = [("config", {"ssh-username": login})] + [
        ("configure", {"link": link.name, "underlay-interface": link.interface}) for link in links
    ]
    return [
        {
            "name": primitive,
            "execution-environment-ref": reference,
            "parameter": parameters(charm, primitive, values),
        }
        for primitive, values in wanted
    ]


def _primitives(
    entry: dict[str, Any], environments: list[dict[str, Any]], added: list[dict[str, Any]]
) -> None:
    """Add the primitives of Day-1 after those of the package, which must name their environment."""
    for kind in ("initial-", "terminate-", ""):
        for primitive in entry.get(f"{kind}config-primitive") or ():
            if environments:
                primitive.setdefault("execution-environment-ref", environments[0]["id"])
    initial = entry.setdefault("initial-config-primitive", [])
    last = max((int(primitive["seq"]) for primitive in initial), default=0)
    for number, primitive in enumerate(added, last + 1):
        initial.append({"seq": number, **primitive})


def _operators(entry: dict[str, Any], added: list[dict[str, Any]]) -> None:
    listed = entry.setdefault("config-primitive", [])
    known = {primitive["name"] for primitive in listed}
    for primitive in added:
        name = primitive["name"]
        listed.append({**primitive, "name": PREFIX + name if name in known else name})


def _unpack(package: Package, folder: Path, source: Path) -> None:
    """Write the files of a package, as in tar.gz; a link out of it becomes its target."""
    top = source.resolve()
    for name, entry in package.files.items():
        path = folder / name.removeprefix("Scripts/")
        if name == package.descriptor_path or path.name == "checksums.txt":
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        original = (top / name).resolve()
        if entry.link and package.data(name) is None and not original.exists():
            raise BuildError(f"{source}: {name} links to {entry.link}, which is not there")
        if entry.link and not original.is_relative_to(top):
            copy = shutil.copytree if original.is_dir() else shutil.copyfile
            try:
                copy(original, path)
            except shutil.Error as error:
                raise BuildError(f"{source}: {name}: {error.args[0][0][0]} is not there") from None
        elif entry.link:
            path.symlink_to(entry.link)
        else:
            path.write_bytes(entry.data)
            path.chmod(entry.mode & 0o777 | 0o600)
    folder.mkdir(parents=True, exist_ok=True)


def _relation(links: list[Link], reference: str) -> str:
    relations = []
    for link in links:
        own = {
            "vnf-profile-id": "THIS",
            "execution-environment-ref": reference,
            "endpoint": link.name,
        }
        other = {**own, "vnf-profile-id": "OTHER"}
        ends = (own, other) if link.role == "provider" else (other, own)
        relations.append({"name": link.name, "provider": ends[0], "requirer": ends[1]})
    return documents.dump({"ns-configuration": {"relation": relations}})


def _parameters(tree: Tree, charm: str, entry: Mapping[str, Any], reference: str) -> str:
    """Return the instantiation parameters that the primitives take, with the charm's defaults."""
    made = charms.load(tree, charm)
    defaults = {
        name: schema.get("default") for name, schema in made.actions["configure"]["params"].items()
    } | {"ssh-password": "", "allow-experiments": "no", "inner-address": "none"}
    given = {
        parameter["value"][1:-1]: defaults.get(parameter["name"])
        for primitive in entry["initial-config-primitive"]
        if primitive.get("execution-environment-ref") == reference
        for parameter in primitive["parameter"]
        if str(parameter["value"]).startswith("<") and parameter["value"] != "<rw_mgmt_ip>"
    }
    values = {name: str(v).lower() if isinstance(v, bool) else v for name, v in given.items()}
    member = {"member-vnf-index": "THIS", "additionalParams": values}
    return documents.dump({"additionalParamsForVnf": [member]})


def _notes(package: Package, body: Mapping[str, Any]) -> list[str]:
    """Return what the command cannot do itself."""
    texts = "".join(
        package.text(package.folder("cloud_init") + str(vdu["cloud-init-file"])) or ""
        if vdu.get("cloud-init-file")
        else str(vdu.get("cloud-init") or "")
        for vdu in body.get("vdu") or ()
    )
    missing = [tool for tool in TOOLS if tool not in texts]
    if not missing:
        return []
    return [
        f"Day-0 names no package {', '.join(missing)}: the VDU's image must have them, or Day-0 "
        "install them; for IPsec also charon-systemd and strongswan-swanctl"
    ]
