"""Small good packages, and ways to spoil them."""

import copy
import functools
import io
import tarfile
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from support.validating import validate_package

import builder
from builder.validate import Catalog, Package

TABLE = yaml.safe_load((Path(builder.__file__).parent / "validate/codes.yaml").read_text())
CODES = {code: severity for codes in TABLE.values() for code, (severity, _) in codes.items()}
"""Severity of each code, as the page says."""
METADATA = """\
name: gate
summary: s
description: d
series: [bionic, focal]
provides:
  left: {interface: link}
requires:
  right: {interface: link}
  far: {interface: other}
peers:
  proxypeer: {interface: proxypeer}
"""
ACTIONS = """\
configure:
  params:
    link: {type: string, enum: [left, right]}
    port: {type: integer, minimum: 1, maximum: 65535}
    quick: {type: boolean}
    rate: {type: number}
  required: [link]
status: {}
get-ssh-public-key: {}
"""
CONFIG = """\
options:
  ssh-hostname: {type: string, default: ""}
  ssh-username: {type: string, default: ""}
  ns_config_info: {type: string, default: ""}
"""
CHARM = {
    "metadata.yaml": METADATA,
    "actions.yaml": ACTIONS,
    "config.yaml": CONFIG,
    "dispatch": "#!/bin/sh\n",
    "src/charm.py": "",
}
CLOUD_INIT = "#cloud-config\nhostname: {{ name | safe }}-{{ OSM.member_vnf_index }}\n"
ENTRY = "df/0/lcm-operations-configuration/operate-vnf-op-config/day1-2"

VNFD = yaml.safe_load("""
vnfd:
  id: gate_vnf
  mgmt-cp: mgmt-ext
  ext-cpd:
  - {id: mgmt-ext, int-cpd: {vdu-id: vm, cpd: mgmt-int}}
  - {id: data-ext, int-cpd: {vdu-id: vm, cpd: data-int}}
  int-virtual-link-desc: [{id: inner}]
  vdu:
  - id: vm
    name: vm
    cloud-init-file: init.yaml
    sw-image-desc: ubuntu
    virtual-compute-desc: small
    virtual-storage-desc: [disk]
    monitoring-parameter: [{id: load, name: load}]
    alarm: [{alarm-id: hot, vnf-monitoring-param-ref: load}]
    int-cpd:
    - id: mgmt-int
      virtual-network-interface-requirement: [{name: ens3, position: 1}]
    - id: data-int
      virtual-network-interface-requirement: [{name: ens4, position: 2}]
    - id: inner-int
      int-virtual-link-desc: inner
      virtual-network-interface-requirement: [{name: ens5, position: 3}]
  virtual-compute-desc:
  - {id: small, virtual-cpu: {num-virtual-cpu: 1}, virtual-memory: {size: 1.0}}
  virtual-storage-desc: [{id: disk, size-of-storage: 10}]
  sw-image-desc: [{id: ubuntu, name: ubuntu, image: ubuntu22.04}]
  df:
  - id: default
    virtual-link-profile: [{id: inner}]
    instantiation-level:
    - {id: level, vdu-level: [{vdu-id: vm, number-of-instances: 1}]}
    vdu-profile: [{id: vm, min-number-of-instances: 1}]
    scaling-aspect:
    - id: more
      name: more
      aspect-delta-details:
        deltas: [{id: one, vdu-delta: [{id: vm, number-of-instances: 1}]}]
      scaling-policy:
      - name: auto
        scaling-criteria: [{name: load, vnf-monitoring-param-ref: load}]
      scaling-config-action: [{trigger: post-scale-out, vnf-config-primitive-name-ref: status}]
    healing-aspect:
    - {id: heal, healing-policy: [{vdu-id: vm, event-name: gone, cooldown-time: 60}]}
    lcm-operations-configuration:
      operate-vnf-op-config:
        day1-2:
        - id: gate_vnf
          config-access: {ssh-access: {required: true, default-user: ubuntu}}
          execution-environment-list:
          - {id: ee, external-connection-point-ref: mgmt-ext, juju: {charm: gate}}
          initial-config-primitive:
          - seq: 1
            name: config
            execution-environment-ref: ee
            parameter:
            - {name: ssh-hostname, value: <rw_mgmt_ip>}
            - {name: ssh-username, value: ubuntu}
          - seq: 2
            name: configure
            execution-environment-ref: ee
            parameter:
            - {name: link, data-type: STRING, value: left}
            - {name: port, data-type: INTEGER, value: <port>}
          terminate-config-primitive:
          - seq: 1
            name: status
            execution-environment-ref: ee
          config-primitive:
          - name: status
            execution-environment-ref: ee
          - name: configure
            execution-environment-ref: ee
            parameter:
            - {name: link, data-type: STRING, mandatory: true}
            - {name: port, data-type: INTEGER, default-value: "51820"}
            - {name: quick, data-type: BOOLEAN, default-value: "false"}
""")

NSD = yaml.safe_load("""
nsd:
  nsd:
  - id: gate_ns
    name: gate_ns
    vnfd-id: [gate_vnf]
    virtual-link-desc: [{id: mgmt, mgmt-network: true}, {id: data}]
    sapd: [{id: out, virtual-link-desc: data}]
    df:
    - id: default
      virtual-link-profile:
      - {id: data, virtual-link-desc-id: data}
      - {id: mgmt, virtual-link-desc-id: mgmt}
      vnf-profile:
      - id: "1"
        vnfd-id: gate_vnf
        virtual-link-connectivity:
        - virtual-link-profile-id: mgmt
          constituent-cpd-id:
          - {constituent-base-element-id: "1", constituent-cpd-id: mgmt-ext}
        - virtual-link-profile-id: data
          constituent-cpd-id:
          - {constituent-base-element-id: "1", constituent-cpd-id: data-ext, ip-address: 10.0.0.1}
      - id: "2"
        vnfd-id: gate_vnf
        virtual-link-connectivity:
        - virtual-link-profile-id: mgmt
          constituent-cpd-id:
          - {constituent-base-element-id: "2", constituent-cpd-id: mgmt-ext}
        - virtual-link-profile-id: data
          constituent-cpd-id:
          - {constituent-base-element-id: "2", constituent-cpd-id: data-ext}
    ns-configuration:
      relation:
      - name: vpn
        provider: {vnf-profile-id: "1", execution-environment-ref: ee, endpoint: left}
        requirer: {vnf-profile-id: "2", execution-environment-ref: ee, endpoint: right}
""")

NST = yaml.safe_load("""
nst:
- id: gate_slice
  name: gate_slice
  SNSSAI-identifier: {slice-service-type: eMBB}
  quality-of-service: {id: 9}
  netslice-subnet:
  - {id: core, nsd-ref: gate_ns, is-shared-nss: false, description: core}
  - {id: edge, nsd-ref: gate_ns, is-shared-nss: false, description: edge}
  netslice-vld:
  - id: between
    name: between
    mgmt-network: false
    nss-connection-point-ref:
    - {nss-ref: core, nsd-connection-point-ref: out}
    - {nss-ref: edge, nsd-connection-point-ref: out}
""")

PARAMS = yaml.safe_load("""
vnf:
- {member-vnf-index: "1", vdu: [{id: vm, interface: [{name: ens4, ip-address: 10.0.0.1}]}]}
vld:
- name: data
  ip-profile: {ip-version: ipv4, subnet-address: 10.0.0.0/24, dhcp-params: {enabled: false}}
  vnfd-connection-point-ref:
  - {member-vnf-index-ref: "2", vnfd-connection-point-ref: data-ext, ip-address: 10.0.0.2}
additionalParamsForVnf:
- {member-vnf-index: "1", additionalParams: {port: 51820, name: a}}
- {member-vnf-index: "2", additionalParams: {port: 51820, name: b}}
""")


@dataclass
class File:
    """A file of a package under construction."""

    text: str = ""
    mode: int = 0o644
    mtime: float = 1.7e9
    link: str = ""


@dataclass
class Draft:
    """A package under construction: descriptor and other files, below the top folder."""

    document: object
    files: dict = field(default_factory=dict)
    name: str = "gate"

    @property
    def body(self):
        """What stands inside the envelope."""
        inner = next(iter(self.document.values()))
        if isinstance(inner, dict) and "nsd" in inner:
            inner = inner["nsd"]
        return inner[0] if isinstance(inner, list) else inner

    def _holder(self, path):
        node = self.body
        *parents, last = [int(p) if p.isdigit() else p for p in path.split("/")]
        for part in parents:
            node = node[part]
        return node, last

    def put(self, path, value):
        """Set what `path` leads to, such as "df/0/id"."""
        node, last = self._holder(path)
        node[last] = copy.deepcopy(value)

    def drop(self, path):
        node, last = self._holder(path)
        del node[last]

    def add(self, path, value):
        node, last = self._holder(path)
        node[last].append(copy.deepcopy(value))

    def charm(self, file, old, new):
        entry = self.files[f"charms/gate/{file}"]
        assert old in entry.text
        entry.text = entry.text.replace(old, new)

    def rename(self, old, new):
        for path in [p for p in self.files if p.startswith(old)]:
            self.files[new + path[len(old) :]] = self.files.pop(path)

    def all_files(self):
        return {"gate.yaml": File(yaml.safe_dump(self.document)), **self.files}

    def tar(self, path, top="gate/"):
        with tarfile.open(path, "w:gz", compresslevel=1) as archive:
            for name, entry in self.all_files().items():
                info = tarfile.TarInfo(top + name)
                info.mode, info.mtime = entry.mode, int(entry.mtime)
                if entry.link:
                    info.type, info.linkname = tarfile.SYMTYPE, entry.link
                    archive.addfile(info)
                else:
                    data = entry.text.encode()
                    info.size = len(data)
                    archive.addfile(info, io.BytesIO(data))
        return path

    def zip(self, path):
        """Write as zip in SOL004's layout."""
        with zipfile.ZipFile(path, "w") as archive:
            for name, entry in self.all_files().items():
                inside = name.startswith(("charms/", "cloud_init/"))
                info = zipfile.ZipInfo(f"Scripts/{name}" if inside else name)
                info.date_time = (2024, 1, 1, 0, 0, 0) if entry.mtime else (1980, 1, 1, 0, 0, 0)
                info.external_attr = (0o120777 if entry.link else 0o100000 | entry.mode) << 16
                archive.writestr(info, entry.link or entry.text)
        return path

    def package(self):
        """Return what the reader would make of it."""
        from builder.validate.reader import Entry

        files = {
            name: Entry(b"" if f.link else f.text.encode(), f.mode, f.mtime, f.link)
            for name, f in self.all_files().items()
        }
        return Package(self.name, "tar", files, "gate.yaml", self.document)


def charm_files():
    files = {f"charms/gate/{path}": File(text) for path, text in CHARM.items()}
    files["charms/gate/dispatch"].mode = 0o755
    return files


def vnf():
    files = {**charm_files(), "cloud_init/init.yaml": File(CLOUD_INIT)}
    return Draft(copy.deepcopy(VNFD), files, "gate_vnf")


def ns():
    return Draft(copy.deepcopy(NSD), {}, "gate_ns")


def ns_with_charm():
    draft = Draft(copy.deepcopy(NSD), charm_files(), "gate_ns")
    draft.put("ns-configuration/juju", {"charm": "gate"})
    primitive = {
        "seq": 1,
        "name": "config",
        "parameter": [{"name": "ns_config_info", "value": "<ns_config_info>"}],
    }
    draft.put("ns-configuration/initial-config-primitive", [primitive])
    relation = {
        "name": "own",
        "provider": {"vnf-profile-id": "1", "endpoint": "left"},
        "requirer": {"endpoint": "right"},
    }
    draft.add("ns-configuration/relation", relation)
    return draft


def nst():
    return Draft(copy.deepcopy(NST), {}, "gate_slice")


def catalog():
    """Return a catalogue in which the good ones are onboarded."""
    known = Catalog()
    known.add(vnf().package())
    known.add(ns().package())
    return known


GOOD = {"vnf": vnf, "ns": ns, "ns_with_charm": ns_with_charm, "nst": nst}


_catalog_to_read = functools.cache(catalog)


def problems(draft, folder):
    return validate_package(draft.tar(folder / "gate.tar.gz"), _catalog_to_read())


DESCRIPTOR = yaml.safe_dump(ns().document).encode()
#: The descriptor, as a member of an archive.
NSD_FILE = ("p/x_nsd.yaml", DESCRIPTOR)


def tar(path, members, mode="w:gz"):
    """Write a tar of (name, data or TarInfo)."""
    with tarfile.open(path, mode) as archive:
        for name, data in members:
            info = data if isinstance(data, tarfile.TarInfo) else tarfile.TarInfo(name)
            info.name, info.mtime = name, 1_700_000_000
            if isinstance(data, bytes):
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
            else:
                archive.addfile(info)
    return path
