"""One small change to a good package for every rule, and the one problem it must give.

A case is (code, end of the path, part of OSM's own message, draft, edits).
"""

from functools import partial
from operator import methodcaller

from validate_support import CLOUD_INIT, ENTRY, File, ns, ns_with_charm, nst, vnf

DAY12 = f"{ENTRY}/0"
INITIAL = f"{DAY12}/initial-config-primitive"
EE = f"{DAY12}/execution-environment-list"
DF = "df[0]"
AT = "vnfd/df[0]/lcm-operations-configuration/operate-vnf-op-config/day1-2[0]"
CONN = "df/0/vnf-profile/0/virtual-link-connectivity/1"
RELATION = "ns-configuration/relation/0"
ASPECT = "df/0/scaling-aspect/0"


#: Edits by the methods of a draft.
put, drop, add, charm, rename = (
    partial(methodcaller, name) for name in ("put", "drop", "add", "charm", "rename")
)


def file(path, text="", **settings):
    def edit(draft):
        draft.files[path] = File(text, **settings)

    return edit


def init(text):
    return file("cloud_init/init.yaml", text)


def member(number, name):
    """Return edits that make `name` the member of a vnf-profile's connections."""
    place = f"df/0/vnf-profile/{number}/virtual-link-connectivity"
    key = "constituent-cpd-id/0/constituent-base-element-id"
    return [put(f"{place}/{link}/{key}", name) for link in (0, 1)]


def remove(start):
    def edit(draft):
        for path in [p for p in draft.files if p.startswith(start)]:
            del draft.files[path]

    return edit


def chmod(path, mode):
    def edit(draft):
        draft.files[path].mode = mode

    return edit


def envelope(document):
    def edit(draft):
        draft.document = document

    return edit


def beside(draft):
    draft.document["metadata"] = {}


def initial(index, key, value):
    return put(f"{INITIAL}/{index}/{key}", value)


def parameter(value, **more):
    """Replace the second parameter of the primitive `configure`."""
    return put(f"{INITIAL}/1/parameter/1", {"name": "port", "value": value, **more})


def day2(**settings):
    """Replace the parameters of the day-2 primitive `configure` after the link."""

    def edit(draft):
        listed = f"{DAY12}/config-primitive/1/parameter"
        draft.drop(f"{listed}/2")
        draft.put(f"{listed}/1", settings)

    return edit


SCHEMA = [
    ("envelope", "gate.yaml", "", vnf, [envelope({"vnf": {}})]),
    ("envelope", "gate.yaml", "", vnf, [envelope(["vnfd"])]),
    ("envelope", "gate.yaml", "", vnf, [envelope({1: 2})]),
    ("envelope", "gate.yaml", "'vnfd' must be dict", vnf, [envelope({"vnfd": []})]),
    ("envelope", "gate.yaml", "list of only one element", ns, [envelope({"nsd": {"nsd": []}})]),
    ("envelope", "gate.yaml", "list of only one element", ns, [envelope({"nsd": [{}]})]),
    ("envelope", "gate.yaml", "list only one element", nst, [envelope({"nst": [{}, {}]})]),
    ("old-format", "gate.yaml", "use an ETSI SOL006", vnf, [envelope({"vnfd:vnfd-catalog": {}})]),
    ("old-format", "gate.yaml", "", vnf, [envelope({"vnfd": {"id": "a", "connection-point": []}})]),
    ("old-format", "gate.yaml", "", ns, [envelope({"id": "a", "constituent-vnfd": [], "vld": []})]),
    ("old-format", "gate.yaml", "", ns, [envelope({"nsd": {"nsd": [{"constituent-vnfd": []}]}})]),
    (
        "old-format",
        "gate.yaml",
        "",
        vnf,
        [envelope({"tosca_definitions_version": "tosca_simple_yaml_1_2"})],
    ),
    ("old-format", "gate.yaml", "", ns, [envelope({"topology_template": {}})]),
    ("envelope-beside", "gate.yaml", "", vnf, [beside]),
    ("unknown-key", "vnfd/mgmtcp", "did not exist (mgmtcp)", vnf, [put("mgmtcp", "x")]),
    ("unknown-key", "vnfd/vdu[0]/cloud-init-fil", "", vnf, [put("vdu/0/cloud-init-fil", "x")]),
    ("unknown-key", "nsd[0]/vnfd", "pyangbind", ns, [put("vnfd", [])]),
    ("unknown-key", "relation[0]/provider/end", "", ns, [put(f"{RELATION}/provider/end", "x")]),
    ("unknown-key", "nst[0]/SNSSAI-identifier/sd", "", nst, [put("SNSSAI-identifier/sd", "1")]),
    ("unknown-key", f"{AT}/parameter-group", "", vnf, [put(f"{DAY12}/parameter-group", [])]),
    ("missing-key", "vnfd/id", "pyangbind", vnf, [drop("id")]),
    ("missing-key", f"{AT}/initial-config-primitive[0]/seq", "", vnf, [drop(f"{INITIAL}/0/seq")]),
    ("wrong-value", "vnfd/vdu", "", vnf, [put("vdu", {})]),
    ("wrong-value", "vnfd/df", "", vnf, [put("df", [])]),
    (
        "wrong-value",
        "num-virtual-cpu",
        "",
        vnf,
        [put("virtual-compute-desc/0/virtual-cpu/num-virtual-cpu", "two")],
    ),
    (
        "wrong-value",
        "num-virtual-cpu",
        "",
        vnf,
        [put("virtual-compute-desc/0/virtual-cpu/num-virtual-cpu", True)],
    ),
    (
        "wrong-value",
        "virtual-memory/size",
        "",
        vnf,
        [put("virtual-compute-desc/0/virtual-memory/size", float("nan"))],
    ),
    (
        "wrong-value",
        "virtual-interface/type",
        "",
        vnf,
        [
            put(
                "vdu/0/int-cpd/0/virtual-network-interface-requirement/0/virtual-interface",
                {"type": "VHOST"},
            )
        ],
    ),
    ("wrong-value", "parameter[1]/data-type", "", vnf, [parameter("1", **{"data-type": "INT"})]),
    ("wrong-value", "parameter[1]/value", "", vnf, [parameter({"a": 1})]),
    ("wrong-value", "trigger", "", vnf, [put(f"{ASPECT}/scaling-config-action/0/trigger", "now")]),
    ("wrong-value", "ip-address", "", ns, [put(f"{CONN}/constituent-cpd-id/0/ip-address", "1.2")]),
    ("wrong-value", "mgmt-network", "", ns, [put("virtual-link-desc/0/mgmt-network", "yes")]),
    (
        "wrong-value",
        "slice-service-type",
        "",
        nst,
        [put("SNSSAI-identifier", {"slice-service-type": "x"})],
    ),
    ("wrong-value", "quality-of-service/id", "", nst, [put("quality-of-service", {"id": -1})]),
]

VNFD = [
    (
        "duplicate-id",
        "vnfd/virtual-storage-desc[1]/id",
        "Error: identifier id 'disk' is not unique and repeats at '.virtual-storage-desc[1]'",
        vnf,
        [add("virtual-storage-desc", {"id": "disk", "size-of-storage": 1})],
    ),
    (
        "duplicate-id",
        "requirement[1]/name",
        "identifier name 'ens3' is not unique and repeats at "
        "'.vdu[0].int-cpd[0].virtual-network-interface-requirement[1]'",
        vnf,
        [
            add(
                "vdu/0/int-cpd/0/virtual-network-interface-requirement",
                {"name": "ens3", "position": 9},
            )
        ],
    ),
    ("mgmt-cp", "vnfd", "'mgmt-cp' is a mandatory field and it is not", vnf, [drop("mgmt-cp")]),
    ("mgmt-cp", "mgmt-cp", "mgmt-cp='x' must match an existing", vnf, [put("mgmt-cp", "x")]),
    (
        "ext-cpd",
        "ext-cpd[1]/int-cpd",
        "ext-cpd[id='data-ext']:int-cpd must match an existing vdu int-cpd",
        vnf,
        [put("ext-cpd/1/int-cpd/cpd", "x")],
    ),
    ("ext-cpd", "ext-cpd[1]/int-cpd", "", vnf, [put("ext-cpd/1/int-cpd/vdu-id", "x")]),
    (
        "virtual-link",
        "int-cpd[2]/int-virtual-link-desc",
        "vdu[id='vm']:int-cpd[id='inner-int']:int-virtual-link-desc='x' must match an existing",
        vnf,
        [put("vdu/0/int-cpd/2/int-virtual-link-desc", "x")],
    ),
    (
        "virtual-link",
        "df[0]/virtual-link-profile[0]/id",
        "df[id='default']:virtual-link-profile='x' must match an existing int-virtual-link-desc",
        vnf,
        [put("df/0/virtual-link-profile/0/id", "x")],
    ),
    (
        "vdu-reference",
        "vdu[0]/virtual-compute-desc",
        "vdu[virtual-compute-desc='x']not defined in vnfd",
        vnf,
        [put("vdu/0/virtual-compute-desc", "x")],
    ),
    (
        "vdu-reference",
        "vdu[0]/virtual-storage-desc[1]",
        "vdu[virtual-storage-desc='x']not defined in vnfd",
        vnf,
        [add("vdu/0/virtual-storage-desc", "x")],
    ),
    ("vdu-storage", "vdu[0]", "", vnf, [drop("vdu/0/virtual-storage-desc")]),
    ("vdu-compute", "vdu[0]", "", vnf, [drop("vdu/0/virtual-compute-desc")]),
    ("vdu-image", "vdu[0]/sw-image-desc", "", vnf, [put("vdu/0/sw-image-desc", "x")]),
    ("vdu-image", "vdu[0]/sw-image-desc", "", vnf, [drop("vdu/0/sw-image-desc")]),
    ("vdu-name", "vdu[0]/name", "", vnf, [put("vdu/0/name", "machine")]),
    ("storage-size", "storage-desc[0]", "", vnf, [drop("virtual-storage-desc/0/size-of-storage")]),
    ("image-name", "sw-image-desc[0]", "", vnf, [drop("sw-image-desc/0/image")]),
    (
        "nic-position",
        "vdu[0]/int-cpd",
        "",
        vnf,
        [drop("vdu/0/int-cpd/1/virtual-network-interface-requirement/0/position")],
    ),
    (
        "nic-position",
        "vdu[0]/int-cpd",
        "",
        vnf,
        [put("vdu/0/int-cpd/1/virtual-network-interface-requirement/0/position", 1)],
    ),
    (
        "nic-order",
        "vdu[0]/int-cpd",
        "",
        vnf,
        [
            put("vdu/0/int-cpd/0/virtual-network-interface-requirement/0/position", 2),
            put("vdu/0/int-cpd/1/virtual-network-interface-requirement/0/position", 1),
        ],
    ),
    ("df-count", "vnfd/df", "", vnf, [add("df", {"id": "other"})]),
    ("vdu-profile", "vdu-profile[1]/id", "", vnf, [add("df/0/vdu-profile", {"id": "x"})]),
    (
        "vdu-level",
        "vdu-level[1]/vdu-id",
        "",
        vnf,
        [add("df/0/instantiation-level/0/vdu-level", {"vdu-id": "x"})],
    ),
    (
        "day1-2",
        "operate-vnf-op-config",
        "",
        vnf,
        [put("df/0/lcm-operations-configuration/operate-vnf-op-config", {}), drop(ASPECT)],
    ),
    ("day1-2-id", "day1-2[1]/id", "", vnf, [add(ENTRY, {"id": "x"}), drop(ASPECT)]),
    (
        "day1-2-twice",
        "day1-2[1]/id",
        "list index out of range",
        vnf,
        [add(ENTRY, {"id": "gate_vnf"}), drop(ASPECT)],
    ),
    (
        "monitoring-id",
        "df[0]/monitoring-parameter[0]/id",
        "Duplicated monitoring-parameter id in df[id='default']:monitoring-parameter[id='load']",
        vnf,
        [put("df/0/monitoring-parameter", [{"id": "load"}])],
    ),
    (
        "monitoring-reference",
        "alarm[0]/vnf-monitoring-param-ref",
        "vdu[id='vm']:alarm[id='hot']:vnf-monitoring-param-ref='x' not defined in any monitoring",
        vnf,
        [put("vdu/0/alarm/0/vnf-monitoring-param-ref", "x")],
    ),
    (
        "monitoring-reference",
        "scaling-criteria[0]/vnf-monitoring-param-ref",
        "scaling-policy[name='auto']:scaling-criteria[name='load']:vnf-monitoring-param-ref='x'",
        vnf,
        [put(f"{ASPECT}/scaling-policy/0/scaling-criteria/0/vnf-monitoring-param-ref", "x")],
    ),
    (
        "healing-vdu",
        "healing-policy[0]/vdu-id",
        "healing-policy[name='gone']: vdu-id='x' not defined in vdu",
        vnf,
        [put("df/0/healing-aspect/0/healing-policy/0/vdu-id", "x")],
    ),
    ("scaling-name", "scaling-aspect[0]", "", vnf, [put(f"{ASPECT}/name", "x")]),
    ("scaling-details", "scaling-aspect[0]", "", vnf, [drop(f"{ASPECT}/aspect-delta-details")]),
    (
        "scaling-delta",
        "vdu-delta[0]/id",
        "scaling-aspect[id='more']:aspect-delta-details[delta='one']: vdu-id='x' not defined",
        vnf,
        [put(f"{ASPECT}/aspect-delta-details/deltas/0/vdu-delta/0/id", "x")],
    ),
    ("scaling-day0", "vdu-delta[0]/id", "", vnf, [drop("vdu/0/cloud-init-file")]),
    (
        "scaling-action",
        "vnf-config-primitive-name-ref",
        "vnf-config-primitive-name-ref='x' does not match any day1-2 configuration",
        vnf,
        [put(f"{ASPECT}/scaling-config-action/0/vnf-config-primitive-name-ref", "x")],
    ),
    (
        "scaling-action",
        "vnf-config-primitive-name-ref",
        "",
        vnf,
        [add(ENTRY, {"id": "vm"})],  # every entry needs the primitive, a VDU's too
    ),
    (
        "scaling-action",
        "scaling-config-action[0]",
        "'day1-2 configuration' not defined in the descriptor but it is referenced by",
        vnf,
        [put(ENTRY, [])],
    ),
]

CHARMS = [
    (
        "charm-missing",
        f"{AT}/execution-environment-list",
        "Charm defined in vnf[id=gate_vnf] but not present in package",
        vnf,
        [remove("charms/")],
    ),
    ("charm-name", "juju/charm", "", vnf, [put(f"{EE}/0/juju/charm", "door")]),
    ("charm-name", "ns-configuration/juju/charm", "", ns_with_charm, [remove("charms/")]),
    ("charm-place", "juju/charm", "", vnf, [rename("charms/", "Scripts/charms/")]),
    ("charm-file", "charms/gate/metadata.yaml", "", vnf, [remove("charms/gate/metadata")]),
    ("charm-file", "charms/gate/metadata.yaml", "", vnf, [charm("metadata.yaml", "name", "nam")]),
    ("charm-file", "charms/gate/actions.yaml", "", vnf, [file("charms/gate/actions.yaml", "- a")]),
    ("charm-file", "charms/gate/actions.yaml", "", vnf, [charm("actions.yaml", "integer", "int")]),
    (
        "charm-file",
        "charms/gate/actions.yaml",
        "",
        vnf,
        [charm("actions.yaml", "type: number", "$ref: http://x")],
    ),
    ("charm-file", "charms/gate/config.yaml", "", vnf, [file("charms/gate/config.yaml", "{")]),
    ("charm-metadata", "charms/gate/metadata.yaml", "", vnf, [charm("metadata.yaml", "gate", "x")]),
    (
        "charm-series",
        "charms/gate/metadata.yaml",
        "",
        vnf,
        [charm("metadata.yaml", "bionic, ", "")],
    ),
    ("charm-dispatch", "charms/gate", "", vnf, [chmod("charms/gate/dispatch", 0o644)]),
    *(
        ("charm-line-ends", f"charms/gate/{path}", "", vnf, [file(f"charms/gate/{path}", text)])
        for path, text in (
            ("hooks/install", "#!/bin/sh\r\ntrue\r\n"),
            ("hooks/start", "#!/usr/bin/env python3\r\n"),
            ("actions/touch", "#!/bin/bash\ntrue\r\n"),
            ("hooks/stop", "\ufeff#!/bin/sh\n"),
        )
    ),
    (
        "charm-line-ends",
        "charms/gate/src/run",
        "",
        vnf,
        [file("charms/gate/src/run", "#!/bin/sh\r\n", mode=0o755)],
    ),
    ("charm-skipped", "charms/gate/build", "", vnf, [file("charms/gate/build/x")]),
    ("charm-skipped", "charms/gate/.hidden", "", vnf, [file("charms/gate/.hidden")]),
    ("charm-link", "charms/gate/x", "", vnf, [file("charms/gate/x", link="/etc/passwd")]),
    ("charm-link", "charms/gate/lib/x", "", vnf, [file("charms/gate/lib/x", link="../../y")]),
    ("charm-date", "charms/gate/x", "", vnf, [file("charms/gate/x", mtime=0)]),
    ("archive-link", "gate_link", "", vnf, [file("gate_link", link="../../x")]),
    ("archive-link", "charms/other", "", vnf, [file("charms/other", link="/etc")]),
    ("archive-link", "gate_link", "", ns, [file("gate_link", link="../../x")]),
    (
        "ee-id",
        "execution-environment-list[1]/id",
        "",
        vnf,
        [add(EE, {"id": "ee", "juju": {"charm": "gate"}})],
    ),
    ("ee-kind", "execution-environment-list[1]", "", vnf, [add(EE, {"id": "two"})]),
    (
        "ee-connection-point",
        "external-connection-point-ref",
        "",
        vnf,
        [put(f"{EE}/0/external-connection-point-ref", "x")],
    ),
    (
        "ee-reference",
        "primitive[0]/execution-environment-ref",
        "",
        vnf,
        [initial(0, "execution-environment-ref", "x")],
    ),
    (
        "ee-reference",
        "initial-config-primitive[1]",
        "",
        vnf,
        [drop(f"{INITIAL}/1/execution-environment-ref")],
    ),
    (
        "ssh-user",
        "config-access/ssh-access",
        "",
        vnf,
        [drop(f"{DAY12}/config-access/ssh-access/default-user")],
    ),
]

PRIMITIVES = [
    (
        "seq-twice",
        "initial-config-primitive[1]/seq",
        "list index out of range",
        vnf,
        [initial(1, "seq", 1)],
    ),
    (
        "parameter-twice",
        "initial-config-primitive[0]/parameter[2]/name",
        "list index out of range",
        vnf,
        [add(f"{INITIAL}/0/parameter", {"name": "ssh-hostname", "value": "<rw_mgmt_ip>"})],
    ),
    (
        "primitive-twice",
        "config-primitive[2]/name",
        "list index out of range",
        vnf,
        [add(f"{DAY12}/config-primitive", {"name": "status", "execution-environment-ref": "ee"})],
    ),
    (
        "user-script",
        "primitive[1]/user-defined-script",
        "",
        vnf,
        [initial(1, "user-defined-script", "x")],
    ),
    (
        "user-script",
        "config-primitive[0]/user-defined-script",
        "",
        vnf,
        [put(f"{DAY12}/config-primitive/0/user-defined-script", "x")],
    ),
    (
        "parameter-value",
        "primitive[1]/parameter[0]",
        "",
        vnf,
        [drop(f"{INITIAL}/1/parameter/0/value")],
    ),
    (
        "boolean-text",
        "parameter[2]/value",
        "",
        vnf,
        [add(f"{INITIAL}/1/parameter", {"name": "quick", "data-type": "BOOLEAN", "value": "no"})],
    ),
    ("boolean-text", "parameter[1]/value", "", vnf, [initial(0, "parameter/1/value", True)]),
    (
        "boolean-text",
        "parameter[1]/default-value",
        "",
        vnf,
        [day2(**{"name": "quick", "data-type": "BOOLEAN", "default-value": "0"})],
    ),
    (
        "substitution",
        "parameter[1]/value",
        "",
        vnf,
        [initial(0, "parameter/1/value", "user-<name>")],
    ),
    (
        "substitution",
        "parameter[1]/value",
        "",
        vnf,
        [initial(0, "parameter/1/value", "<member_vnf_index>")],
    ),
    (
        "substitution",
        "parameter[1]/value",
        "",
        vnf,
        [initial(0, "parameter/1/value", "<ns_config_info>")],
    ),
    ("substitution", "parameter[1]/value", "", vnf, [initial(0, "parameter/1/value", "<a-b>")]),
    (
        "substitution",
        "terminate-config-primitive[0]/parameter[0]/value",
        "",
        vnf,
        [
            put(
                f"{DAY12}/terminate-config-primitive/0",
                {
                    "seq": 1,
                    "name": "configure",
                    "execution-environment-ref": "ee",
                    "parameter": [{"name": "link", "value": "<link>"}],
                },
            )
        ],
    ),
    (
        "substitution",
        "primitive[0]/parameter[0]/value",
        "",
        ns_with_charm,
        [put("ns-configuration/initial-config-primitive/0/parameter/0/value", "<rw_mgmt_ip>")],
    ),
    (
        "rw-mgmt-ip",
        "primitive[1]/parameter[0]/value",
        "",
        vnf,
        [initial(1, "parameter/0", {"name": "link", "value": "<rw_mgmt_ip>"})],
    ),
    ("config-string", "primitive[0]/parameter[1]", "", vnf, [initial(0, "parameter/1/value", 22)]),
    (
        "config-string",
        "primitive[0]/parameter[1]",
        "",
        vnf,
        [initial(0, "parameter/1/data-type", "INTEGER"), initial(0, "parameter/1/value", "22")],
    ),
    (
        "config-option",
        "primitive[0]/parameter[1]/name",
        "",
        vnf,
        [initial(0, "parameter/1/name", "x")],
    ),
    ("action-missing", "primitive[1]/name", "", vnf, [initial(1, "name", "x")]),
    (
        "action-missing",
        "config-primitive[1]/name",
        "",
        vnf,
        [put(f"{DAY12}/config-primitive/1/execution-environment-primitive", "x")],
    ),
    (
        "action-missing",
        "terminate-config-primitive[0]/name",
        "",
        vnf,
        [put(f"{DAY12}/terminate-config-primitive/0/name", "x")],
    ),
    (
        "action-parameter",
        "primitive[1]/parameter[1]/name",
        "",
        vnf,
        [initial(1, "parameter/1/name", "x")],
    ),
    ("action-required", "initial-config-primitive[1]", "", vnf, [drop(f"{INITIAL}/1/parameter/0")]),
    ("action-type", "parameter[1]/data-type", "", vnf, [parameter("1", **{"data-type": "STRING"})]),
    (
        "action-type",
        "parameter[1]/data-type",
        "",
        vnf,
        [day2(**{"name": "quick", "data-type": "INTEGER", "default-value": "1"})],
    ),
    (
        "action-value",
        "parameter[1]/value",
        "",
        vnf,
        [parameter("70000", **{"data-type": "INTEGER"})],
    ),
    (
        "action-value",
        "parameter[1]/value",
        "",
        vnf,
        [parameter("many", **{"data-type": "INTEGER"})],
    ),
    ("action-value", "parameter[0]/value", "", vnf, [initial(1, "parameter/0/value", "middle")]),
    (
        "action-value",
        "parameter[1]/default-value",
        "",
        vnf,
        [day2(**{"name": "port", "data-type": "INTEGER", "default-value": "0"})],
    ),
    (
        "default-empty",
        "config-primitive[1]/parameter[1]",
        "",
        vnf,
        [day2(**{"name": "port", "data-type": "INTEGER"})],
    ),
    (
        "default-empty",
        "config-primitive[1]/parameter[1]",
        "",
        vnf,
        [day2(**{"name": "port", "data-type": "INTEGER", "default-value": ""})],
    ),
]

DAY0 = [
    (
        "cloud-init-missing",
        "vdu[0]/cloud-init-file",
        "Cloud-init defined in vnf[id=gate_vnf]:vdu[id=vm] but not present in package",
        vnf,
        [put("vdu/0/cloud-init-file", "x")],
    ),
    (
        "cloud-init-place",
        "vdu[0]/cloud-init-file",
        "",
        vnf,
        [rename("cloud_init/", "Scripts/cloud_init/")],
    ),
    ("cloud-init-size", "cloud_init/init.yaml", "", vnf, [init(CLOUD_INIT + "#" * (1 << 20))]),
    ("cloud-init-header", "cloud_init/init.yaml", "", vnf, [init("\n" + CLOUD_INIT)]),
    ("cloud-init-text", "cloud_init/init.yaml", "", vnf, [init("#!/bin/sh\r\ntrue\r\n")]),
    ("key-twice", "cloud_init/init.yaml", "", vnf, [init(CLOUD_INIT + "runcmd: []\nruncmd: []\n")]),
    (
        "cloud-init-login",
        "cloud_init/init.yaml",
        "",
        vnf,
        [init(CLOUD_INIT + "users: [{name: admin}]\n")],
    ),
    ("cloud-init-jinja", "cloud_init/init.yaml:3", "", vnf, [init("#!/bin/sh\na=1\necho ${#a}\n")]),
    ("cloud-init-jinja", "cloud_init/init.yaml:2", "", vnf, [init("#!/bin/sh\nprintf '{% d'\n")]),
    (
        "cloud-init-comment",
        "cloud_init/init.yaml:2",
        "",
        vnf,
        [init("#!/bin/sh\necho ${#a} # b #}\n")],
    ),
    (
        "cloud-init-osm",
        "cloud_init/init.yaml:2",
        "",
        vnf,
        [init("#cloud-config\nhostname: {{ OSM.name }}\n")],
    ),
    (
        "cloud-init-osm",
        "cloud_init/init.yaml:2",
        "",
        vnf,
        [init("#cloud-config\nhostname: {{ OSM['name'] }}\n")],
    ),
    (
        "cloud-init-escape",
        "cloud_init/init.yaml:2",
        "",
        vnf,
        [init("#cloud-config\nhostname: {{ name }}\n")],
    ),
    (
        "cloud-init-escape",
        "cloud_init/init.yaml:2",
        "",
        vnf,
        [init("#cloud-config\nhostname: {{ name | trim }}\n")],
    ),
    ("cloud-init-yaml", "cloud_init/init.yaml", "", vnf, [init("#cloud-config\na: [\n")]),
    (
        "cloud-init-yaml",
        "cloud_init/init.yaml",
        "",
        vnf,
        [init("#cloud-config\n- {{ name | safe }}\n")],
    ),
    (
        "cloud-init-password",
        "cloud_init/init.yaml",
        "",
        vnf,
        [init("#cloud-config\npassword: secret\n")],
    ),
    (
        "cloud-init-password",
        "cloud_init/init.yaml",
        "",
        vnf,
        [init("#cloud-config\nchpasswd: {list: 'a:b'}\n")],
    ),
    (
        "cloud-init-password",
        "cloud_init/init.yaml",
        "",
        vnf,
        [init("#cloud-config\nusers: [default, {name: a, plain_text_passwd: b}]\n")],
    ),
    (
        "cloud-init-password",
        "vdu[0]/cloud-init",
        "",
        vnf,
        [put("vdu/0/cloud-init", "#cloud-config\npassword: secret\n")],
    ),
    (
        "boot-data-drive",
        "boot-data-drive",
        "",
        vnf,
        [put("vdu/0/supplemental-boot-data", {"boot-data-drive": True})],
    ),
]

NSD = [
    (
        "duplicate-id",
        "vnf-profile[1]/id",
        "Error: identifier id '1' is not unique and repeats at '.df[0].vnf-profile[1]'",
        ns,
        [
            put("df/0/vnf-profile/1/id", "1"),
            *member(1, "1"),
            drop("ns-configuration"),
        ],
    ),
    (
        "vnfd-unknown",
        "vnfd-id[1]",
        "'vnfd-id'='x' references a non existing vnfd",
        ns,
        [add("vnfd-id", "x")],
    ),
    (
        "vnfd-reference",
        "vnf-profile[0]/vnfd-id",
        "df[id='default']:vnf_profile[id='1']:vnfd-id='x' does not match any vnfd-id",
        ns,
        [put("df/0/vnf-profile/0/vnfd-id", "x")],
    ),
    (
        "cpd-unknown",
        "constituent-cpd-id",
        "[virtual-link-profile-id='data']:constituent-cpd-id='x' references a non existing "
        "ext-cpd:id inside vnfd 'gate_vnf'",
        ns,
        [put(f"{CONN}/constituent-cpd-id/0/constituent-cpd-id", "x")],
    ),
    (
        "cpd-member",
        "constituent-base-element-id",
        "",
        ns,
        [put(f"{CONN}/constituent-cpd-id/0/constituent-base-element-id", "2")],
    ),
    ("ns-link", "virtual-link-profile-id", "", ns, [put(f"{CONN}/virtual-link-profile-id", "x")]),
    (
        "mgmt-protocol-data",
        "virtual-link-profile[1]/virtual-link-protocol-data",
        "You cannot set a virtual-link-protocol-data when mgmt-network is True",
        ns,
        [
            put(
                "df/0/virtual-link-profile/1/virtual-link-protocol-data",
                {"l3-protocol-data": {"cidr": "10.0.0.0/24"}},
            )
        ],
    ),
    (
        "app-name",
        "vnf-profile[1]/id",
        "",
        ns,
        [
            put("df/0/vnf-profile/0/id", "gate-number-1"),
            *member(0, "gate-number-1"),
            put("df/0/vnf-profile/1/id", "gate-number-2"),
            *member(1, "gate-number-2"),
            drop("ns-configuration"),
        ],
    ),
    (
        "ns-config-info",
        "charms/gate/config.yaml",
        "",
        ns_with_charm,
        [
            charm("config.yaml", "ns_config_info", "other"),
            drop("ns-configuration/initial-config-primitive"),
        ],
    ),
    (
        "ns-terminate",
        "terminate-config-primitive",
        "",
        ns_with_charm,
        [put("ns-configuration/terminate-config-primitive", [{"seq": 1, "name": "status"}])],
    ),
    (
        "ns-action",
        "ns-configuration/config-primitive",
        "",
        ns_with_charm,
        [put("ns-configuration/config-primitive", [{"name": "status"}])],
    ),
]

RELATIONS = [
    (
        "relation-place",
        "day1-2[1]/relation[0]",
        "",
        vnf,
        [add(ENTRY, {"id": "vm", "relation": [{"name": "x"}]}), drop(ASPECT)],
    ),
    (
        "relation-form",
        f"{AT}/relation[0]",
        "",
        vnf,
        [put(f"{DAY12}/relation", [{"name": "x", "provider": {"endpoint": "left"}}])],
    ),
    (
        "relation-form",
        "relation[0]",
        "",
        ns,
        [put(f"{RELATION}/entities", [{"id": "1", "endpoint": "left"}])],
    ),
    ("relation-form", "relation[0]", "", ns, [put(RELATION, {"name": "x"})]),
    (
        "relation-member",
        "relation[0]/provider",
        "",
        ns,
        [put(f"{RELATION}/provider/vnf-profile-id", "3")],
    ),
    (
        "relation-member",
        "relation[0]/provider",
        "",
        ns,
        [drop(f"{RELATION}/provider/vnf-profile-id")],
    ),
    (
        "relation-member",
        "relation[0]/entities[1]",
        "",
        ns,
        [
            put(
                RELATION,
                {
                    "name": "x",
                    "entities": [{"id": "1", "endpoint": "left"}, {"id": "3", "endpoint": "right"}],
                },
            )
        ],
    ),
    (
        "relation-member",
        f"{AT}/relation[0]/provider",
        "",
        vnf,
        [
            put(
                f"{DAY12}/relation",
                [
                    {
                        "name": "x",
                        "provider": {"vdu-profile-id": "y", "endpoint": "left"},
                        "requirer": {"endpoint": "right"},
                    }
                ],
            )
        ],
    ),
    (
        "relation-ee",
        "relation[0]/provider",
        "",
        ns,
        [put(f"{RELATION}/provider/execution-environment-ref", "x")],
    ),
    (
        "relation-ee",
        "relation[0]/provider",
        "",
        ns,
        [put(f"{RELATION}/provider/vdu-profile-id", "vm")],
    ),
    ("relation-endpoint", "provider/endpoint", "", ns, [put(f"{RELATION}/provider/endpoint", "x")]),
    ("relation-endpoint", "relation[0]/provider", "", ns, [drop(f"{RELATION}/provider/endpoint")]),
    (
        "relation-endpoint",
        "entities[1]/endpoint",
        "",
        ns,
        [
            put(
                RELATION,
                {
                    "name": "x",
                    "entities": [{"id": "1", "endpoint": "left"}, {"id": "2", "endpoint": "x"}],
                },
            )
        ],
    ),
    (
        "relation-endpoint",
        "relation[1]/requirer/endpoint",
        "",
        ns_with_charm,
        [put("ns-configuration/relation/1/requirer/endpoint", "x")],
    ),
    ("relation-role", "requirer/endpoint", "", ns, [put(f"{RELATION}/requirer/endpoint", "left")]),
    ("relation-self", "relation[0]", "", ns, [put(f"{RELATION}/requirer/vnf-profile-id", "1")]),
    ("relation-interface", "relation[0]", "", ns, [put(f"{RELATION}/requirer/endpoint", "far")]),
]

NST = [
    (
        "nsd-unknown",
        "netslice-subnet[0]/nsd-ref",
        "'nsd-ref'='x' references a non existing nsd",
        nst,
        [put("netslice-subnet/0/nsd-ref", "x")],
    ),
    ("subnet-description", "netslice-subnet[0]", "", nst, [drop("netslice-subnet/0/description")]),
    (
        "nss-reference",
        "nss-connection-point-ref[0]/nss-ref",
        "",
        nst,
        [put("netslice-vld/0/nss-connection-point-ref/0/nss-ref", "x")],
    ),
    (
        "nss-sap",
        "nsd-connection-point-ref",
        "",
        nst,
        [put("netslice-vld/0/nss-connection-point-ref/0/nsd-connection-point-ref", "x")],
    ),
    (
        "subnet-shared",
        "netslice-subnet[0]",
        "",
        nst,
        [
            put("netslice-subnet/0/is-shared-nss", True),
            put("netslice-vld/0/nss-connection-point-ref", []),
        ],
    ),
    ("nss-link-name", "netslice-vld[0]/name", "", nst, [put("netslice-vld/0/name", "x")]),
    ("nss-link-name", "netslice-vld[0]/name", "", nst, [drop("netslice-vld/0/name")]),
    ("wrong-value", "netslice-vld[0]/type", "", nst, [put("netslice-vld/0/type", "ELAAAN")]),
    ("nst-no-link", "nst[0]", "", nst, [drop("netslice-vld")]),
    (
        "duplicate-id",
        "netslice-subnet[1]/id",
        "identifier id 'core'",
        nst,
        [
            put("netslice-subnet/1/id", "core"),
            put("netslice-vld/0/nss-connection-point-ref", []),
        ],
    ),
]

CREATION = [
    (
        "vdu-no-level",
        "vnfd/df[0]",
        "",
        vnf,
        [drop("df/0/instantiation-level"), drop(ASPECT), drop("df/0/healing-aspect")],
    ),
    (
        "helm-chart",
        "kdu[0]/helm-chart",
        "",
        vnf,
        [put("kdu", [{"name": "k", "helm-chart": "Repo/Bad_Name"}])],
    ),
    (
        "helm-folder",
        "helm-chart",
        "",
        vnf,
        [add(EE, {"id": "he", "helm-chart": "Bad Name"})],
    ),
    (
        "duplicate-id",
        "vdu-level[1]/vdu-id",
        "list index out of range",
        vnf,
        [
            add(
                "df/0/instantiation-level/0/vdu-level",
                {"vdu-id": "vm", "number-of-instances": 3},
            )
        ],
    ),
    (
        "action-missing",
        "config-access/ssh-access",
        "",
        vnf,
        [charm("actions.yaml", "get-ssh-public-key: {}", "")],
    ),
    (
        "charm-link",
        "charms/gate/second",
        "",
        vnf,
        [
            file("charms/gate/src/deep/first", link="../.."),
            file("charms/gate/second", link="src/deep/first/.."),
        ],
    ),
    (
        "archive-link",
        "second",
        "",
        vnf,
        [file("doc/deep/first", link="../.."), file("second", link="doc/deep/first/..")],
    ),
    (
        "helm-missing",
        "helm-chart",
        "",
        vnf,
        [add(EE, {"id": "he", "helm-chart": "gat"}), file("helm-charts/gate/Chart.yaml")],
    ),
    ("mgmt-none", "virtual-link-desc", "", ns, [put("virtual-link-desc/0/mgmt-network", False)]),
    (
        "link-profile-desc",
        "virtual-link-profile[0]",
        "",
        ns,
        [put("df/0/virtual-link-profile", [{"id": "data"}])],
    ),
    (
        "link-profile-desc",
        "virtual-link-desc-id",
        "",
        ns,
        [put("df/0/virtual-link-profile", [{"id": "a", "virtual-link-desc-id": "x"}])],
    ),
    (
        "link-dhcp",
        "constituent-cpd-id[0]/ip-address",
        "",
        ns,
        [
            put(
                "df/0/virtual-link-profile",
                [
                    {
                        "id": "data",
                        "virtual-link-desc-id": "data",
                        "virtual-link-protocol-data": {
                            "l3-protocol-data": {"cidr": "10.0.0.0/24", "dhcp-enabled": True}
                        },
                    }
                ],
            ),
            put(
                "df/0/vnf-profile/0/virtual-link-connectivity/1/constituent-cpd-id/0/ip-address",
                "10.0.0.1",
            ),
        ],
    ),
    (
        "link-cidr",
        "l3-protocol-data/cidr",
        "",
        ns,
        [
            put(
                "df/0/virtual-link-profile",
                [
                    {
                        "id": "data",
                        "virtual-link-desc-id": "data",
                        "virtual-link-protocol-data": {"l3-protocol-data": {"cidr": "not a cidr"}},
                    }
                ],
            )
        ],
    ),
    ("vdu-no-name", "vnfd/vdu[0]", "", vnf, [drop("vdu/0/name")]),
    (
        "vdu-no-disk",
        "vdu[0]/virtual-storage-desc",
        "",
        vnf,
        [put("vdu/0/virtual-storage-desc", [])],
    ),
    (
        "vdu-alternative-image",
        "alternative-sw-image-desc[1]",
        "",
        vnf,
        [put("vdu/0/alternative-sw-image-desc", ["ubuntu", "x"])],
    ),
    (
        "healing-parameter",
        "healing-policy[0]/day1",
        "",
        vnf,
        [put("df/0/healing-aspect/0/healing-policy/0/day1", True)],
    ),
    ("ns-no-name", "nsd/nsd[0]", "", ns, [drop("name")]),
    ("member-number", "vnf-profile[0]/id", "", ns, [put("df/0/vnf-profile/0/id", 1)]),
    (
        "ns-link-profile",
        "virtual-link-connectivity[1]/virtual-link-profile-id",
        "",
        ns,
        [
            put("df/0/virtual-link-profile/0/id", "data-profile"),
            put(f"{CONN}/virtual-link-profile-id", "data-profile"),
        ],
    ),
    (
        "mgmt-link",
        "vnf-profile[0]",
        "",
        ns,
        [drop("df/0/vnf-profile/0/virtual-link-connectivity/0")],
    ),
    ("sap-link", "sapd[0]/virtual-link-desc", "", ns, [put("sapd/0/virtual-link-desc", "x")]),
    (
        "relation-twice",
        "relation[1]/name",
        "",
        ns,
        [
            add(
                "ns-configuration/relation",
                {
                    "name": "vpn",
                    "provider": {"vnf-profile-id": "2", "endpoint": "left"},
                    "requirer": {"vnf-profile-id": "1", "endpoint": "right"},
                },
            )
        ],
    ),
]

CASES = [*SCHEMA, *VNFD, *CHARMS, *PRIMITIVES, *DAY0, *NSD, *RELATIONS, *NST, *CREATION]
