"""`new-vnf`: a VNF of one's own in this tree, with a link to a VNF that is there.

New files are written whole. Files that exist get lines and keep all others, with their comments.
What only its author knows, addresses and the place in a core, stays for the parameter files.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from builder import documents
from builder.errors import BuildError
from builder.tree import Tree

LINKS = "charms/lib/vpnaas/base/links.json"
OPPOSITE = {"provider": "requirer", "requirer": "provider"}
NAME = re.compile(r"[a-z][a-z0-9-]{0,11}")  # Of a VNF, and of a link.
Where = Sequence[str | int | Mapping[str, str]]
"""A way into a document: keys, indexes, and the key and value that one entry of a list has."""
TEXTS = documents.read(Path(__file__).with_suffix(".yaml"))


@dataclass(frozen=True)
class Link:
    """The link between the new VNF and one that is there."""

    name: str  # Its name.
    role: str  # "provider" or "requirer", of the new VNF.
    carries: str = ""  # Transport and ports inside the tunnel, such as tcp:3868; "" for all.


def create(
    tree: Tree, name: str, link: Link, other: str, services: Sequence[str]
) -> list[tuple[Path, str]]:
    """Write a VNF with its charm, and connect it; return each file with what was done to it.

    Args:
        tree: Where; the repository.
        name: Of the VNF, its charm and its VDU.
        link: To the other VNF.
        other: Charm of the VNF at the other end.
        services: Packages of services that get the VNF. The other services with the other VNF get
            its new interface connected and the link switched off.
    """
    root = tree.root
    folders = root / "charms" / name, root / "vnf-packages" / f"{name}_vnf"
    _check(tree, name, link, other, folders)

    def joins(body: Any) -> bool:
        return other in documents.environments(body, "juju/charm")

    vnfds = dict(_packages(root, "vnf", joins))
    nsds = dict(_packages(root, "ns", lambda body: set(body["vnfd-id"]) & set(vnfds.values())))
    for service in services:
        if service not in nsds.values():
            raise BuildError(f"--ns {service}; allowed: {', '.join(sorted(nsds.values()))}")
    edits = _Edits(link, name, other, services, _free_subnet(root))
    # Nothing is written unless all of it can be.
    done = list(_edited(root, edits, vnfds, nsds))
    for folder in (*folders, folders[1] / "cloud_init"):
        folder.mkdir()
    for path, text in edits.texts.items():
        path.write_text(text, encoding="utf-8")
    (folders[1] / "cloud_init/vnf.yaml").symlink_to("../../../cloud-init/vnf.yaml")
    return done


def _edited(
    root: Path, edits: "_Edits", vnfds: Mapping[Path, str], nsds: Mapping[Path, str]
) -> Iterator[tuple[Path, str]]:
    """Make the text of each file; yield the file with what was done to it."""
    link, name, other, services = edits.link, edits.name, edits.other, edits.services
    for file, content in edits.filled(TEXTS["files"]).items():
        text = content if isinstance(content, str) else documents.dump(content)
        edits.texts[root / file] = text
        yield root / file, "new"
    if edits.declare(root / LINKS):
        yield root / LINKS, f"the link {link.name}"
    charm = root / "charms" / other / "charm.yaml"
    edits.write(charm, "charm")
    yield charm, f"the other end of {link.name}"
    for path in vnfds:
        edits.interface(path)
        yield path, f"an interface for {link.name}"
    for path, service in nsds.items():
        edits.connect(path, set(vnfds.values()), service in services)
        yield path, f"{name} and its link" if service in services else f"the network {link.name}"
        params = root / "params" / f"{service.removesuffix('_ns')}.yaml"
        if service not in services and params.is_file():
            edits.write(params, "params")
            yield params, f"{link.name} switched off"


def _check(tree: Tree, name: str, link: Link, other: str, folders: Sequence[Path]) -> None:
    for word, what in ((name, "NAME"), (link.name, "--link")):
        if not NAME.fullmatch(word):
            raise BuildError(f"{what} {word}; allowed: 1 to 12 of a-z, 0-9 and '-'")
    if tree.installed:
        raise BuildError("new-vnf: only in the repository")
    if other not in tree.charms():
        raise BuildError(f"--to {other}; allowed: {', '.join(tree.charms())}")
    if link.carries and not re.fullmatch(r"(tcp|udp|sctp):\d+(,\d+)*", link.carries):
        raise BuildError(f"--carries {link.carries}; allowed: one like tcp:3868,3869")
    for folder in folders:
        if folder.exists():
            raise BuildError(f"{folder} is there; allowed: another name")
    there = documents.read(tree.root / "charms" / other / "charm.yaml")
    if link.name in there["links"]:
        raise BuildError(f"--link {link.name}: {other} has it; allowed: a link that it has not")


def _packages(root: Path, kind: str, fits: Callable[[Any], Any]) -> Iterator[tuple[Path, str]]:
    """Yield descriptor and name of the source packages whose descriptor fits."""
    for path in sorted(root.glob(f"{kind}-packages/*/*_{kind}d.yaml")):
        if fits(_body(documents.read(path))):
            yield path, path.parent.name


def _body(document: Mapping[str, Any]) -> Any:
    return document["nsd"]["nsd"][0] if "nsd" in document else document["vnfd"]


def _free_subnet(root: Path) -> str:
    """Return the first 192.168.N.0/24 that no descriptor and no parameter file names."""
    texts = [p.read_text(encoding="utf-8") for p in root.glob("ns-packages/*/*.yaml")]
    texts += [p.read_text(encoding="utf-8") for p in root.glob("params/**/*.yaml")]
    used = {int(number) for text in texts for number in re.findall(r"192\.168\.(\d+)\.", text)}
    return next(f"192.168.{number}.0/24" for number in range(11, 256) if number not in used)


def _filled(value: Any, words: Mapping[str, Any]) -> Any:
    """Return a document with values in place of words, also in keys and inside of texts."""
    if isinstance(value, dict):
        return {_filled(key, words): _filled(item, words) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, words) for item in value]
    if not isinstance(value, str) or value in words:
        return words.get(value, value)
    for word, text in words.items():
        value = value.replace(word, str(text))
    return value


@dataclass(frozen=True)
class _Edits:
    """What files get."""

    link: Link
    name: str  # Of the new VNF.
    other: str  # Charm and member of the VNF at the other end.
    services: Sequence[str]  # With the new VNF.
    subnet: str  # Of the link's network.
    texts: dict[Path, str] = field(default_factory=dict)
    """What files will contain."""

    def filled(self, document: Any, **more: Any) -> Any:
        """Return a part of new_vnf.yaml for this VNF; ``more`` are words with `_` for `-`."""
        words = {
            "VNF-NAME": self.name,
            "LINK-NAME": self.link.name,
            "LINK-KEY": self.link.name.replace("-", "_"),
            "LINK-ROLE": self.link.role,
            "LINK-SUBNET": self.subnet,
            "OTHER-NAME": self.other,
            "OTHER-ROLE": OPPOSITE[self.link.role],
            "USED-BY": ", ".join(f"`{service}`" for service in self.services) or "no service yet",
        }
        return _filled(document, words | {key.replace("_", "-"): v for key, v in more.items()})

    def write(self, path: Path, edits: str, **more: Any) -> None:
        """Add the values of `edits` to a file."""
        text = self.texts.get(path) or path.read_text(encoding="utf-8")
        for edit in self.filled(TEXTS["edits"][edits], **more):
            text = _added(text, edit["in"], edit["add"], path)
        self.texts[path] = text

    def declare(self, path: Path) -> bool:
        """Give the link a name and a port of its own; return whether it had none."""
        text = path.read_text(encoding="utf-8")
        known = json.loads(text)
        if self.link.name in known:
            return False
        port = 1 + max(entry["listen_port"] for entry in known.values())
        entry = {"title": self.link.name.capitalize(), "listen_port": port}
        if self.link.carries:
            transport, _, ports = self.link.carries.partition(":")
            entry |= {"transport": transport, "ports": [int(word) for word in ports.split(",")]}
        line = f',\n  "{self.link.name}": {json.dumps(entry)}\n}}\n'
        self.texts[path] = text.rstrip().removesuffix("}").rstrip() + line
        return True

    def interface(self, path: Path) -> None:
        """Give a VNF one more interface, and configure the link on it."""
        body = documents.read(path)["vnfd"]
        nics = documents.walk(body["vdu"][0], documents.NICS)
        number = 1 + max(nic["position"] for _, nic, _ in nics)
        [entry] = [each for each in documents.day_1_2(body) if each["id"] == body["id"]]
        self.write(
            path,
            "vnfd",
            VNFD_ID=body["id"],
            VDU_NAME=body["vdu"][0]["id"],
            NIC_NAME=f"ens{number + 2}",
            NIC_POSITION=number,
            NEXT_SEQ=1 + max(each["seq"] for each in entry["initial-config-primitive"]),
        )

    def connect(self, path: Path, others: set[str], whole: bool) -> None:
        """Give a service the link's network and the other VNFs on it; `whole`: our VNF, too."""
        body = _body(documents.read(path))
        profiles = body["df"][0]["vnf-profile"]
        if self.link.name in {network["id"] for network in body["virtual-link-desc"]}:
            problem = f"--link {self.link.name}: {body['id']} has a network of this name"
            raise BuildError(f"{problem}; allowed: a link that it has not")
        members = [profile["id"] for profile in profiles if profile["vnfd-id"] in others]
        self.write(path, "nsd")
        for member in members:
            self.write(path, "nsd-member", MEMBER_ID=member)
        if whole:
            self.write(path, "nsd-vnf")
            for member in members:
                ends = {self.link.role: self.name, OPPOSITE[self.link.role]: member}
                provider, requirer = ends["provider"], ends["requirer"]
                self.write(path, "nsd-relation", PROVIDER_ID=provider, REQUIRER_ID=requirer)


def _added(text: str, where: Where, value: Any, path: Path) -> str:
    node: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    for step in where:
        node = _below(node, step)
        if node is None:
            what = " ".join(*step.items()) if isinstance(step, Mapping) else step
            raise BuildError(f"{path}: there is no {what}, where a line has to be added")
    line = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10**6).strip()
    line = line.removesuffix("\n...").strip()
    if isinstance(node, yaml.MappingNode):
        line = line[1:-1]
    if node.flow_style:
        at = node.end_mark.index - 1
        return f"{text[:at]}{', ' if node.value else ''}{line}{text[at:]}"
    last = node
    while isinstance(last, yaml.CollectionNode) and not last.flow_style and last.value:
        last = last.value[-1][1] if isinstance(last, yaml.MappingNode) else last.value[-1]
    end = text.find("\n", last.end_mark.index - 1) + 1 or len(text)
    mark = "- " if isinstance(node, yaml.SequenceNode) else ""
    return f"{text[:end]}{' ' * node.start_mark.column}{mark}{line}\n{text[end:]}"


def _below(node: Any, step: Any) -> Any:
    if isinstance(node, yaml.MappingNode):
        return next((value for key, value in node.value if key.value == step), None)
    if isinstance(step, Mapping):
        [wanted] = step.items()
        found = (e for e in node.value if any((k.value, v.value) == wanted for k, v in e.value))
        return next(found, None)
    return node.value[step] if step < len(node.value) else None
