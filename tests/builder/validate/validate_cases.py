"""One small change to a good package for every rule, and the one problem it must give."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import methodcaller

from validate_support import CLOUD_INIT, ENTRY, Draft, File, ns, ns_with_charm, nst, vnf

DAY12 = f"{ENTRY}/0"
INITIAL = f"{DAY12}/initial-config-primitive"
EE = f"{DAY12}/execution-environment-list"
DF = "df[0]"
AT = "vnfd/df[0]/lcm-operations-configuration/operate-vnf-op-config/day1-2[0]"
CONN = "df/0/vnf-profile/0/virtual-link-connectivity/1"
RELATION = "ns-configuration/relation/0"
ASPECT = "df/0/scaling-aspect/0"
NSS = "netslice-subnet/0/instantiation-parameters"
POINT = {"constituent-base-element-id": "1", "constituent-cpd-id": "data-ext"}


@dataclass(frozen=True)
class Case:
    """Edits of a good package, and the code of the one problem that they make."""

    code: str
    edits: tuple[Callable[[Draft], None], ...]
    at: str
    """The end of the problem's path."""
    osm: str
    """A part of OSM's own message."""
    draft: Callable[[], Draft]

    def package(self) -> Draft:
        """Return the edited package."""
        package = self.draft()
        for edit in self.edits:
            edit(package)
        return package


def case(code, *edits, at, osm="", draft=vnf):
    """Return a case; without another draft it is one of a VNF package."""
    return Case(code, edits, at, osm, draft)


ns_case, nst_case = partial(case, draft=ns), partial(case, draft=nst)


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
    case("envelope", envelope({"vnf": {}}), at="gate.yaml"),
    case("envelope", envelope(["vnfd"]), at="gate.yaml"),
    case("envelope", envelope({1: 2}), at="gate.yaml"),
    case("envelope", envelope({"vnfd": []}), at="gate.yaml", osm="'vnfd' must be dict"),
    ns_case(
        "envelope", envelope({"nsd": {"nsd": []}}), at="gate.yaml", osm="list of only one element"
    ),
    ns_case("envelope", envelope({"nsd": [{}]}), at="gate.yaml", osm="list of only one element"),
    nst_case("envelope", envelope({"nst": [{}, {}]}), at="gate.yaml", osm="list only one element"),
    case(
        "old-format", envelope({"vnfd:vnfd-catalog": {}}), at="gate.yaml", osm="use an ETSI SOL006"
    ),
    case("old-format", envelope({"vnfd": {"id": "a", "connection-point": []}}), at="gate.yaml"),
    ns_case("old-format", envelope({"id": "a", "constituent-vnfd": [], "vld": []}), at="gate.yaml"),
    ns_case("old-format", envelope({"nsd": {"nsd": [{"constituent-vnfd": []}]}}), at="gate.yaml"),
    case(
        "old-format",
        envelope({"tosca_definitions_version": "tosca_simple_yaml_1_2"}),
        at="gate.yaml",
    ),
    ns_case("old-format", envelope({"topology_template": {}}), at="gate.yaml"),
    case("envelope-beside", beside, at="gate.yaml"),
    case("unknown-key", put("mgmtcp", "x"), at="vnfd/mgmtcp", osm="did not exist (mgmtcp)"),
    case("unknown-key", put("vdu/0/cloud-init-fil", "x"), at="vnfd/vdu[0]/cloud-init-fil"),
    ns_case("unknown-key", put("vnfd", []), at="nsd[0]/vnfd", osm="pyangbind"),
    ns_case("unknown-key", put(f"{RELATION}/provider/end", "x"), at="relation[0]/provider/end"),
    nst_case("unknown-key", put("SNSSAI-identifier/sd", "1"), at="nst[0]/SNSSAI-identifier/sd"),
    case("unknown-key", put(f"{DAY12}/parameter-group", []), at=f"{AT}/parameter-group"),
    case("missing-key", drop("id"), at="vnfd/id", osm="pyangbind"),
    case("missing-key", drop(f"{INITIAL}/0/seq"), at=f"{AT}/initial-config-primitive[0]/seq"),
    case("wrong-value", put("vdu", {}), at="vnfd/vdu"),
    case("wrong-value", put("df", []), at="vnfd/df"),
    case(
        "wrong-value",
        put("virtual-compute-desc/0/virtual-cpu/num-virtual-cpu", "two"),
        at="num-virtual-cpu",
    ),
    case(
        "wrong-value",
        put("virtual-compute-desc/0/virtual-cpu/num-virtual-cpu", True),
        at="num-virtual-cpu",
    ),
    case(
        "wrong-value",
        put("virtual-compute-desc/0/virtual-memory/size", float("nan")),
        at="virtual-memory/size",
    ),
    case(
        "wrong-value",
        put(
            "vdu/0/int-cpd/0/virtual-network-interface-requirement/0/virtual-interface",
            {"type": "VHOST"},
        ),
        at="virtual-interface/type",
    ),
    case("wrong-value", parameter("1", **{"data-type": "INT"}), at="parameter[1]/data-type"),
    case("wrong-value", parameter({"a": 1}), at="parameter[1]/value"),
    case("wrong-value", put(f"{ASPECT}/scaling-config-action/0/trigger", "now"), at="trigger"),
    ns_case("wrong-value", put(f"{CONN}/constituent-cpd-id/0/ip-address", "1.2"), at="ip-address"),
    ns_case("wrong-value", put("virtual-link-desc/0/mgmt-network", "yes"), at="mgmt-network"),
    nst_case(
        "wrong-value",
        put("SNSSAI-identifier", {"slice-service-type": "x"}),
        at="slice-service-type",
    ),
    nst_case("wrong-value", put("quality-of-service", {"id": -1}), at="quality-of-service/id"),
]

VNFD = [
    case(
        "duplicate-id",
        add("virtual-storage-desc", {"id": "disk", "size-of-storage": 1}),
        at="vnfd/virtual-storage-desc[1]/id",
        osm="Error: identifier id 'disk' is not unique and repeats at '.virtual-storage-desc[1]'",
    ),
    case(
        "duplicate-id",
        add(
            "vdu/0/int-cpd/0/virtual-network-interface-requirement",
            {"name": "ens3", "position": 9},
        ),
        at="requirement[1]/name",
        osm="identifier name 'ens3' is not unique and repeats at "
        "'.vdu[0].int-cpd[0].virtual-network-interface-requirement[1]'",
    ),
    case("mgmt-cp", drop("mgmt-cp"), at="vnfd", osm="'mgmt-cp' is a mandatory field and it is not"),
    case("mgmt-cp", put("mgmt-cp", "x"), at="mgmt-cp", osm="mgmt-cp='x' must match an existing"),
    case(
        "ext-cpd",
        put("ext-cpd/1/int-cpd/cpd", "x"),
        at="ext-cpd[1]/int-cpd",
        osm="ext-cpd[id='data-ext']:int-cpd must match an existing vdu int-cpd",
    ),
    case("ext-cpd", put("ext-cpd/1/int-cpd/vdu-id", "x"), at="ext-cpd[1]/int-cpd"),
    case(
        "virtual-link",
        put("vdu/0/int-cpd/2/int-virtual-link-desc", "x"),
        at="int-cpd[2]/int-virtual-link-desc",
        osm="vdu[id='vm']:int-cpd[id='inner-int']:int-virtual-link-desc='x' must match an existing",
    ),
    case(
        "virtual-link",
        put("df/0/virtual-link-profile/0/id", "x"),
        at="df[0]/virtual-link-profile[0]/id",
        osm="df[id='default']:virtual-link-profile='x' must match an existing int-virtual-link",
    ),
    case(
        "vdu-reference",
        put("vdu/0/virtual-compute-desc", "x"),
        at="vdu[0]/virtual-compute-desc",
        osm="vdu[virtual-compute-desc='x']not defined in vnfd",
    ),
    case(
        "vdu-reference",
        add("vdu/0/virtual-storage-desc", "x"),
        at="vdu[0]/virtual-storage-desc[1]",
        osm="vdu[virtual-storage-desc='x']not defined in vnfd",
    ),
    case("vdu-storage", drop("vdu/0/virtual-storage-desc"), at="vdu[0]"),
    case("vdu-compute", drop("vdu/0/virtual-compute-desc"), at="vdu[0]"),
    case("vdu-image", put("vdu/0/sw-image-desc", "x"), at="vdu[0]/sw-image-desc"),
    case("vdu-image", drop("vdu/0/sw-image-desc"), at="vdu[0]"),
    case("vdu-name", put("vdu/0/name", "machine"), at="vdu[0]/name"),
    case(
        "storage-type",
        put("virtual-storage-desc/0/type-of-storage", "SSD"),
        at="virtual-storage-desc[0]/type-of-storage",
    ),
    case(
        "storage-type",
        put("virtual-storage-desc/0/type-of-storage", "ephemeral-storage"),
        at="virtual-storage-desc[0]/type-of-storage",
    ),
    case("storage-size", drop("virtual-storage-desc/0/size-of-storage"), at="storage-desc[0]"),
    case(
        "compute-size",
        put("virtual-compute-desc/0/virtual-memory/size", 0),
        at="desc[0]/virtual-memory/size",
    ),
    case("image-name", drop("sw-image-desc/0/image"), at="sw-image-desc[0]"),
    case(
        "nic-position",
        drop("vdu/0/int-cpd/1/virtual-network-interface-requirement/0/position"),
        at="vdu[0]/int-cpd",
    ),
    case(
        "nic-position",
        put("vdu/0/int-cpd/1/virtual-network-interface-requirement/0/position", 1),
        at="vdu[0]/int-cpd",
    ),
    case(
        "nic-order",
        put("vdu/0/int-cpd/0/virtual-network-interface-requirement/0/position", 2),
        put("vdu/0/int-cpd/1/virtual-network-interface-requirement/0/position", 1),
        at="vdu[0]/int-cpd",
    ),
    case("df-count", add("df", {"id": "other"}), at="vnfd/df"),
    ns_case("df-count", add("df", {"id": "other"}), at="nsd[0]/df"),
    case("vdu-profile", add("df/0/vdu-profile", {"id": "x"}), at="vdu-profile[1]/id"),
    case(
        "vdu-level",
        add("df/0/instantiation-level/0/vdu-level", {"vdu-id": "x"}),
        at="vdu-level[1]/vdu-id",
    ),
    case(
        "day1-2",
        put("df/0/lcm-operations-configuration/operate-vnf-op-config", {}),
        drop(ASPECT),
        at="operate-vnf-op-config",
    ),
    case("day1-2-id", add(ENTRY, {"id": "x"}), drop(ASPECT), at="day1-2[1]/id"),
    case(
        "day1-2-twice",
        add(ENTRY, {"id": "gate_vnf"}),
        drop(ASPECT),
        at="day1-2[1]/id",
        osm="list index out of range",
    ),
    case(
        "monitoring-id",
        put("df/0/monitoring-parameter", [{"id": "load"}]),
        at="df[0]/monitoring-parameter[0]/id",
        osm="Duplicated monitoring-parameter id in df[id='default']:monitoring-parameter[id='load'",
    ),
    case(
        "monitoring-reference",
        put("vdu/0/alarm/0/vnf-monitoring-param-ref", "x"),
        at="alarm[0]/vnf-monitoring-param-ref",
        osm="vdu[id='vm']:alarm[id='hot']:vnf-monitoring-param-ref='x' not defined in any",
    ),
    case(
        "monitoring-reference",
        put(f"{ASPECT}/scaling-policy/0/scaling-criteria/0/vnf-monitoring-param-ref", "x"),
        at="scaling-criteria[0]/vnf-monitoring-param-ref",
        osm="scaling-policy[name='auto']:scaling-criteria[name='load']:vnf-monitoring-param-ref='x'",
    ),
    case(
        "healing-vdu",
        put("df/0/healing-aspect/0/healing-policy/0/vdu-id", "x"),
        at="healing-policy[0]/vdu-id",
        osm="healing-policy[name='gone']: vdu-id='x' not defined in vdu",
    ),
    case("scaling-name", put(f"{ASPECT}/name", "x"), at="scaling-aspect[0]"),
    case("scaling-details", drop(f"{ASPECT}/aspect-delta-details"), at="scaling-aspect[0]"),
    case(
        "scaling-delta",
        put(f"{ASPECT}/aspect-delta-details/deltas/0/vdu-delta/0/id", "x"),
        at="vdu-delta[0]/id",
        osm="scaling-aspect[id='more']:aspect-delta-details[delta='one']: vdu-id='x' not defined",
    ),
    case("scaling-day0", drop("vdu/0/cloud-init-file"), at="vdu-delta[0]/id"),
    case(
        "scaling-action",
        put(f"{ASPECT}/scaling-config-action/0/vnf-config-primitive-name-ref", "x"),
        at="vnf-config-primitive-name-ref",
        osm="vnf-config-primitive-name-ref='x' does not match any day1-2 configuration",
    ),
    # Every entry needs the primitive, a VDU's too.
    case("scaling-action", add(ENTRY, {"id": "vm"}), at="vnf-config-primitive-name-ref"),
    case(
        "scaling-action",
        put(ENTRY, []),
        at="scaling-config-action[0]",
        osm="'day1-2 configuration' not defined in the descriptor but it is referenced by",
    ),
]

CHARMS = [
    case(
        "charm-missing",
        remove("charms/"),
        at=f"{AT}/execution-environment-list",
        osm="Charm defined in vnf[id=gate_vnf] but not present in package",
    ),
    case("charm-name", put(f"{EE}/0/juju/charm", "door"), at="juju/charm"),
    case("charm-name", remove("charms/"), at="ns-configuration/juju/charm", draft=ns_with_charm),
    case("charm-place", rename("charms/", "Scripts/charms/"), at="juju/charm"),
    case("charm-file", remove("charms/gate/metadata"), at="charms/gate/metadata.yaml"),
    case("charm-file", charm("metadata.yaml", "name", "nam"), at="charms/gate/metadata.yaml"),
    case("charm-file", charm("metadata.yaml", "summary", "sum"), at="charms/gate/metadata.yaml"),
    case("charm-file", file("charms/gate/actions.yaml", "- a"), at="charms/gate/actions.yaml"),
    case("charm-file", charm("actions.yaml", "integer", "int"), at="charms/gate/actions.yaml"),
    case(
        "charm-file",
        charm("actions.yaml", "type: number", "$ref: http://x"),
        at="charms/gate/actions.yaml",
    ),
    case("charm-file", file("charms/gate/config.yaml", "{"), at="charms/gate/config.yaml"),
    *(
        case("charm-file", file(f"charms/gate/{name}", text), at=f"charms/gate/{name}")
        for name, text in (
            ("metadata.yaml", "{name: Gate, summary: a, description: b, series: [bionic]}"),
            (
                "metadata.yaml",
                "{name: gate, summary: a, description: b, series: [bionic], peers: {juju-x: i}}",
            ),
            ("actions.yaml", "{get-ssh-public-key: {}, touch: {}, juju-run: {}}"),
            ("config.yaml", "options: {ns_config_info: {}, n: {type: int, default: x}}"),
        )
    ),
    case("charm-metadata", charm("metadata.yaml", "gate", "x"), at="charms/gate/metadata.yaml"),
    case("charm-series", charm("metadata.yaml", "bionic, ", ""), at="charms/gate/metadata.yaml"),
    case("charm-dispatch", chmod("charms/gate/dispatch", 0o644), at="charms/gate"),
    case("charm-dispatch", file("charms/gate/dispatch", link="lost"), at="charms/gate"),
    *(
        case("charm-dispatch", file("charms/gate/dispatch", text, mode=0o755), at="gate/dispatch")
        for text in (
            "true\n",
            " #!/bin/sh\n",
            "#!bin/sh\n",
            "#!/bin/sh\u00a0\n",
            "#!/usr/bin/env python3 -u\n",
        )
    ),
    case(
        "charm-dispatch",
        rename("charms/gate/dispatch", "charms/gate/hooks/start"),
        file("charms/gate/hooks/install", "#!/bin/sh\n"),
        at="charms/gate/hooks/install",
    ),
    case(
        "charm-dispatch",
        file("charms/gate/actions/status", link="../src/status"),
        remove("charms/gate/dispatch"),
        file("charms/gate/hooks/start", "#!/bin/sh\n", mode=0o755),
        at="charms/gate/actions/status",
    ),
    case(
        "charm-dispatch",
        file("charms/gate/hooks/install", "", mode=0o755),
        at="charms/gate/hooks/install",
    ),
    *(
        case("charm-line-ends", file(f"charms/gate/{path}", text), at=f"charms/gate/{path}")
        for path, text in (
            ("hooks/install", "#!/bin/sh\r\ntrue\r\n"),
            ("hooks/start", "#!/usr/bin/env python3\r\n"),
            ("actions/touch", "#!/bin/bash\ntrue\r\n"),
            ("hooks/stop", "\ufeff#!/bin/sh\n"),
        )
    ),
    case(
        "charm-line-ends",
        file("charms/gate/src/run", "#!/bin/sh\r\n", mode=0o755),
        at="charms/gate/src/run",
    ),
    case("charm-skipped", file("charms/gate/build/x"), at="charms/gate/build"),
    case("charm-skipped", file("charms/gate/.hidden"), at="charms/gate/.hidden"),
    case("charm-link", file("charms/gate/x", link="/etc/passwd"), at="charms/gate/x"),
    case("charm-link", file("charms/gate/lib/x", link="../../y"), at="charms/gate/lib/x"),
    case("charm-date", file("charms/gate/x", mtime=0), at="charms/gate/x"),
    case("charm-date", file("charms/gate/x", mtime=2**33), at="charms/gate/x"),
    case("archive-link", file("gate_link", link="../../x"), at="gate_link"),
    case("archive-link", file("charms/other", link="/etc"), at="charms/other"),
    ns_case("archive-link", file("gate_link", link="../../x"), at="gate_link"),
    case(
        "ee-id",
        add(EE, {"id": "ee", "juju": {"charm": "gate"}}),
        at="execution-environment-list[1]/id",
    ),
    case("ee-kind", add(EE, {"id": "two"}), at="execution-environment-list[1]"),
    case(
        "ee-connection-point",
        put(f"{EE}/0/external-connection-point-ref", "x"),
        at="external-connection-point-ref",
    ),
    case(
        "ee-reference",
        initial(0, "execution-environment-ref", "x"),
        at="primitive[0]/execution-environment-ref",
    ),
    case(
        "ee-reference",
        drop(f"{INITIAL}/1/execution-environment-ref"),
        at="initial-config-primitive[1]",
    ),
    case(
        "ssh-user",
        drop(f"{DAY12}/config-access/ssh-access/default-user"),
        at="config-access/ssh-access",
    ),
]

PRIMITIVES = [
    case(
        "seq-twice",
        initial(1, "seq", 1),
        at="initial-config-primitive[1]/seq",
        osm="list index out of range",
    ),
    case(
        "parameter-twice",
        add(f"{INITIAL}/0/parameter", {"name": "ssh-hostname", "value": "<rw_mgmt_ip>"}),
        at="initial-config-primitive[0]/parameter[2]/name",
        osm="list index out of range",
    ),
    case(
        "primitive-twice",
        add(f"{DAY12}/config-primitive", {"name": "status", "execution-environment-ref": "ee"}),
        at="config-primitive[2]/name",
        osm="list index out of range",
    ),
    case(
        "user-script", initial(1, "user-defined-script", "x"), at="primitive[1]/user-defined-script"
    ),
    case(
        "user-script",
        put(f"{DAY12}/config-primitive/0/user-defined-script", "x"),
        at="config-primitive[0]/user-defined-script",
    ),
    case("parameter-value", drop(f"{INITIAL}/1/parameter/0/value"), at="primitive[1]/parameter[0]"),
    case(
        "boolean-text",
        add(f"{INITIAL}/1/parameter", {"name": "quick", "data-type": "BOOLEAN", "value": "no"}),
        at="parameter[2]/value",
    ),
    case("boolean-text", initial(0, "parameter/1/value", True), at="parameter[1]/value"),
    case(
        "boolean-text",
        day2(**{"name": "quick", "data-type": "BOOLEAN", "default-value": "0"}),
        at="parameter[1]/default-value",
    ),
    case("substitution", initial(0, "parameter/1/value", "user-<name>"), at="parameter[1]/value"),
    case(
        "substitution",
        initial(0, "parameter/1/value", "<member_vnf_index>"),
        at="parameter[1]/value",
    ),
    case(
        "substitution", initial(0, "parameter/1/value", "<ns_config_info>"), at="parameter[1]/value"
    ),
    case("substitution", initial(0, "parameter/1/value", "<a-b>"), at="parameter[1]/value"),
    case(
        "substitution",
        put(
            f"{DAY12}/terminate-config-primitive/0",
            {
                "seq": 1,
                "name": "configure",
                "execution-environment-ref": "ee",
                "parameter": [{"name": "link", "value": "<link>"}],
            },
        ),
        at="terminate-config-primitive[0]/parameter[0]/value",
    ),
    case(
        "substitution",
        put("ns-configuration/initial-config-primitive/0/parameter/0/value", "<rw_mgmt_ip>"),
        at="primitive[0]/parameter[0]/value",
        draft=ns_with_charm,
    ),
    case(
        "rw-mgmt-ip",
        initial(1, "parameter/0", {"name": "link", "value": "<rw_mgmt_ip>"}),
        at="primitive[1]/parameter[0]/value",
    ),
    case("config-string", initial(0, "parameter/1/value", 22), at="primitive[0]/parameter[1]"),
    case(
        "config-string",
        initial(0, "parameter/1/data-type", "INTEGER"),
        initial(0, "parameter/1/value", "22"),
        at="primitive[0]/parameter[1]",
    ),
    case("config-option", initial(0, "parameter/1/name", "x"), at="primitive[0]/parameter[1]/name"),
    case("action-missing", initial(1, "name", "x"), at="primitive[1]/name"),
    case(
        "action-missing",
        put(f"{DAY12}/config-primitive/1/execution-environment-primitive", "x"),
        at="config-primitive[1]/name",
    ),
    case(
        "action-missing",
        put(f"{DAY12}/terminate-config-primitive/0/name", "x"),
        at="terminate-config-primitive[0]/name",
    ),
    case(
        "action-parameter", initial(1, "parameter/1/name", "x"), at="primitive[1]/parameter[1]/name"
    ),
    case("action-required", drop(f"{INITIAL}/1/parameter/0"), at="initial-config-primitive[1]"),
    case("action-type", parameter("1", **{"data-type": "STRING"}), at="parameter[1]/data-type"),
    case(
        "action-type",
        day2(**{"name": "quick", "data-type": "INTEGER", "default-value": "1"}),
        at="parameter[1]/data-type",
    ),
    case("action-value", parameter("70000", **{"data-type": "INTEGER"}), at="parameter[1]/value"),
    case("action-value", parameter("many", **{"data-type": "INTEGER"}), at="parameter[1]/value"),
    case("action-value", initial(1, "parameter/0/value", "middle"), at="parameter[0]/value"),
    case(
        "action-value",
        day2(**{"name": "port", "data-type": "INTEGER", "default-value": "0"}),
        at="parameter[1]/default-value",
    ),
    case(
        "default-empty",
        day2(**{"name": "port", "data-type": "INTEGER"}),
        at="config-primitive[1]/parameter[1]",
    ),
    case(
        "default-empty",
        day2(**{"name": "port", "data-type": "INTEGER", "default-value": ""}),
        at="config-primitive[1]/parameter[1]",
    ),
]

DAY0 = [
    case(
        "cloud-init-missing",
        put("vdu/0/cloud-init-file", "x"),
        at="vdu[0]/cloud-init-file",
        osm="Cloud-init defined in vnf[id=gate_vnf]:vdu[id=vm] but not present in package",
    ),
    case(
        "cloud-init-place",
        rename("cloud_init/", "Scripts/cloud_init/"),
        at="vdu[0]/cloud-init-file",
    ),
    case("cloud-init-size", init(CLOUD_INIT + "#" * (1 << 20)), at="cloud_init/init.yaml"),
    case("cloud-init-header", init("\n#!/bin/sh\ntrue\n"), at="cloud_init/init.yaml"),
    case("cloud-init-text", init("#!/bin/sh\r\ntrue\r\n"), at="cloud_init/init.yaml"),
    case("key-twice", init(CLOUD_INIT + "runcmd: []\nruncmd: []\n"), at="cloud_init/init.yaml"),
    case(
        "cloud-init-login", init(CLOUD_INIT + "users: [{name: admin}]\n"), at="cloud_init/init.yaml"
    ),
    case("cloud-init-jinja", init("#!/bin/sh\na=1\necho ${#a}\n"), at="cloud_init/init.yaml:3"),
    case("cloud-init-jinja", init("#!/bin/sh\nprintf '{% d'\n"), at="cloud_init/init.yaml:2"),
    case("cloud-init-comment", init("#!/bin/sh\necho ${#a} # b #}\n"), at="cloud_init/init.yaml:2"),
    case(
        "cloud-init-osm",
        init("#cloud-config\nhostname: {{ OSM.name }}\n"),
        at="cloud_init/init.yaml:2",
    ),
    case(
        "cloud-init-osm",
        init("#cloud-config\nhostname: {{ OSM['name'] }}\n"),
        at="cloud_init/init.yaml:2",
    ),
    case(
        "cloud-init-escape",
        init("#cloud-config\nhostname: {{ name }}\n"),
        at="cloud_init/init.yaml:2",
    ),
    case(
        "cloud-init-escape",
        init("#cloud-config\nhostname: {{ name | trim }}\n"),
        at="cloud_init/init.yaml:2",
    ),
    case("cloud-init-yaml", init("#cloud-config\na: [\n"), at="cloud_init/init.yaml"),
    case(
        "cloud-init-yaml", init("#cloud-config\n- {{ name | safe }}\n"), at="cloud_init/init.yaml"
    ),
    case(
        "cloud-init-password",
        init("#cloud-config\npassword: secret\nchpasswd: {expire: false}\n"),
        at="cloud_init/init.yaml",
    ),
    case(
        "cloud-init-password",
        init("#cloud-config\nchpasswd: {list: 'a:b'}\n"),
        at="cloud_init/init.yaml",
    ),
    case(
        "cloud-init-password",
        init("#cloud-config\nusers: [default, {name: a, plain_text_passwd: b}]\n"),
        at="cloud_init/init.yaml",
    ),
    case(
        "cloud-init-password",
        put("vdu/0/cloud-init", "#cloud-config\npassword: secret\nchpasswd: {expire: false}\n"),
        at="vdu[0]/cloud-init",
    ),
    case(
        "boot-data-drive",
        put("vdu/0/supplemental-boot-data", {"boot-data-drive": True}),
        at="boot-data-drive",
    ),
]

NSD = [
    ns_case(
        "duplicate-id",
        put("df/0/vnf-profile/1/id", "1"),
        *member(1, "1"),
        drop("ns-configuration"),
        at="vnf-profile[1]/id",
        osm="Error: identifier id '1' is not unique and repeats at '.df[0].vnf-profile[1]'",
    ),
    ns_case(
        "vnfd-unknown",
        add("vnfd-id", "x"),
        at="vnfd-id[1]",
        osm="'vnfd-id'='x' references a non existing vnfd",
    ),
    ns_case(
        "vnfd-reference",
        put("df/0/vnf-profile/0/vnfd-id", "x"),
        at="vnf-profile[0]/vnfd-id",
        osm="df[id='default']:vnf_profile[id='1']:vnfd-id='x' does not match any vnfd-id",
    ),
    ns_case(
        "cpd-unknown",
        put(f"{CONN}/constituent-cpd-id/0/constituent-cpd-id", "x"),
        at="constituent-cpd-id",
        osm="[virtual-link-profile-id='data']:constituent-cpd-id='x' references a non existing "
        "ext-cpd:id inside vnfd 'gate_vnf'",
    ),
    ns_case(
        "cpd-member",
        put(f"{CONN}/constituent-cpd-id/0/constituent-base-element-id", "2"),
        at="constituent-base-element-id",
    ),
    ns_case("ns-link", put(f"{CONN}/virtual-link-profile-id", "x"), at="virtual-link-profile-id"),
    ns_case(
        "mgmt-protocol-data",
        put(
            "df/0/virtual-link-profile/1/virtual-link-protocol-data",
            {"l3-protocol-data": {"cidr": "10.0.0.0/24"}},
        ),
        at="virtual-link-profile[1]/virtual-link-protocol-data",
        osm="You cannot set a virtual-link-protocol-data when mgmt-network is True",
    ),
    ns_case(
        "app-name",
        put("df/0/vnf-profile/0/id", "gate-number-1"),
        *member(0, "gate-number-1"),
        put("df/0/vnf-profile/1/id", "gate-number-2"),
        *member(1, "gate-number-2"),
        drop("ns-configuration"),
        at="vnf-profile[1]/id",
    ),
    ns_case(
        "app-name",
        put("df/0/vnf-profile/0/id", "gate_one"),
        *member(0, "gate_one"),
        put("df/0/vnf-profile/1/id", "Gate-One"),
        *member(1, "Gate-One"),
        drop("ns-configuration"),
        at="vnf-profile[1]/id",
    ),
    ns_case(
        "app-name",
        put("df/0/vnf-profile/0/id", "server_ü"),
        *member(0, "server_ü"),
        drop("ns-configuration"),
        at="vnf-profile[0]/id",
    ),
    case(
        "ns-config-info",
        charm("config.yaml", "ns_config_info", "other"),
        drop("ns-configuration/initial-config-primitive"),
        at="charms/gate/config.yaml",
        draft=ns_with_charm,
    ),
    case(
        "ns-terminate",
        put("ns-configuration/terminate-config-primitive", [{"seq": 1, "name": "status"}]),
        at="terminate-config-primitive",
        draft=ns_with_charm,
    ),
    case(
        "ns-action",
        put("ns-configuration/config-primitive", [{"name": "status"}]),
        at="ns-configuration/config-primitive",
        draft=ns_with_charm,
    ),
]

RELATIONS = [
    case(
        "relation-place",
        add(ENTRY, {"id": "vm", "relation": [{"name": "x"}]}),
        drop(ASPECT),
        at="day1-2[1]/relation[0]",
    ),
    case(
        "relation-form",
        put(f"{DAY12}/relation", [{"name": "x", "provider": {"endpoint": "left"}}]),
        at=f"{AT}/relation[0]",
    ),
    ns_case(
        "relation-form",
        put(f"{RELATION}/entities", [{"id": "1", "endpoint": "left"}]),
        at="relation[0]",
    ),
    ns_case("relation-form", put(RELATION, {"name": "x"}), at="relation[0]"),
    ns_case(
        "relation-member",
        put(f"{RELATION}/provider/vnf-profile-id", "3"),
        at="relation[0]/provider",
    ),
    ns_case(
        "relation-member", drop(f"{RELATION}/provider/vnf-profile-id"), at="relation[0]/provider"
    ),
    ns_case(
        "relation-member",
        put(
            RELATION,
            {
                "name": "x",
                "entities": [{"id": "1", "endpoint": "left"}, {"id": "3", "endpoint": "right"}],
            },
        ),
        at="relation[0]/entities[1]",
    ),
    case(
        "relation-member",
        put(
            f"{DAY12}/relation",
            [
                {
                    "name": "x",
                    "provider": {"vdu-profile-id": "y", "endpoint": "left"},
                    "requirer": {"endpoint": "right"},
                }
            ],
        ),
        at=f"{AT}/relation[0]/provider",
    ),
    ns_case(
        "relation-ee",
        put(f"{RELATION}/provider/execution-environment-ref", "x"),
        at="relation[0]/provider",
    ),
    ns_case(
        "relation-ee", put(f"{RELATION}/provider/vdu-profile-id", "vm"), at="relation[0]/provider"
    ),
    ns_case("relation-endpoint", put(f"{RELATION}/provider/endpoint", "x"), at="provider/endpoint"),
    ns_case("relation-endpoint", drop(f"{RELATION}/provider/endpoint"), at="relation[0]/provider"),
    ns_case(
        "relation-endpoint",
        put(
            RELATION,
            {
                "name": "x",
                "entities": [{"id": "1", "endpoint": "left"}, {"id": "2", "endpoint": "x"}],
            },
        ),
        at="entities[1]/endpoint",
    ),
    case(
        "relation-endpoint",
        put("ns-configuration/relation/1/requirer/endpoint", "x"),
        at="relation[1]/requirer/endpoint",
        draft=ns_with_charm,
    ),
    ns_case("relation-role", put(f"{RELATION}/requirer/endpoint", "left"), at="requirer/endpoint"),
    ns_case("relation-self", put(f"{RELATION}/requirer/vnf-profile-id", "1"), at="relation[0]"),
    ns_case("relation-interface", put(f"{RELATION}/requirer/endpoint", "far"), at="relation[0]"),
]

NST = [
    nst_case(
        "nsd-unknown",
        put("netslice-subnet/0/nsd-ref", "x"),
        at="netslice-subnet[0]/nsd-ref",
        osm="'nsd-ref'='x' references a non existing nsd",
    ),
    nst_case(
        "nst-parameters",
        put(NSS, {"vld": [{"name": "nothing", "vim-network-name": "x"}]}),
        at="instantiation-parameters: vld[0]/name",
    ),
    nst_case(
        "nst-parameters",
        put(NSS, {"additionalParamsForVnf": [{"member-vnf-index": "9", "config-units": 1}]}),
        at="instantiation-parameters: additionalParamsForVnf[0]/member-vnf-index",
    ),
    nst_case("nst-parameters", put(NSS, {"vimm": "x"}), at="instantiation-parameters: vimm"),
    nst_case("subnet-description", drop("netslice-subnet/0/description"), at="netslice-subnet[0]"),
    nst_case(
        "nss-link-ends", put("netslice-vld/0/nss-connection-point-ref", []), at="netslice-vld[0]"
    ),
    nst_case(
        "nss-reference",
        put("netslice-vld/0/nss-connection-point-ref/0/nss-ref", "x"),
        at="nss-connection-point-ref[0]/nss-ref",
    ),
    nst_case(
        "nss-sap",
        put("netslice-vld/0/nss-connection-point-ref/0/nsd-connection-point-ref", "x"),
        at="nsd-connection-point-ref",
    ),
    nst_case(
        "subnet-shared",
        put("netslice-subnet/0/is-shared-nss", True),
        drop("netslice-vld/0/nss-connection-point-ref/0"),
        at="netslice-subnet[0]",
    ),
    nst_case("nss-link-name", put("netslice-vld/0/name", "x"), at="netslice-vld[0]/name"),
    nst_case("nss-link-name", drop("netslice-vld/0/name"), at="netslice-vld[0]/name"),
    nst_case("wrong-value", put("netslice-vld/0/type", "ELAAAN"), at="netslice-vld[0]/type"),
    nst_case("nst-no-link", drop("netslice-vld"), at="nst[0]"),
    nst_case(
        "duplicate-id",
        put("netslice-subnet/1/id", "core"),
        drop("netslice-vld/0/nss-connection-point-ref/1"),
        at="netslice-subnet[1]/id",
        osm="identifier id 'core'",
    ),
]

CREATION = [
    case(
        "vdu-no-level",
        drop("df/0/instantiation-level"),
        drop(ASPECT),
        drop("df/0/healing-aspect"),
        at="vnfd/df[0]",
    ),
    case(
        "helm-chart",
        put("kdu", [{"name": "k", "helm-chart": "Repo/Bad_Name"}]),
        at="kdu[0]/helm-chart",
    ),
    case("helm-folder", add(EE, {"id": "he", "helm-chart": "Bad Name"}), at="helm-chart"),
    case(
        "duplicate-id",
        add(
            "df/0/instantiation-level/0/vdu-level",
            {"vdu-id": "vm", "number-of-instances": 3},
        ),
        at="vdu-level[1]/vdu-id",
        osm="list index out of range",
    ),
    case(
        "action-missing",
        charm("actions.yaml", "get-ssh-public-key: {}", ""),
        at="config-access/ssh-access",
    ),
    case(
        "charm-link",
        file("charms/gate/src/deep/first", link="../.."),
        file("charms/gate/second", link="src/deep/first/.."),
        at="charms/gate/second",
    ),
    case(
        "archive-link",
        file("doc/deep/first", link="../.."),
        file("second", link="doc/deep/first/.."),
        at="second",
    ),
    case(
        "helm-missing",
        add(EE, {"id": "he", "helm-chart": "gat"}),
        file("helm-charts/gate/Chart.yaml"),
        at="helm-chart",
    ),
    case(
        "helm-missing",
        add(EE, {"id": "he", "helm-chart": "gate"}),
        file("helm-charts/gate/values.yaml"),
        at="helm-chart",
    ),
    ns_case("mgmt-none", put("virtual-link-desc/0/mgmt-network", False), at="virtual-link-desc"),
    ns_case(
        "link-profile-desc",
        put("df/0/virtual-link-profile", [{"id": "data"}]),
        at="virtual-link-profile[0]",
    ),
    ns_case(
        "link-profile-desc",
        put("df/0/virtual-link-profile", [{"id": "a", "virtual-link-desc-id": "x"}]),
        at="virtual-link-desc-id",
    ),
    ns_case(
        "link-dhcp",
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
        at="constituent-cpd-id[0]/ip-address",
    ),
    ns_case(
        "link-cidr",
        put(
            "df/0/virtual-link-profile",
            [
                {
                    "id": "data",
                    "virtual-link-desc-id": "data",
                    "virtual-link-protocol-data": {"l3-protocol-data": {"cidr": "not a cidr"}},
                }
            ],
        ),
        at="l3-protocol-data/cidr",
    ),
    case("vdu-no-name", drop("vdu/0/name"), at="vnfd/vdu[0]"),
    case("vdu-no-disk", put("vdu/0/virtual-storage-desc", []), at="vdu[0]/virtual-storage-desc"),
    case(
        "vdu-alternative-image",
        put("vdu/0/alternative-sw-image-desc", ["ubuntu", "x"]),
        at="alternative-sw-image-desc[1]",
    ),
    case("image-checksum", put("sw-image-desc/0/checksum", {"algorithm": "md5"}), at="checksum"),
    case("wrong-value", put("sw-image-desc/0/checksum", "0123"), at="checksum"),
    case(
        "helm-chart",
        put("kdu", [{"name": "k", "helm-chart": ["repo/chart"]}]),
        at="helm-chart",
    ),
    case("kdu-name", put("kdu", [{"helm-chart": "repo/chart"}]), at="kdu[0]"),
    case(
        "vdu-affinity",
        put("df/0/vdu-profile/0/affinity-or-anti-affinity-group", [{"id": "apart"}]),
        at="affinity-or-anti-affinity-group[0]/id",
    ),
    nst_case(
        "subnet-description",
        put("netslice-subnet/0/description", "the operator's"),
        at="netslice-subnet[0]/description",
    ),
    ns_case("cpd-none", put(f"{CONN}/constituent-cpd-id", []), at="connectivity[1]"),
    ns_case("cpd-none", drop(f"{CONN}/constituent-cpd-id"), at="connectivity[1]"),
    ns_case(
        "cpd-twice",
        add(f"{CONN}/constituent-cpd-id", POINT),
        at="virtual-link-connectivity[1]/constituent-cpd-id[1]/constituent-cpd-id",
    ),
    ns_case(
        "cpd-twice",
        add(f"{CONN[:-1]}0/constituent-cpd-id", POINT),
        at="virtual-link-connectivity[1]/constituent-cpd-id[0]/constituent-cpd-id",
    ),
    ns_case(
        "cpd-dot",
        put("virtual-link-desc/1/id", "data.x"),
        put("sapd/0/virtual-link-desc", "data.x"),
        put("df/0/virtual-link-profile/0/virtual-link-desc-id", "data.x"),
        put(f"{CONN}/virtual-link-profile-id", "data.x"),
        put(f"{CONN.replace('profile/0', 'profile/1')}/virtual-link-profile-id", "data.x"),
        at="constituent-cpd-id[0]/ip-address",
    ),
    case(
        "healing-parameter",
        put("df/0/healing-aspect/0/healing-policy/0/day1", True),
        at="healing-policy[0]/day1",
    ),
    ns_case("ns-no-name", drop("name"), at="nsd/nsd[0]"),
    ns_case("member-number", put("df/0/vnf-profile/0/id", 1), at="vnf-profile[0]/id"),
    ns_case(
        "ns-link-profile",
        put("df/0/virtual-link-profile/0/id", "data-profile"),
        put(f"{CONN}/virtual-link-profile-id", "data-profile"),
        at="virtual-link-connectivity[1]/virtual-link-profile-id",
    ),
    ns_case(
        "mgmt-link", drop("df/0/vnf-profile/0/virtual-link-connectivity/0"), at="vnf-profile[0]"
    ),
    ns_case("sap-link", put("sapd/0/virtual-link-desc", "x"), at="sapd[0]/virtual-link-desc"),
    ns_case(
        "relation-twice",
        add(
            "ns-configuration/relation",
            {
                "name": "vpn",
                "provider": {"vnf-profile-id": "2", "endpoint": "left"},
                "requirer": {"vnf-profile-id": "1", "endpoint": "right"},
            },
        ),
        at="relation[1]/name",
    ),
]

CASES = [*SCHEMA, *VNFD, *CHARMS, *PRIMITIVES, *DAY0, *NSD, *RELATIONS, *NST, *CREATION]
