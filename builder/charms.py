"""Charm folders: declaration plus what all charms share."""

import copy
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from builder import documents, strict
from builder.errors import BuildError
from builder.tree import BASES, Tree
from builder.vendor import vendored

INTERFACE = "vpnaas-link"
FUNCTIONS = "oai-function"
"""Interface of relations between network functions; such a relation is not a link."""
KEPT = "configure-nf"
"""Action whose parameters keep their values if they are not given, see `_kept`."""
EXPERIMENTS = "experiments/vdu"
"""Package of the actions of experiments; a charm has it below `lib`."""
GROUPS = ("experiments.vdu.actions.Experiments", "experiments.vdu.signalling.Signalling")
"""Its groups of actions; the second only with `experiments: signalling` in charm.yaml."""
ALLOWED = "allow-experiments"
NO_CACHES = shutil.ignore_patterns("__pycache__", "*.pyc")
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}  # Names of processor architectures in Juju.

# Linux allows 15 characters for an interface name, which is "wg-" and the link.
Link = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,11}$")]


class _Declaration(strict.Strict):
    """charm.yaml."""

    name: str
    summary: str
    description: str
    network_function: bool = False
    kind: str = "vpnaas.kinds.vnf.VNF"
    gateway: bool = False
    pdu_sessions: bool = False
    experiments: bool | Literal["signalling"] = True
    links: dict[Link, Literal["provider", "requirer"]]
    relations: dict[Link, Literal["provider", "requirer"]] = Field(default_factory=dict)


@dataclass(frozen=True)
class Charm:
    """A charm as OSM and Juju see it."""

    name: str  # Name of charm and folder.
    links: dict[str, str]  # Role by link.
    metadata: dict[str, Any]  # metadata.yaml.
    actions: dict[str, Any]  # actions.yaml.
    config: dict[str, Any]  # config.yaml.
    kind: str  # Its kind in the library, with its module.
    network_function: bool = False  # Whether the charm also runs a network function.
    groups: tuple[str, ...] = ()  # Actions of experiments that the build adds, with their modules.


def load(tree: Tree, name: str) -> Charm:
    """Read `charms/<name>/charm.yaml` and merge it with the common parts of all charms."""
    if name not in tree.own and name not in tree.charms():
        raise BuildError(f"no charm {name}; allowed are {', '.join(tree.charms())}")
    source = tree.root / "charms" / name
    text = tree.own.get(name) or _yaml(source / "charm.yaml")
    declared = strict.checked(_Declaration, text, f"charms/{name}/charm.yaml")
    if declared.name != name:
        raise BuildError(f"charms/{name}/charm.yaml: name must be {name}, not {declared.name}")
    metadata: dict[str, Any] = {
        "name": name,
        "summary": declared.summary,
        "description": declared.description,
        "series": list(BASES[tree.base].series),
        "peers": {"proxypeer": {"interface": "proxypeer"}},
    }
    for role, key in (("provider", "provides"), ("requirer", "requires")):
        ends = {
            link: {"interface": INTERFACE} for link, its in declared.links.items() if its == role
        } | {
            name: {"interface": FUNCTIONS}
            for name, its in declared.relations.items()
            if its == role
        }
        if ends:
            metadata[key] = ends
    actions = declared_actions(tree, "common/actions.yaml")
    if declared.experiments:
        actions |= declared_actions(tree, "common/experiment-actions.yaml")
    if declared.network_function:
        actions |= declared_actions(tree, "common/nf-actions.yaml")
    if declared.gateway:
        actions |= declared_actions(tree, "common/gateway-actions.yaml")
    if declared.pdu_sessions:
        actions = _merged(actions, declared_actions(tree, "common/session-actions.yaml"))
    actions = _merged(actions, declared_actions(tree, f"{name}/actions.yaml"))
    config = _yaml(tree.common / "config.yaml")
    more = _yaml(source / "config.yaml", missing={"options": {}})
    options = config["options"] | more.get("options", {})
    options = {option: _complete(option, how) for option, how in options.items()}
    if not declared.experiments:
        del options[ALLOWED]
    if KEPT in actions:
        actions[KEPT] = _kept(actions[KEPT])
    links: dict[str, str] = {**declared.links}
    return Charm(
        name=name,
        links=links,
        metadata=metadata,
        actions=_expand(actions, sorted(links)),
        config={"options": options},
        kind=declared.kind,
        network_function=declared.network_function,
        groups=GROUPS[: bool(declared.experiments) + (declared.experiments == "signalling")],
    )


def declared_actions(tree: Tree, file: str) -> dict[str, Any]:
    """Read actions from a file in `charms`, with the types of parameters; none without the file."""
    shared = _yaml(tree.common / "parameters.yaml")
    actions = _yaml(tree.root / "charms" / file, missing={})
    for action in actions.values():
        params = action.get("params", {})
        for name, parameter in params.items():
            own = parameter or {}
            if "description" not in own:
                if name not in shared:
                    raise BuildError(f"charms/{file}: {name} must be in common/parameters.yaml")
                own = {**shared[name], **own}
            params[name] = _complete(f"charms/{file}: {name}", own)
        required = [name for name, parameter in params.items() if "default" not in parameter]
        if required:
            action["required"] = required
    return actions


def _complete(where: str, parameter: dict[str, Any]) -> dict[str, Any]:
    """Return a parameter with its type, its range and form in the words of JSON Schema."""
    full = dict(parameter)
    if "form" in full:
        # Juju knows no such keyword, so it leaves the sentence to the charm.
        full["x-form"] = full.pop("form")
    kind = "boolean" if isinstance(full.get("default"), bool) else "string"
    if "range" in full:
        kind = "integer"
        limits = full.pop("range")
        if not isinstance(limits, list) or [type(limit) for limit in limits] != [int, int]:
            raise BuildError(f"{where}: range must be two whole numbers, not {limits}")
        full["minimum"], full["maximum"] = limits
    return {"type": kind, **full}


def _kept(action: dict[str, Any]) -> dict[str, Any]:
    """Return an action whose parameters keep their values if they are not given.

    Juju and OSM fill in defaults, so each default is a word for that. A boolean has none: without a
    default Juju leaves it out.
    """
    params = {}
    for name, parameter in action["params"].items():
        full = dict(parameter)
        full.pop("default", None)
        if full["type"] == "string":
            full["default"] = "keep"
        if full["type"] == "integer":
            if full["minimum"] > 0:
                full["not"] = {"minimum": 0, "maximum": full["minimum"] - 1}
            full["default"] = full["minimum"] = -1
        if "enum" in full:
            full["enum"] = ["keep", *full["enum"]]
        params[name] = full
    return {**{k: v for k, v in action.items() if k != "required"}, "params": params}


def _merged(common: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Add a charm's own actions; an existing action gets the additional parameters."""
    merged = copy.deepcopy(common)
    for name, action in own.items():
        if name in merged and "description" not in action:
            merged[name]["params"] = merged[name].get("params", {}) | action.get("params", {})
            required = merged[name].get("required", []) + action.get("required", [])
            merged[name]["required"] = required
        else:
            merged[name] = action
    return merged


def _expand(actions: dict[str, Any], links: list[str]) -> dict[str, Any]:
    """Limit a parameter `link` to the charm's links; a charm without links gets no such action.

    With the default `all` it takes this word, too. With another default it takes any text.
    """
    expanded = {}
    for name, action in copy.deepcopy(actions).items():
        link = action.get("params", {}).get("link", {"default": "none"})
        if link.get("default", "all") == "all":
            if not links:
                continue
            link["enum"] = ["all", *links] if "default" in link else links
        expanded[name] = {**action, "additionalProperties": False}
    return expanded


def declare(tree: Tree, name: str, target: Path) -> Charm:
    """Write the charm's own files: its declarations and `src/charm.py`, without the library."""
    charm = load(tree, name)
    (target / "src").mkdir(parents=True)
    for file, document in (
        ("metadata.yaml", charm.metadata),
        ("actions.yaml", charm.actions),
        ("config.yaml", charm.config),
    ):
        (target / file).write_text(documents.dump(document), encoding="utf-8")
    text = (tree.common / "charm.py").read_text(encoding="utf-8")
    entry = target / "src/charm.py"
    names = '", "'.join((charm.kind, *charm.groups))
    entry.write_text(text.replace("NAMES", names), encoding="utf-8")
    entry.chmod(0o755)
    return charm


def libraries(tree: Tree, charm: Charm, target: Path) -> None:
    """Copy the packages of our own that the charm needs to `target`/lib."""
    names = ("vpnaas", "oai") if charm.network_function else ("vpnaas",)
    copy_packages(tree, names, bool(charm.groups), target)


def copy_packages(tree: Tree, names: Sequence[str], experiments: bool, target: Path) -> None:
    """Copy packages of `charms/lib`, and that of experiments if asked, to `target`/lib."""
    for name in names:
        shutil.copytree(tree.library.with_name(name), target / "lib" / name, ignore=NO_CACHES)
    if experiments:
        shutil.copytree(tree.root / EXPERIMENTS, target / "lib" / EXPERIMENTS, ignore=NO_CACHES)


def _link(source: str, target: str) -> None:
    """Make a hard link; copy the file where the file system allows no link."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def assemble(tree: Tree, name: str, target: Path, architecture: str = "x86_64") -> Charm:
    """Write the complete charm folder to `target`."""
    charm = declare(tree, name, target)
    shutil.copyfile(tree.common / "dispatch", target / "dispatch")
    (target / "dispatch").chmod(0o755)
    libraries(tree, charm, target)
    others = vendored(tree, architecture)
    shutil.copytree(others, target / "venv", ignore=NO_CACHES, copy_function=_link)
    shutil.copyfile(tree.root / "LICENSE", target / "LICENSE")
    bases = [
        {"name": "ubuntu", "channel": channel, "architectures": [MACHINES[architecture]]}
        for channel in BASES[tree.base].series.values()
    ]
    # Juju 4 refuses a charm without it; older releases read the series of metadata.yaml.
    text = documents.dump({"bases": bases})
    (target / "manifest.yaml").write_text(text, encoding="utf-8")
    # Juju shows the content of this file as the charm's version.
    (target / "version").write_text(f"{tree.version}\n", encoding="utf-8")
    return charm


def _yaml(path: Path, missing: dict[str, Any] | None = None) -> dict[str, Any]:
    if missing is not None and not path.is_file():
        return missing
    return documents.read(path)
