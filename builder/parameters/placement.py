"""Deployments over several sites: one file with the site of each VNF becomes OSM's parameters.

OSM spreads the same facts over four places of a parameter file: `vnf[].vim_account`, a dictionary
of network names for each link between sites, fixed addresses of its ends, and the gateways in
`additionalParams`. A deployment file has them in one place. The build refuses contradictions.
"""

import copy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, IPvAnyAddress

from builder import documents
from builder.documents import links_of, nics_at, profiles_of
from builder.errors import BuildError
from builder.strict import Strict, checked

Document = dict[str, Any]


class Place(Strict):
    """A site: its VIM account, and the networks there by the service's virtual link.

    OSM passes a link's subnet only to the VIM of `--vim_account`. So every link with an end at
    another site needs a network that exists there already.
    """

    vim: str = Field(min_length=1)
    networks: dict[str, str] = Field(default_factory=dict)


class Endpoint(Strict):
    """An end of a link that has at least one end outside the default site."""

    # Fixed address on the site's network; if None, the VIM chooses one.
    address: IPvAnyAddress | None = None
    # Address at which the other site reaches this end, if it is not its own address.
    floating: IPvAnyAddress | None = None


class Deployment(Strict):
    """A deployment file."""

    service: str  # NSD.
    parameters: str  # Parameter file of the service that is completed.
    description: str = ""  # For people.
    sites: dict[str, Place] = Field(min_length=2)  # By name.
    default: str  # Site of the members that `members` does not name.
    members: dict[str, str] = Field(min_length=1)  # Site by member.
    # Ends by virtual link and member.
    endpoints: dict[str, dict[str, Endpoint]] = Field(default_factory=dict)

    def site_of(self, member: str) -> str:
        return self.members.get(member, self.default)


def read(path: Path) -> Deployment:
    return checked(Deployment, documents.read(path), path)


def parameters(
    deployment: Deployment,
    nsd: Mapping[str, Any],
    vnfds: Mapping[str, Mapping[str, Any]],
    base: Mapping[str, Any],
    where: str,
) -> Document:
    """Return OSM's parameters of a deployment.

    Args:
        vnfds: VNFD by id.
        where: Name of the file, for messages.
    """
    profiles = profiles_of(nsd)
    _check_names(deployment, set(profiles), where)
    document = copy.deepcopy(dict(base))
    document["vnf"] = [
        {"member-vnf-index": member, "vim_account": deployment.sites[site].vim}
        for member, site in deployment.members.items()
        if site != deployment.default
    ]
    # No WIM (WAN manager): routers outside OSM connect the sites.
    document["wimAccountId"] = False
    links = {link["name"]: link for link in document.get("vld", ())}
    outside = dict(_outside(deployment, nsd))
    for link in deployment.endpoints:
        if link not in outside:
            known = ", ".join(sorted(outside)) or "none"
            raise BuildError(
                f"{where}: endpoints: {link} is at {deployment.default} alone; "
                f"links that are not: {known}"
            )
    values = {str(v["member-vnf-index"]): v for v in document["additionalParamsForVnf"]}
    for link, ends in outside.items():
        links[link] = _link(deployment, link, ends, links.get(link, {}), where)
        for member, point in ends.items():
            end = deployment.endpoints.get(link, {}).get(member, Endpoint())
            names = _gateway_parameters(vnfds[profiles[member]["vnfd-id"]], point)
            if member not in values:
                raise BuildError(f"{where}: parameters: {deployment.parameters} has no {member}")
            if end.floating is not None:
                given = values[member]["additionalParams"]
                taken = [name for name in names if name in given]
                if not taken:
                    lacks = f"has no parameter {', '.join(names)}"
                    if not names:
                        lacks = f"has no link over {point} with a gateway"
                    raise BuildError(
                        f"{where}: endpoints: {link}: {member}: floating: {member} {lacks}; "
                        "allowed: without floating"
                    )
                given.update(dict.fromkeys(taken, str(end.floating)))
    document["vld"] = list(links.values())
    return document


def _check_names(deployment: Deployment, members: set[str], where: str) -> None:
    sites = ", ".join(sorted(deployment.sites))
    for name in (deployment.default, *deployment.members.values()):
        if name not in deployment.sites:
            raise BuildError(f"{where}: {name} is no site; allowed: {sites}")
    if set(deployment.members.values()) <= {deployment.default}:
        raise BuildError(
            f"{where}: members: all are at the default site {deployment.default}; "
            "allowed: at least one at another site"
        )
    vims = [site.vim for site in deployment.sites.values()]
    if len(set(vims)) != len(vims):
        raise BuildError(f"{where}: sites: two have the same vim; allowed: one site for a VIM")
    ends = {member for link in deployment.endpoints.values() for member in link}
    for member in sorted(set(deployment.members) | ends):
        if member not in members:
            raise BuildError(
                f"{where}: {member} is no member of {deployment.service}; "
                f"allowed: {', '.join(sorted(members))}"
            )


def _outside(
    deployment: Deployment, nsd: Mapping[str, Any]
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each link with an end outside the default site, and its connection point by member."""
    for link in nsd.get("virtual-link-desc") or ():
        if link.get("mgmt-network"):
            continue  # each VIM has a management network of its own
        ends = {
            member: str(point["constituent-cpd-id"])
            for member, connection, name in links_of(nsd)
            if name == link["id"]
            for point in connection["constituent-cpd-id"]
        }
        if {deployment.site_of(member) for member in ends} - {deployment.default}:
            yield str(link["id"]), ends


def _link(
    deployment: Deployment, link: str, ends: Mapping[str, str], base: Mapping[str, Any], where: str
) -> Document:
    networks = {}
    sites = sorted({deployment.site_of(member) for member in ends})
    for name in sites:
        site = deployment.sites[name]
        if link not in site.networks:
            why = (
                "crosses sites"
                if len(sites) > 1
                else f"is not at the default site {deployment.default}, where alone OSM makes "
                "its subnet,"
            )
            raise BuildError(
                f"{where}: sites: {name}: networks: link {link} {why} and needs a network there"
            )
        networks[site.vim] = site.networks[link]
    entry: Document = {"name": link, "vim-network-name": networks}
    key = "vnfd-connection-point-ref"
    # A link at one site keeps the service's addresses; the network there has the same subnet.
    addresses = {
        point["member-vnf-index-ref"]: point["ip-address"]
        for point in base.get(key) or ()
        if len(sites) == 1 and "ip-address" in point
    }
    for member, end in deployment.endpoints.get(link, {}).items():
        if end.address is not None:
            addresses[member] = str(end.address)
    points = [
        {
            "member-vnf-index-ref": member,
            "vnfd-connection-point-ref": point,
            "ip-address": addresses[member],
        }
        for member, point in ends.items()
        if member in addresses
    ]
    if points:
        entry[key] = points
    return entry


def _gateway_parameters(vnfd: Mapping[str, Any], point: str) -> list[str]:
    """Return the names of the parameters for the gateways of the links over a connection point.

    Several links may share an interface, as S1-C and S1-U of a cell do.
    """
    # Unresolved references are skipped here; the validator reports them.
    nics = {name for _, name in nics_at(vnfd, [point])}
    names = []
    for entry in documents.day_1_2(vnfd):
        for primitive in entry.get("initial-config-primitive") or ():
            given = {p["name"]: p.get("value") for p in primitive.get("parameter") or ()}
            # A VLAN interface is called INTERFACE.NUMBER.
            underlay = str(given.get("underlay-interface")).partition(".")[0]
            if underlay in nics and "gateway" in given:
                names.append(str(given["gateway"]).strip("<>"))
    return names


def command(deployment: Deployment, name: str, file: str) -> str:
    vim = deployment.sites[deployment.default].vim
    return (
        f"osm ns-create --ns_name {name} --nsd_name {deployment.service} --vim_account {vim} "
        f"--config_file {file}"
    )
