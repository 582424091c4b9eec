"""All codes of the validator; docs/reference/validator.md shows this table."""

from __future__ import annotations

from typing import Literal, NamedTuple

Severity = Literal["refused", "silent"]


class Code(NamedTuple):
    """Meaning of a code.

    Attributes:
        severity: See Problem.
        meaning: What OSM does.
        remedy: How to correct it.
    """

    severity: Severity
    meaning: str
    remedy: str


def _refused(meaning: str, remedy: str) -> Code:
    return Code("refused", meaning, remedy)


def _silent(meaning: str, remedy: str) -> Code:
    return Code("silent", meaning, remedy)


GROUPS: dict[str, dict[str, Code]] = {
    "Archives": {
        "archive-unreadable": _refused(
            "The file is neither tar.gz nor zip, or it is damaged.", "Pack it again."
        ),
        "archive-path": _refused(
            "NBI refuses absolute paths and `..`.", "Pack from the folder above the package."
        ),
        "archive-top": _refused(
            "NBI refuses files beside the top folder.", "Put everything into one folder."
        ),
        "archive-folders": _silent(
            "OSM reads charms and cloud-init below one top folder only.",
            "Put everything into one folder.",
        ),
        "archive-size": _refused(
            "It unpacks to more than this validator reads.", "Take out what no VNF needs."
        ),
        "archive-link": _silent("A link leads out of the package.", "Copy the file in."),
        "archive-member": _silent(
            "A device, socket or dangling hard link, a path with `.` or `//`, or data after the "
            "archive's end.",
            "Pack it again from a folder, without it.",
        ),
        "archive-twice": _silent("A path stands twice.", "Pack it again from a folder."),
        "descriptor-count": _refused(
            "NBI wants exactly one YAML file directly in the top folder (zip: at the top or in "
            "`Definitions`).",
            "Move other YAML files into a folder; pack `name`, not `./name`.",
        ),
        "descriptor-json": _refused("NBI fails on every JSON descriptor.", "Write YAML."),
        "descriptor-yaml": _refused(
            "The descriptor is no YAML, not UTF-8, or grows without bound through aliases.",
            "See the reason in the sentence.",
        ),
        "envelope": _refused(
            "The top level is none of `vnfd:`, `nsd: {nsd: [one]}`, `nst: [one]`, and no "
            "descriptor by itself.",
            "Use one of these.",
        ),
        "old-format": _refused(
            "A descriptor of OSM before Release 9, or a TOSCA template (SOL001).",
            "Write it in SOL006, as OSM's packages since Release 9.",
        ),
        "envelope-beside": _silent(
            "OSM drops what stands beside the envelope.", "Move it inside or delete it."
        ),
    },
    "Schema": {
        "unknown-key": _refused("SOL006 with OSM's augments has no such key.", "See the hint."),
        "missing-key": _refused("NBI fails without this key.", "Add it."),
        "wrong-value": _refused(
            "The value has another type, or is none of those allowed.", "See the sentence."
        ),
        "duplicate-id": _refused("An id or name is used twice in a list.", "Rename one."),
    },
    "VNFD": {
        "mgmt-cp": _refused("`mgmt-cp` is missing or no ext-cpd.", "Name an ext-cpd."),
        "ext-cpd": _refused("An ext-cpd leads to no int-cpd of a VDU.", "Correct `int-cpd`."),
        "virtual-link": _refused(
            "A reference to an int-virtual-link-desc that is not there.", "Add or correct it."
        ),
        "vdu-reference": _refused(
            "A VDU names a compute or storage description that is not there.", "Correct the id."
        ),
        "vdu-storage": _refused(
            "A VDU has no `virtual-storage-desc`, on which NBI fails.", "Add one."
        ),
        "vdu-compute": _silent("A VDU has no `virtual-compute-desc`.", "Add one."),
        "vdu-image": _silent(
            "`sw-image-desc` of a VDU is missing or names no image of the VNFD.",
            "Correct `sw-image-desc`.",
        ),
        "vdu-name": _silent(
            "The VDU's name differs from its id, and OSM cannot heal it.", "Make them equal."
        ),
        "storage-size": _silent("A disk has no size.", "Set `size-of-storage`, in GB."),
        "compute-size": _silent(
            "A flavour has no memory.",
            "Set `virtual-memory/size`, in GiB.",
        ),
        "image-name": _silent("RO finds images by `image`.", "Set it to the VIM's name."),
        "nic-position": _silent(
            "Some NICs have a `position`, or two the same.", "Give all one, or none."
        ),
        "nic-order": _silent(
            "NICs come in another order than their names say, so a name or `underlay-interface` "
            "means another network.",
            "Put `position` in the order of the names.",
        ),
        "df-count": _silent("OSM deploys the first flavour only.", "Make packages of the others."),
        "vdu-profile": _silent("A vdu-profile of no VDU.", "Correct the id."),
        "vdu-level": _silent("A vdu-level of no VDU.", "Correct `vdu-id`."),
        "day1-2": _refused(
            "`operate-vnf-op-config` without `day1-2`, on which NBI fails.", "Add it."
        ),
        "day1-2-id": _silent(
            "OSM ignores entries that have not the id of the VNFD, a VDU or a KDU.",
            "Correct the id.",
        ),
        "day1-2-twice": _refused("Two entries with one id.", "Merge them."),
        "vdu-no-level": _silent(
            "There are VDUs and no `instantiation-level`, on which LCM fails.", "Add one."
        ),
        "helm-chart": _refused("A KDU's chart is neither [REPO/]NAME nor a URL.", "Correct it."),
        "helm-folder": _silent(
            "An environment's chart is no name of a folder of `helm-charts`.", "Correct it."
        ),
        "helm-missing": _silent(
            "The package has no folder of an environment's chart, or no `Chart.yaml` in it.",
            "tar.gz: `helm-charts/NAME/`; zip: `Scripts/helm-charts/NAME/`.",
        ),
        "monitoring-id": _refused(
            "A monitoring parameter's id is used twice in the VNFD.", "Rename one."
        ),
        "monitoring-reference": _refused(
            "An alarm or a scaling criterion names no monitoring parameter.", "Correct it."
        ),
        "healing-vdu": _refused("A healing policy of a VDU without level.", "Correct `vdu-id`."),
        "scaling-name": _silent("NBI looks up the aspect's id, LCM its name.", "Make them equal."),
        "scaling-details": _refused(
            "A scaling aspect without `aspect-delta-details`, on which NBI fails.", "Add it."
        ),
        "scaling-delta": _refused("A vdu-delta of a VDU without level.", "Correct the id."),
        "scaling-day0": _silent(
            "LCM deploys charms for added VDUs only where they have cloud-init.",
            "Add a cloud-init-file.",
        ),
        "scaling-action": _refused(
            "A scaling-config-action names no primitive of every day1-2 entry.",
            "Add the primitive to each.",
        ),
    },
    "Charms": {
        "charm-missing": _refused("The package has no folder with charms.", "Build it again."),
        "charm-name": _silent("NBI does not look for the charm itself, LCM does.", "Correct it."),
        "charm-place": _silent(
            "NBI accepts the folder of the other layout, LCM does not.",
            "tar.gz: `charms/`; zip: `Scripts/charms/`.",
        ),
        "charm-file": _silent(
            "Juju refuses metadata.yaml, actions.yaml or config.yaml.", "See the sentence."
        ),
        "charm-metadata": _silent("The charm's name is not its folder's.", "Make them equal."),
        "charm-series": _silent("LCM gives every machine bionic.", "Add bionic to `series`."),
        "charm-dispatch": _silent(
            "Nothing executable that Juju could start.", "Make `dispatch` executable."
        ),
        "charm-line-ends": _silent(
            "A script has Windows line ends or a byte order mark, and Linux does not start it.",
            "Save it with LF, without the mark.",
        ),
        "charm-skipped": _silent(
            "libjuju leaves out `build/` and files that begin with a dot.", "Rename them."
        ),
        "charm-link": _silent("libjuju refuses links out of the charm.", "Copy the file in."),
        "charm-date": _silent("libjuju cannot zip dates before 1980.", "Touch the files."),
        "zip-link": _silent("OSM's unzip makes files of links.", "Use tar.gz."),
        "ee-id": _refused("Two execution environments with one id.", "Rename one."),
        "ee-kind": _silent("An environment without charm or helm chart.", "Add one."),
        "ee-connection-point": _silent("It names no ext-cpd.", "Correct it."),
        "ee-reference": _silent(
            "A primitive names no execution environment of its entry.", "Correct it."
        ),
        "ssh-user": _silent(
            "Without `default-user` OSM injects no key and says nothing.", "Add it."
        ),
    },
    "Primitives": {
        "seq-twice": _refused("Two primitives with one `seq`.", "Renumber."),
        "primitive-twice": _refused("Two primitives with one name.", "Rename."),
        "parameter-twice": _refused("Two parameters of a primitive with one name.", "Rename."),
        "user-script": _silent("OSM ignores `user-defined-script`.", "Write an action."),
        "parameter-value": _silent(
            "A parameter without value fails when a service is created, or terminated.",
            "Add a value.",
        ),
        "boolean-text": _silent(
            "For OSM every text but `false` is true; booleans in YAML become `True`, `False`.",
            'Write "true" or "false".',
        ),
        "substitution": _silent(
            "`<name>` is passed on as it is: only a part of the value, in a terminate primitive, "
            "or a name OSM does not fill here.",
            "See the sentence.",
        ),
        "rw-mgmt-ip": _silent(
            "`<rw_mgmt_ip>` after an environment's first primitive can be another instance's "
            "address.",
            "Use it in the first one only.",
        ),
        "config-string": _silent(
            "libjuju raises for options that are no text.", "Use STRING and quotes."
        ),
        "config-option": _silent("The charm has no such option.", "Correct the name."),
        "action-missing": _silent("The charm has no such action.", "Correct the name."),
        "action-parameter": _silent("The action has no such parameter.", "Correct the name."),
        "action-required": _silent("The action requires a parameter.", "Add it."),
        "action-type": _silent(
            "The data-type gives another JSON type than the action takes.", "Correct `data-type`."
        ),
        "action-value": _silent("The action does not take this value.", "Correct it."),
        "default-empty": _silent(
            "NBI demands every parameter that has no default.", "Give a default, or mandatory."
        ),
    },
    "Day-0": {
        "cloud-init-missing": _refused("The cloud-init file is not there.", "Add it."),
        "cloud-init-place": _silent(
            "NBI accepts the folder of the other layout, LCM does not.",
            "tar.gz: `cloud_init/`; zip: `Scripts/cloud_init/`.",
        ),
        "cloud-init-size": _silent("A file of more than 1 MiB.", "Fetch data at first boot."),
        "cloud-init-text": _silent(
            "A Day-0 file that is not UTF-8, or a script with Windows line ends.",
            "Save it as UTF-8, with LF.",
        ),
        "cloud-init-login": _silent(
            "OSM cannot log in as `default-user`: nobody makes that user, or SSH is shut.",
            "See the sentence.",
        ),
        "cloud-init-header": _silent("cloud-init ignores it.", "Begin with `#cloud-config`."),
        "cloud-init-jinja": _silent(
            "Jinja2 fails on it, often because of shell code.", "Use raw blocks."
        ),
        "cloud-init-comment": _silent(
            "`{# ... #}` disappears, also between two `${#name}`.", "Use raw blocks."
        ),
        "cloud-init-osm": _silent("A key of OSM that is not there.", "Correct it."),
        "cloud-init-escape": _silent(
            "A value's `\"`, `'`, `&`, `<` and `>` become HTML entities.", "Add `|safe`."
        ),
        "cloud-init-yaml": _silent("The cloud-config is no mapping in YAML.", "Correct it."),
        "cloud-init-password": _silent("A password in clear.", "Use keys, or a hash."),
        "boot-data-drive": _silent(
            "With `boot-data-drive: true` OSM's SSH keys are left out.", "Remove it."
        ),
    },
    "NSD": {
        "vnfd-unknown": _refused("A VNFD is not onboarded.", "Onboard it first."),
        "vnfd-reference": _refused("A vnf-profile's VNFD is not in `vnfd-id`.", "Add it there."),
        "cpd-unknown": _refused("The VNFD has no such ext-cpd.", "Correct it."),
        "cpd-member": _silent(
            "`constituent-base-element-id` is not the profile's id.", "Make them equal."
        ),
        "ns-link": _silent("A connection to no virtual link.", "Correct the id."),
        "mgmt-protocol-data": _refused(
            "A management network cannot have `virtual-link-protocol-data`.", "Remove it."
        ),
        "app-name": _silent(
            "LCM names Juju applications after 12 characters of an id, and two are equal.",
            "Use ids that differ early.",
        ),
        "ns-config-info": _silent(
            "LCM sets the option `ns_config_info` of an NS charm.", "Add it to config.yaml."
        ),
        "ns-terminate": _silent("LCM breaks on an NS's terminate primitives.", "Remove them."),
        "ns-action": _silent("LCM cannot run an NS's primitives.", "Put them into a VNF."),
    },
    "Relations": {
        "relation-place": _silent(
            "OSM reads a VNFD's relations in the entry with the VNFD's id.", "Move it there."
        ),
        "relation-form": _silent(
            "Neither provider and requirer nor two entities, or both.", "Use the first form."
        ),
        "relation-member": _silent("An end names no member, VDU or NS charm.", "Correct it."),
        "relation-ee": _silent("An end has no execution environment.", "Correct it."),
        "relation-endpoint": _silent(
            "The charm has no such endpoint; OSM counts the relation as added.", "Correct it."
        ),
        "relation-role": _silent(
            "A provider must be an endpoint the charm provides, a requirer one it requires.",
            "Swap the ends.",
        ),
        "relation-self": _silent(
            "Both ends are the same charm, and Juju relates none with itself.", "Correct one end."
        ),
        "relation-interface": _silent("The ends have different interfaces.", "Correct one."),
    },
    "NST": {
        "nsd-unknown": _refused("An NSD is not onboarded.", "Onboard it first."),
        "subnet-description": _silent(
            "NBI demands it when the slice is made.", "Add a description."
        ),
        "subnet-shared": _silent(
            "LCM counts the slices that use a shared service by netslice-vld only.",
            "Give the shared service an end of a netslice-vld.",
        ),
        "nss-reference": _silent("A link names no netslice-subnet.", "Correct `nss-ref`."),
        "nss-sap": _silent("The NSD has no such sapd.", "Correct it."),
        "nss-link-name": _silent(
            "A link has no name, on which LCM fails, or another one than its id.",
            "Make them equal.",
        ),
        "nss-link-ends": _silent(
            "A link without `nss-connection-point-ref`; NBI fails when a slice is created.",
            "Add its ends.",
        ),
        "nst-no-link": _silent(
            "LCM never finishes terminating a slice without `netslice-vld`.",
            "Add one, for example of the management network.",
        ),
    },
    "Creating a service": {
        "key-twice": _silent(
            "A key stands twice in a mapping, and YAML keeps the last one only.", "Delete one."
        ),
        "vdu-no-name": _silent(
            "NBI fails on a VDU without `name` when a service is created.", "Add it, as the id."
        ),
        "vdu-no-disk": _silent(
            "NBI fails on an empty `virtual-storage-desc` when a service is created.", "Add one."
        ),
        "vdu-alternative-image": _silent("An alternative image is not described.", "Correct it."),
        "healing-parameter": _silent(
            "Healing with `day1` has no additionalParams for the initial primitives.",
            "Set `day1: false`, or use `<rw_mgmt_ip>` only.",
        ),
        "ns-no-name": _silent(
            "NBI fails on an NSD without `name` when a service is created.", "Add it."
        ),
        "member-number": _silent(
            "NBI fails on a vnf-profile whose id is a number when a service is created.",
            "Put the id in quotes.",
        ),
        "ns-link-profile": _silent(
            "NBI looks up connections by the id of a virtual-link-desc, not of its profile.",
            "Name the virtual-link-desc.",
        ),
        "mgmt-none": _silent(
            "No virtual link is `mgmt-network`; RO makes them all, and charms reach no VNF.",
            "Set `mgmt-network: true` at the management link.",
        ),
        "link-profile-desc": _silent(
            "A virtual-link-profile names no virtual-link-desc; without the key LCM fails.",
            "Correct `virtual-link-desc-id`.",
        ),
        "link-cidr": _silent(
            "A `cidr` is no subnet, or `ip-version` or `gateway-ip` is not of it; the VIM refuses.",
            "Correct it.",
        ),
        "link-dhcp": _silent(
            "A fixed address is one that DHCP takes, so the VIM refuses the port.",
            "Set `dhcp-enabled: false`, or take another address.",
        ),
        "mgmt-link": _silent(
            "No virtual link is connected to a VNF's `mgmt-cp`.", "Connect the management network."
        ),
        "sap-link": _silent("An sapd names no virtual-link-desc.", "Correct it."),
        "relation-twice": _silent("Two relations with one name; OSM keeps one.", "Rename one."),
    },
    "Instantiation parameters": {
        "params-form": _refused("The parameters are no mapping.", "See the sentence."),
        "params-no-service": _silent(
            "A parameter file fits no service or slice among the packages.", "Correct its members."
        ),
        "params-disagree": _silent(
            "Network functions of one file differ in what they must agree on, and would not serve; "
            "or `vpn_technology` of any VNF has a word that charms do not know.",
            "Correct the site file or the value.",
        ),
        "params-member": _refused("The service has no such member.", "Correct the index."),
        "params-member-ignored": _silent(
            "Parameters of a member the service does not have.", "Correct the index."
        ),
        "params-vld": _refused("The service has no such virtual link.", "Correct the name."),
        "params-cpd": _silent("The VNF has no such connection point.", "Correct it."),
        "params-vdu": _refused("The VNF has no such VDU.", "Correct the id."),
        "params-vdu-unknown": _silent("Parameters of a VDU that is not there.", "Correct it."),
        "params-key": _refused(
            "A key has characters other than letters, digits and `_`.", "Rename it."
        ),
        "params-missing": _refused(
            "A `<parameter>` of an initial primitive is not supplied; those of a VDU replace "
            "those of its VNF.",
            "Add it to `additionalParams`.",
        ),
        "params-cloud-init": _silent(
            "A variable of cloud-init is not supplied, and rendering fails.",
            "Add it to `additionalParams`.",
        ),
        "params-vim-network": _silent(
            "A link between VIMs needs the name of a network in each.",
            "Give `vim-network-name` as a mapping from VIM to network.",
        ),
        "params-vim-subnet": _silent(
            "A fixed address at another VIM than the service's, where OSM makes a network with any "
            "192.168.x.0/24.",
            "Make the network there before and name it in `vim-network-name`.",
        ),
        "params-wim": _silent(
            "OSM looks for a WIM for a link between VIMs.", "Set `wim_account: false`."
        ),
        "params-flavor": _refused(
            "A flavor by name and by id; NBI takes one of them.", "Remove one."
        ),
        "params-interface": _refused("The VDU has no such NIC.", "Correct the name."),
        "params-interface-ignored": _silent(
            "NBI looks at the first NIC only, so a wrong name after it has no effect.",
            "Correct the name.",
        ),
        "params-internal-vld": _refused("The VNF has no such internal link.", "Correct the name."),
        "params-address": _silent(
            "A fixed address is outside its link's subnet, its first or last, or given twice.",
            "Correct it.",
        ),
        "params-dhcp": _silent(
            "A fixed address is in the allocation pool, or one that DHCP takes, so the VIM refuses "
            "the port.",
            "Set `enabled: false` in `dhcp-params`, or give a pool without the address.",
        ),
        "params-pool": _silent(
            "An allocation pool leaves its subnet, has one end, the gateway, or too few addresses.",
            "Correct `start-address` and `count`.",
        ),
        "params-twice": _silent(
            "A member or a link has two entries; OSM takes the first.", "Make one entry of them."
        ),
        "params-value": _silent(
            "A value does not fit the action or option it goes to, so the primitive fails: another "
            "type, no value, characters that look like others.",
            "See the sentence.",
        ),
        "params-ns-missing": _refused(
            "A `<parameter>` of the service's own charm is not supplied.",
            "Add it to `additionalParamsForNs`.",
        ),
        "params-floating-ip": _silent(
            "`floating-ip-required` is stored, and nothing reads it.",
            "Set `use_floating_ip` in the VIM's configuration.",
        ),
        "params-nss": _refused("The template has no such netslice-subnet.", "Correct the id."),
        "params-nsi-vld": _silent(
            "The template has no such netslice-vld, and OSM ignores it.", "Correct the name."
        ),
        "params-nss-vld": _silent(
            "LCM drops subnet and network names of links that no netslice-vld connects.",
            "Put the subnet into the NSD, as a virtual-link-profile.",
        ),
        "params-five-qi": _silent(
            "A VNF would enforce another 5QI than the template's quality-of-service has.",
            "Give the template's, or 0.",
        ),
        "params-five-qi-unused": _silent(
            "No VNF enforces the 5QI of the template, and neither does OSM.",
            "Give it to a link, see `params/slices.yaml`.",
        ),
    },
}
CODES: dict[str, Code] = {code: entry for group in GROUPS.values() for code, entry in group.items()}
