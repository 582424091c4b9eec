"""Commands of `osm` in the documentation against what the build makes: names, files, values."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from builder import charms, packages
from builder.parameters import variants
from builder.tree import Tree
from operate.acceptance.reasons import VCA_ADD

ROOT = Path(__file__).resolve().parents[2]
TREE = Tree(ROOT)
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]
SHELL = re.compile(r"^( *)```sh\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
LOOP = re.compile(r"for (\w+) in ([^;\n]+); do(.*?)(?:;|\n)\s*done", re.DOTALL)
OSM = ("osm", "osm-lab")
ENDINGS = {"vnfpkg-create": "_vnf", "nspkg-create": "_ns", "nst-create": "_nst"}
#: What a reader made or named himself.
OWN = {"my-sites-params.yaml", "my-sites.yaml", "pcrf_vnf"}


@cache
def built() -> dict[str, packages.Package]:
    return packages.catalogue(TREE)


@cache
def files() -> dict[str, dict[str, Any]]:
    found = variants.parameter_files(TREE)
    return found | packages.deployments(TREE, built(), found)


def members(nsd: str) -> dict[str, str]:
    flavour = built()[nsd].descriptor["nsd"]["nsd"][0]["df"][0]
    return {str(p["id"]): str(p["vnfd-id"]) for p in flavour["vnf-profile"]}


def primitives(vnfd: str) -> tuple[dict[str, set[str]], set[str]]:
    """Return the parameters of each day-2 primitive of a VNF, and the links of its charm."""
    flavour = built()[vnfd].descriptor["vnfd"]["df"][0]
    operations = flavour["lcm-operations-configuration"]["operate-vnf-op-config"]
    (entry,) = operations["day1-2"]
    table = {
        each["name"]: {p["name"] for p in each.get("parameter", ())}
        for each in entry["config-primitive"]
    }
    juju = entry["execution-environment-list"][0]["juju"]["charm"]
    return table, set(charms.load(TREE, juju).links)


def commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each command of a page's shell blocks, loops unrolled."""
    for _, block in SHELL.findall(text):
        # A comment would take the end of its line along.
        joined = re.sub(r"\\\n\s*", " ", re.sub(r"(?m)(^|\s)#.*$", "", block))
        while loop := LOOP.search(joined):
            name, values, body = loop.groups()
            # The value is put in by a function: it is text, no template.
            turns = [
                re.sub(rf"\$\{{{name}\}}|\${name}\b", lambda _, v=value: v, body)
                for value in values.split()
            ]
            joined = joined[: loop.start()] + "\n".join(turns) + joined[loop.end() :]
        lexer = shlex.shlex(joined, posix=True, punctuation_chars=";|&\n")
        lexer.whitespace = " \t"
        lexer.whitespace_split = True
        lexer.commenters = ""
        words: list[str] = []
        for word in lexer:
            if set(word) <= set(";|&\n"):
                if words:
                    yield words
                words = []
            else:
                words.append(word)
        if words:
            yield words


def option(words: list[str], *names: str) -> str | None:
    for name in names:
        if name in words:
            return words[words.index(name) + 1]
    return None


@dataclass
class Reader:
    """Follows a page as somebody would who types its commands."""

    onboarded: set[str] = field(default_factory=set)
    services: dict[str, str] = field(default_factory=dict)
    bad: list[str] = field(default_factory=list)

    def read(self, words: list[str]) -> None:
        for word in words:
            self._file(word)
        if words[0] in OSM:
            verbs = [w for w in words[1:] if re.fullmatch(r"[a-z]+(-[a-z]+)+", w)]
            verb = verbs[0] if verbs else ""
            if verb in ENDINGS:
                self._onboard(verb, words)
            elif verb in ("ns-create", "nsi-create"):
                self._create(verb, words)
            elif verb == "ns-action":
                self._action(words)
        elif words[0] == "vpnaas-operate":
            for word in words[2:]:
                if match := re.fullmatch(
                    r"[^/\s]+/([^/:]+)(?:/[^/:]+/\d+)?:([a-z0-9-]+)(@.*)?", word
                ):
                    links = [primitives(vnfd)[1] for vnfd in self._vnfds(match[1])]
                    if not any(match[2] in each for each in links):
                        self.bad.append(f"{word}: no {match[1]} has a link {match[2]}")

    def _file(self, word: str) -> None:
        if match := re.search(r"(?:^|/)dist/([^/*]+)\.tar\.gz$", word):
            if match[1] not in built() and match[1] not in OWN:
                self.bad.append(f"{word}: the build makes no such package")
        elif match := re.search(r"dist/params/([^/*]+)\.yaml$", word):
            if match[1] not in files():
                self.bad.append(f"{word}: the build makes no such file")
        elif re.match(r"(params|lab|docs|tests)/[^*]+\.yaml$", word) and not (ROOT / word).exists():
            self.bad.append(f"{word}: there is no such file")

    def _onboard(self, verb: str, words: list[str]) -> None:
        for word in words:
            if word.endswith(".tar.gz") and "*" not in word:
                name = Path(word).name.removesuffix(".tar.gz")
                self.onboarded.add(name)
                if not re.sub(r"_double$", "", name).endswith(ENDINGS[verb]):
                    self.bad.append(f"{verb} of {name}")

    def _create(self, verb: str, words: list[str]) -> None:
        kind = "nsd" if verb == "ns-create" else "nst"
        name = option(words, f"--{kind}_name")
        if name not in built():
            self.bad.append(f"{verb}: no {kind} {name}")
            return
        if option(words, "--vim_account") is None:
            self.bad.append(f"{verb}: no --vim_account")
        if kind == "nst":
            for subnet in built()[name].descriptor["nst"][0]["netslice-subnet"]:
                service = f"{option(words, '--nsi_name')}.{subnet['id']}"
                self.services[service] = subnet["nsd-ref"]
            return
        self.services[str(option(words, "--ns_name"))] = name
        if name in self.onboarded and (
            missing := set(members(name).values()) - self.onboarded - set(OWN)
        ):
            self.bad.append(f"{name} is instantiated without {', '.join(sorted(missing))}")
        file = option(words, "--config_file") or ""
        stem = Path(file).name.removesuffix(".yaml")
        if stem in files():
            result = {str(m["member-vnf-index"]) for m in files()[stem]["additionalParamsForVnf"]}
            if result != set(members(name)):
                self.bad.append(f"{file} is not for {name}")
        elif not file.endswith("-params.yaml"):
            self.bad.append(f"{verb}: {file} is none of the parameter files")

    def _vnfds(self, member: str, ns: str = "") -> list[str]:
        """Return what a member may be: of the service made on the page, or of any."""
        known = [self.services[ns]] if ns in self.services else [
            name for name, package in built().items() if package.kind == "ns"
        ]  # fmt: skip
        return sorted({members(nsd)[member] for nsd in known if member in members(nsd)})

    def _action(self, words: list[str]) -> None:
        verb = words.index("ns-action")
        ns, vnf = words[verb + 1], option(words, "--vnf_name")
        action = option(words, "--action_name")
        vnfds = self._vnfds(str(vnf), ns)
        if not vnfds:
            self.bad.append(f"ns-action: {ns} has no member {vnf}")
        given = yaml.safe_load(option(words, "--params") or "{}")
        for vnfd in vnfds:
            table, links = primitives(vnfd)
            if action not in table:
                self.bad.append(f"{vnfd} has no primitive {action}")
            elif not set(given) <= table[action]:
                self.bad.append(f"{action}: no parameters {sorted(set(given) - table[action])}")
            elif given.get("link", "all") not in links | {"all"}:
                self.bad.append(f"{vnfd} has no link {given['link']}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_name_what_there_is(page: Path) -> None:
    reader = Reader()
    for words in commands(page.read_text(encoding="utf-8")):
        reader.read(words)
    assert reader.bad == []


def test_quotas_of_the_epc_are_those_of_its_packages() -> None:
    nsd = built()["epc_ns"].descriptor["nsd"]["nsd"][0]
    vnfds = [built()[vnfd].descriptor["vnfd"] for vnfd in members("epc_ns").values()]
    compute = [each["virtual-compute-desc"][0] for each in vnfds]
    quotas = (
        len(vnfds),
        sum(int(each["virtual-cpu"]["num-virtual-cpu"]) for each in compute),
        int(sum(float(each["virtual-memory"]["size"]) for each in compute)),
        sum(int(each["virtual-storage-desc"][0]["size-of-storage"]) for each in vnfds),
        sum(not each.get("mgmt-network") for each in nsd["virtual-link-desc"]),
        sum(len(each["virtual-link-connectivity"]) for each in nsd["df"][0]["vnf-profile"]),
    )
    page = (ROOT / "docs/how-to/deploy-on-osm.md").read_text(encoding="utf-8")
    (sentence,) = re.findall(r"^Quotas for `epc_ns`:([^;]*);", page, re.MULTILINE)
    assert tuple(map(int, re.findall(r"[0-9]+", sentence))) == quotas


def test_the_authority_of_a_vca_is_given_as_lcm_decodes_it() -> None:
    texts = [VCA_ADD, *(page.read_text(encoding="utf-8") for page in PAGES)]
    given = [value for text in texts for value in re.findall(r'--cacert ("[^"]*")', text)]
    assert len(given) > 1
    assert set(given) == {'"$(base64 -w0 ca.pem)"'}


def test_the_walk_in_the_gui_can_be_walked() -> None:
    text = (ROOT / "docs/how-to/gui.md").read_text(encoding="utf-8").partition("## A walk")[2]
    steps = [
        [c.strip() for c in row.strip("|").split("|")]
        for row in re.findall(r"^\| \d.*", text, re.M)
    ]
    assert len(steps) > 5
    reader = Reader(services={"epc": "epc_ns"})
    for _, member, primitive, given, _ in steps:
        pairs = dict(re.findall(r"`([a-z-]+)` = `([^`]+)`", given))
        words = ["--vnf_name", member.strip("`"), "--action_name", primitive.strip("`")]
        if pairs.get("link") == "s7a":  # the one that is to fail
            del pairs["link"]
        reader.read(["osm", "ns-action", "epc", *words, "--params", yaml.safe_dump(pairs)])
    assert reader.bad == []


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        ("osm vnfpkg-create dist/hsss_vnf.tar.gz", "the build makes no such package"),
        ("osm nspkg-create dist/hss_vnf.tar.gz", "nspkg-create of hss_vnf"),
        (
            "osm nspkg-create dist/epc_ns.tar.gz; osm ns-create --ns_name e --nsd_name epc_ns "
            "--vim_account V --config_file dist/params/epc.yaml",
            "epc_ns is instantiated without enb_vnf",
        ),
        (
            "osm ns-create --ns_name e --nsd_name epc_ns --vim_account V "
            "--config_file dist/params/vpn_basic.yaml",
            "is not for epc_ns",
        ),
        (
            "osm ns-create --ns_name e --nsd_name epc_ns --config_file dist/params/epc.yaml",
            "no --vim_account",
        ),
        ("osm ns-action e --vnf_name mme --action_name dance", "mme_vnf has no primitive dance"),
        (
            "osm ns-action e --vnf_name mme --action_name show-status --params '{links: s6a}'",
            "show-status: no parameters ['links']",
        ),
        (
            "osm ns-action e --vnf_name mme --action_name show-status --params '{link: s1u}'",
            "mme_vnf has no link s1u",
        ),
        ("osm ns-action e --vnf_name mmme --action_name show-status", "e has no member mmme"),
        ("vpnaas-operate join a/mme:s6b@192.0.2.1 b/hss:s6a", "no mme has a link s6b"),
        ("for v in hss mmme; do osm vnfpkg-create dist/${v}_vnf.tar.gz; done", "dist/mmme_vnf"),
    ],
)
def test_a_wrong_command_is_noticed(command: str, complaint: str) -> None:
    reader = Reader()
    for words in commands(f"```sh\n{command}\n```\n"):
        reader.read(words)
    assert complaint in "\n".join(reader.bad)
