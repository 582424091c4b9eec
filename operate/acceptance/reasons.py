"""Causes of failed operations, and the commands that correct them.

The texts are those of OSM's RO and LCM, and of OpenStack's drivers in RO.
"""

import re
from typing import NamedTuple


class Remedy(NamedTuple):
    """One sentence and one command."""

    sentence: str
    command: str


#: OSM decodes the authority's certificate from base64.
VCA_ADD = (
    "osm vca-add osm-vca --endpoints HOST:17070 --user USER --secret PASSWORD "
    '--cacert "$(base64 -w0 ca.pem)" --lxd-cloud CLOUD --lxd-credentials CREDENTIAL '
    "--k8s-cloud K8S --k8s-credentials K8S_CREDENTIAL"
)
_KNOWN: tuple[tuple[str, Remedy], ...] = (
    (
        r"not supplied|not provided for primitive|not present at vnfd /nsd",
        Remedy(
            "A package in OSM is of another build than the parameters.",
            "osm vnfpkg-update PACKAGE --content dist/PACKAGE.tar.gz",
        ),
    ),
    (
        r"[Ii]mage.*(not be found|not found)|not found.*image|No image",
        Remedy(
            "The VIM has no image called ubuntu22.04, or has two.",
            "openstack image create ubuntu22.04 --disk-format qcow2 --container-format bare "
            "--file jammy-server-cloudimg-amd64.img",
        ),
    ),
    (
        r"[Aa]lready ?[Aa]llocated",
        Remedy(
            "An address is taken at the VIM, as by a port of DHCP: underlays must have no DHCP.",
            "openstack subnet set --no-dhcp SUBNET",
        ),
    ),
    (
        r"has no address yet",
        Remedy(
            "A VDU got no network data: there is no metadata service or configuration drive.",
            "openstack server show SERVER -c config_drive",
        ),
    ),
    (
        r"[Qq]uota|Exceeded|exceeds",
        Remedy(
            "A quota of the project is full.",
            "openstack quota show && openstack limits show --absolute",
        ),
    ),
    (
        r"[Nn]o valid host|not enough hosts",
        Remedy("No compute host has room for a VDU.", "openstack hypervisor stats show"),
    ),
    (
        r"[Ff]lavor",
        Remedy(
            "The VIM has no flavor that fits, and OSM may make none.",
            "openstack flavor create acceptance --vcpus 1 --ram 1024 --disk 10",
        ),
    ),
    (
        r"port.?security",
        Remedy(
            "The VIM lets port security not be switched off, which a VPN needs.",
            "openstack extension list --network -c Alias -f value | grep -x port-security",
        ),
    ),
    (
        r"[Nn]etwork not found|network.*could not be found|More than one network",
        Remedy(
            "The management network is not there, or there are two of the name.",
            "osm vim-update VIM --config '{management_network_name: mgmt}'",
        ),
    ),
    (
        r"inject ssh|ssh.?key|[Cc]annot reach|[Uu]nable to connect to VM",
        Remedy(
            "Nobody can log in to the VDU: the security group must let TCP 22 in on management.",
            "openstack security group rule create default --protocol tcp --dst-port 22",
        ),
    ),
    (
        r"[Ee]xecution environment|VCA|N2VC|[Jj]uju|create_machine|controller",
        Remedy(
            "No Juju controller takes the charms.",
            VCA_ADD,
        ),
    ),
    (
        r"[Aa]uthenticat|[Uu]nauthorized|[Cc]redentials|[Ff]orbidden",
        Remedy(
            "OSM cannot log in to the VIM.",
            "osm vim-update VIM --user USER --password PASSWORD",
        ),
    ),
    (
        r"[Tt]imeout|not done after",
        Remedy(
            "OSM waited for something that did not come; its LCM says for what.",
            "kubectl -n osm logs deploy/lcm",
        ),
    ),
)


def remedy(text: str) -> Remedy | None:
    """Return the cause of OSM's error text, None if it is unknown."""
    return next((known for pattern, known in _KNOWN if re.search(pattern, text)), None)
