"""`new-vnf`: a VNF of one's own in this tree, with a link to a VNF that is there.

New files are written whole. Files that exist get lines and keep all others, with their comments.
What only its author knows, addresses and the place in a core, stays for the parameter files.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from builder import documents
from builder.errors import BuildError
from builder.tree import Tree

LINKS = "charms/lib/vpnaas/base/links.json"
OPPOSITE = {"provider": "requirer", "requirer": "provider"}
NAME = re.compile(r"[a-z][a-z0-9-]{0,11}")  # Of a VNF, and of a link.
Where = Sequence[str | int | Callable[[Any], bool]]
"""A way into a document: keys, indexes, and conditions that one entry of a list meets."""


@dataclass(frozen=True)
class Link:
    """The link between the new VNF and one that is there."""

    name: str  # Its name.
    role: str  # "provider" or "requirer", of the new VNF.
    carries: str = ""  # Transport and ports inside the tunnel, such as tcp:3868; "" for all.


def create(
    tree: Tree, name: str, link: Link, other: str, services: Sequence[str]
) -> Iterator[tuple[Path, str]]:
    """Write a VNF with its charm, and connect it; yield each file with what was done to it.

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
    vnfds = dict(_packages(root, "vnf", lambda body: other in _charms(body)))
    nsds = dict(_packages(root, "ns", lambda body: set(body["vnfd-id"]) & set(vnfds.values())))
    for service in services:
        if service not in nsds.values():
            raise BuildError(f"--ns {service}; allowed: {', '.join(sorted(nsds.values()))}")
    subnet = _free_subnet(root)
    for folder in folders:
        folder.mkdir()
    for file, text in _files(name, link, services).items():
        (root / file).write_text(text, encoding="utf-8")
        yield root / file, "new"
    day0 = folders[1] / "cloud_init/vnf.yaml"
    day0.parent.mkdir()
    day0.symlink_to("../../../cloud-init/vnf.yaml")
    edits = _Edits(link, name, subnet)
    if edits.declare(root / LINKS):
        yield root / LINKS, f"the link {link.name}"
    charm = root / "charms" / other / "charm.yaml"
    _edit(charm, [(("links",), {link.name: OPPOSITE[link.role]})])
    yield charm, f"the other end of {link.name}"
    for path in vnfds:
        edits.interface(path)
        yield path, f"an interface for {link.name}"
    for path, service in nsds.items():
        edits.connect(path, set(vnfds.values()), service in services)
        yield path, f"{name} and its link" if service in services else f"the network {link.name}"
        params = root / "params" / f"{service.removesuffix('_ns')}.yaml"
        if service not in services and params.is_file():
            edits.switch_off(params, other)
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


def _charms(body: Mapping[str, Any]) -> set[str]:
    return {
        environment.get("juju", {}).get("charm")
        for entry in documents.day_1_2(body)
        for environment in entry.get("execution-environment-list") or ()
    }


def _free_subnet(root: Path) -> str:
    """Return the first 192.168.N.0/24 that no descriptor and no parameter file names."""
    texts = [p.read_text(encoding="utf-8") for p in root.glob("ns-packages/*/*.yaml")]
    texts += [p.read_text(encoding="utf-8") for p in root.glob("params/**/*.yaml")]
    used = {int(number) for text in texts for number in re.findall(r"192\.168\.(\d+)\.", text)}
    return next(f"192.168.{number}.0/24" for number in range(11, 256) if number not in used)


# New files


def _files(name: str, link: Link, services: Sequence[str]) -> dict[str, str]:
    """Return the texts of new_vnf.yaml for a VNF."""
    words = {"VNF-NAME": name, "LINK-NAME": link.name, "LINK-ROLE": link.role}
    words["USED-BY"] = ", ".join(f"`{service}`" for service in services) or "no service yet"
    files = _filled(documents.read(Path(__file__).with_suffix(".yaml")), words)
    return {
        file: content if isinstance(content, str) else documents.dump(content)
        for file, content in files.items()
    }


def _filled(value: Any, words: Mapping[str, str]) -> Any:
    """Return a document with values in place of words, also in keys."""
    if isinstance(value, dict):
        return {_filled(key, words): _filled(item, words) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, words) for item in value]
    for word, text in words.items() if isinstance(value, str) else ():
        value = value.replace(word, text)
    return value


# Lines in files that are there


@dataclass(frozen=True)
class _Edits:
    """What files that exist get."""

    # `link`, `name`: Of the new VNF.
    link: Link
    name: str
    subnet: str  # Of the link's network.

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
        path.write_text(text.rstrip().removesuffix("}").rstrip() + line, encoding="utf-8")
        return True

    def interface(self, path: Path) -> None:
        """Give a VNF one more interface, and configure the link on it."""
        body = documents.read(path)["vnfd"]
        vdu, end = body["vdu"][0], self.link.name
        taken = [
            card["position"]
            for point in vdu["int-cpd"]
            for card in point["virtual-network-interface-requirement"]
        ]
        number = max(taken) + 1
        card = {"name": f"ens{number + 2}", "position": number}
        card["virtual-interface"] = {"type": "PARAVIRT"}
        point = {"id": f"{end}-int", "port-security-enabled": False}
        point["virtual-network-interface-requirement"] = [card]
        entries = list(documents.day_1_2(body))
        [entry] = [index for index, each in enumerate(entries) if each["id"] == body["id"]]
        primitives = entries[entry]["initial-config-primitive"]
        over = {"link": end, "underlay-interface": f"ens{number + 2}"}
        added = {
            "seq": 1 + max(each["seq"] for each in primitives),
            "name": "configure",
            "execution-environment-ref": "vpn-ee",
            "parameter": [{"name": key, "value": value} for key, value in over.items()],
        }
        flavour = ("vnfd", "df", 0, "lcm-operations-configuration", "operate-vnf-op-config")
        cpd = {"vdu-id": vdu["id"], "cpd": f"{end}-int"}
        _edit(
            path,
            [
                (("vnfd", "ext-cpd"), {"id": f"{end}-ext", "int-cpd": cpd}),
                (("vnfd", "vdu", 0, "int-cpd"), point),
                ((*flavour, "day1-2", entry, "initial-config-primitive"), added),
            ],
        )

    def connect(self, path: Path, others: set[str], whole: bool) -> None:
        """Give a service the link's network and the other VNFs on it; `whole`: our VNF, too."""
        body = _body(documents.read(path))
        top, name, end = ("nsd", "nsd", 0), f"{self.name}_vnf", self.link.name
        flavour = (*top, "df", 0)
        data = {"l3-protocol-data": {"ip-version": "ipv4", "cidr": self.subnet}}
        data["l3-protocol-data"]["dhcp-enabled"] = False  # type: ignore[assignment]
        network = {"id": end, "virtual-link-desc-id": end, "virtual-link-protocol-data": data}
        edits: list[tuple[Where, Any]] = [
            ((*top, "virtual-link-desc"), {"id": end, "mgmt-network": False}),
            ((*flavour, "virtual-link-profile"), network),
        ]
        members = [p["id"] for p in body["df"][0]["vnf-profile"] if p["vnfd-id"] in others]
        for member in members:
            there = (*flavour, "vnf-profile", _has("id", member), "virtual-link-connectivity")
            edits.append((there, _connectivity(member, end)))
        if whole:
            own = [_connectivity(self.name, each) for each in ("mgmt", end)]
            profile = {"id": self.name, "vnfd-id": name, "virtual-link-connectivity": own}
            edits += [
                ((*top, "vnfd-id"), name),
                ((*flavour, "vnf-profile"), profile),
                *(
                    ((*top, "ns-configuration", "relation"), self._relation(member))
                    for member in members
                ),
            ]
        _edit(path, edits)

    def _relation(self, member: str) -> dict[str, Any]:
        ends = {
            role: {"vnf-profile-id": of, "execution-environment-ref": "vpn-ee"}
            for role, of in ((self.link.role, self.name), (OPPOSITE[self.link.role], member))
        }
        for its in ends.values():
            its["endpoint"] = self.link.name
        return {"name": self.link.name, "provider": ends["provider"], "requirer": ends["requirer"]}

    def switch_off(self, path: Path, member: str) -> None:
        """Give a member of a parameter file the values of a link that is off."""
        off = {"inner_address": "none", "gateway": "auto", "allowed_prefixes": "none"}
        off["accept_prefixes"] = "none"
        where = ("additionalParamsForVnf", _has("member-vnf-index", member), "additionalParams")
        values = {f"{self.link.name.replace('-', '_')}_{key}": text for key, text in off.items()}
        _edit(path, [(where, {key: value}) for key, value in values.items()])


def _connectivity(member: str, network: str) -> dict[str, Any]:
    point = {"constituent-base-element-id": member, "constituent-cpd-id": f"{network}-ext"}
    return {"virtual-link-profile-id": network, "constituent-cpd-id": [point]}


def _has(key: str, value: str) -> Callable[[Any], bool]:
    """Return the condition on an entry of a list that a field of it has a value."""
    return lambda node: any(k.value == key and v.value == value for k, v in node.value)


def _edit(path: Path, edits: Sequence[tuple[Where, Any]]) -> None:
    """Add each value to the end of a list; the one pair of a mapping goes into a mapping."""
    text = path.read_text(encoding="utf-8")
    for where, value in edits:
        text = _added(text, where, value, path)
    path.write_text(text, encoding="utf-8")


def _added(text: str, where: Where, value: Any, path: Path) -> str:
    node: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    for step in where:
        node = _below(node, step)
        if node is None:
            raise BuildError(f"{path}: there is no {step}, where a line has to be added")
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
    if callable(step):
        return next((each for each in node.value if step(each)), None)
    return node.value[step] if step < len(node.value) else None
