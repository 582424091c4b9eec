"""Source descriptors: SOL006 as it stands; the build completes the primitives of the charms.

A VNFD lists the Day-1 primitives of a charm, each with the parameters that the descriptor itself
sets. The build adds the others. Each takes an instantiation parameter:

- `config`: the login, see `LOGIN`.
- `configure`: `<LINK_PARAMETER>`; what is the same for all links of a VNF is `<vpn_PARAMETER>`.
  The link `<site_link>` has the name that the parameter `site_link` says; the others begin with
  `site` there. A link whose technology is `none` has no parameters of tunnels.
- `configure-nf`, `configure-standby`, `configure-access`: `<nf_PARAMETER>`, `<standby_PARAMETER>`,
  `<access_PARAMETER>`.

Interfaces of the VDU and `NOT_ASKED` take no instantiation parameter: the descriptor sets them, or
the charm's default stays. The build also adds a Day-2 primitive for each action of the charm.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from builder import charms, documents
from builder.errors import BuildError
from builder.tree import Tree

LOGIN = {
    "ssh-hostname": "<rw_mgmt_ip>",
    "ssh-username": "ubuntu",
    "ssh-password": "<ssh_password>",
    "allow-experiments": "<allow_experiments>",
}
"""Charm options that the first primitive, `config`, sets."""
NOT_FOR_OPERATORS = ("generate-ssh-key", "get-ssh-public-key")
"""Actions that LCM calls itself; operators do not need them as primitives."""
CONFIGURE = "configure"
SHARED = {
    "technology", "preshared-key", "post-quantum", "mtu", "keepalive", "credentials", "proposal",
    "ipsec-options",
}  # fmt: skip
"""`configure` parameters that one instantiation parameter (vpn_...) sets for all links of a VNF."""
NOT_ASKED = ("link", "listen-port", "standby-gateways", "tun-device")

DATA_TYPES = {"integer": "INTEGER", "boolean": "BOOLEAN", "string": "STRING"}

Step = dict[str, Any]


def complete(tree: Tree, vnfd: dict[str, Any], charms_inside: Iterable[str] = ()) -> None:
    """Complete the primitives of a VNFD in place.

    Args:
        tree: Source of the charms.
        vnfd: The content of `vnfd`.
        charms_inside: Charms that the package brings with it; their primitives stay as they are.
    """
    path = f"{documents.EVERY_DAY12}[]/execution-environment-list[]/juju/charm?"
    for _, name, (_, entry, environment) in documents.walk(vnfd, path):
        if name not in charms_inside:
            _complete(charms.load(tree, name), entry, environment["id"])


def _complete(charm: charms.Charm, entry: dict[str, Any], reference: str) -> None:
    steps = [
        step
        for step in entry.get("initial-config-primitive") or ()
        if step.get("execution-environment-ref") == reference
    ]
    if charm.links and not any(step["name"] == CONFIGURE for step in steps):
        raise BuildError(f"charm {charm.name} has links, none of them is configured on day 1")
    for step in steps:
        own = {
            parameter["name"]: parameter.get("value") for parameter in step.get("parameter") or ()
        }
        step["parameter"] = parameters(charm, step["name"], own)
    listed = entry.setdefault("config-primitive", [])
    known = {(step.get("execution-environment-ref"), step["name"]) for step in listed}
    listed += [step for step in day_2(charm, reference) if (reference, step["name"]) not in known]


def parameters(charm: charms.Charm, primitive: str, own: Mapping[str, Any]) -> list[Step]:
    """Return the parameters of a Day-1 primitive: the descriptor's ``own``, and all others."""
    if primitive == "config":
        login = {name: value for name, value in LOGIN.items() if name in charm.config["options"]}
        return _listed({}, {**login, **own})
    if primitive not in charm.actions:
        raise BuildError(f"charm {charm.name} has no action {primitive}")
    declared = charm.actions[primitive].get("params") or {}
    for name in own:
        if name not in declared:
            raise BuildError(f"{primitive} of charm {charm.name} has no parameter {name}")
    of_link = primitive == CONFIGURE
    shared = SHARED if of_link else set()
    clear = own.get("technology") == "none"
    prefix = _prefix(charm, own) if of_link else primitive.removeprefix("configure-")
    values = {
        name: f"<{'vpn' if name in shared else prefix}_{name}>".replace("-", "_")
        for name in declared
        if name not in NOT_ASKED
        and not name.endswith("-interface")
        and not (clear and name in shared)
    } | dict(own)
    # The link and its interface come first, all others in the order of the action.
    order = dict.fromkeys([*own, *declared] if of_link else declared)
    return _listed(declared, {name: values[name] for name in order if name in values})


def _prefix(charm: charms.Charm, own: Mapping[str, Any]) -> str:
    """Return how the instantiation parameters of a link begin."""
    link = str(own.get("link"))
    if link.startswith("<"):
        return link.strip("<>").removesuffix("_link")
    if link not in charm.links:
        links = ", ".join(sorted(charm.links))
        raise BuildError(f"charm {charm.name} has no link {link}; it has {links}")
    return link


def _listed(declared: dict[str, Any], values: dict[str, Any]) -> list[Step]:
    return [
        {"name": name, "data-type": _data_type(declared.get(name, {})), "value": value}
        for name, value in values.items()
    ]


def _data_type(schema: dict[str, Any]) -> str:
    return DATA_TYPES[schema.get("type", "string")]


def day_2(charm: charms.Charm, reference: str) -> list[Step]:
    """Return a primitive for each action of a charm that operators may press."""
    return [
        {
            "name": name,
            "execution-environment-ref": reference,
            "execution-environment-primitive": name,
            **_offered(name, action),
        }
        for name, action in charm.actions.items()
        if name not in NOT_FOR_OPERATORS
    ]


def _offered(primitive: str, action: dict[str, Any]) -> dict[str, Any]:
    required = action.get("required", ())
    listed = []
    for name, schema in (action.get("params") or {}).items():
        parameter: dict[str, Any] = {"name": name, "data-type": _data_type(schema)}
        if primitive == charms.KEPT and "default" not in schema:
            continue  # OSM sends a BOOLEAN in any case; configure-sgi or configure-n6 changes it.
        if name in required:
            parameter["mandatory"] = True
        else:
            default = schema.get("default", "")
            text = str(default).lower() if isinstance(default, bool) else str(default)
            if not text:
                # OSM ignores `mandatory` and demands every parameter that has no default.
                raise BuildError(
                    f"action {primitive}: {name}: an optional parameter needs a default "
                    "that is not empty"
                )
            parameter["default-value"] = text
        listed.append(parameter)
    return {"parameter": listed} if listed else {}


def named(descriptor: dict[str, Any], key: str) -> list[str]:
    """Return the texts that stand below a key, such as `charm`, anywhere in a descriptor."""
    return sorted(set(_values(descriptor, key)))


def _values(value: Any, key: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name, item in value.items():
            if name == key and isinstance(item, str):
                yield item
            else:
                yield from _values(item, key)
    elif isinstance(value, list):
        for item in value:
            yield from _values(item, key)
