"""The documentation against the code: names, defaults, paths, commands and links."""

from __future__ import annotations

import ast
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from oai import hss as nf_hss
from oai import kinds as nf_kinds
from oai import model, units
from oai import part as nf_part
from vpnaas.base import fields, links
from vpnaas.features import guard, monitoring, qos
from vpnaas.features.gateway import gateway
from vpnaas.features.measure import measure, responder
from vpnaas.peers.offer import PREFIX, KeyOffer, Offer, encode
from vpnaas.tunnels import clear, nesting, preshared
from vpnaas.tunnels.wireguard import interface as wireguard
from vpnaas.tunnels.wireguard.names import CONF, KEY, NEXT_KEY
from vpnaas.vdu import facts
from vpnaas.vdu.programs import agent

from builder import charms, packages, pages
from builder.cli import main as vpnaas_build
from builder.parameters import variants
from builder.tree import Tree
from lab.cli.commands import cli as osm_lab
from operate.cli import main as vpnaas_operate

ROOT = Path(__file__).resolve().parents[2]
TREE = Tree(ROOT)
DOCS = ROOT / "docs"
PAGES = [*sorted(DOCS.rglob("*.md")), *sorted(ROOT.glob("*.md"))]
COMMON = ROOT / "charms/common"
LIBRARY = ROOT / "charms/lib/vpnaas"
ACTION_FILES = (
    *("common/actions.yaml", "common/experiment-actions.yaml", "common/gateway-actions.yaml"),
    *("secgw/actions.yaml", "access/actions.yaml"),
)
ACTIONS: dict[str, Any] = {
    name: action
    for file in ACTION_FILES
    for name, action in charms.declared_actions(TREE, file).items()
}
OPTIONS: dict[str, Any] = yaml.safe_load((COMMON / "config.yaml").read_text())["options"]

DRIVER = "/usr/bin/chromedriver"
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<!`)`([^`]+)`(?!`)")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(page: Path) -> str:
    """Return a page without its fenced blocks."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


def section(page: str, heading: str) -> str:
    """Return the text below one second-level heading, with the tables that the site has."""
    text = pages.on_page_markdown((DOCS / page).read_text(encoding="utf-8"))
    match = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    assert match, f"{page} has no section {heading}"
    return match[1]


def rows(text: str) -> dict[str, list[str]]:
    """Return the cells of table rows by the first code word of their first cell."""
    table = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `"):
            table[INLINE.findall(cells[0])[0]] = cells
    return table


# -- the site ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_site_is_built_and_has_no_dead_link(tmp_path: Path) -> None:
    """`mkdocs build --strict` fails on every link and anchor that leads nowhere."""
    shutil.copytree(DOCS, tmp_path / "docs")
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    (tmp_path / "builder").mkdir()
    shutil.copy(ROOT / "builder/pages.py", tmp_path / "builder")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    made = (tmp_path / "site/how-to/multi-site.html").read_text(encoding="utf-8")
    assert "```" not in made
    actions = (tmp_path / "site/reference/charm-actions.html").read_text(encoding="utf-8")
    assert ACTIONS["configure"]["params"]["mtu"]["description"] in actions
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert sorted(pages.TABLE.findall(text)) == sorted(pages.TABLES)
    assert sorted(pages.VERBS.findall(text)) == [("lab.cli.commands", "lab")]
    assert "unpkg" not in re.sub(r"<code>.*?</code>", "", made)
    assert 'src="../worker.js"' in made
    assert (tmp_path / "site/search/search_index.js").is_file()
    (tmp_path / "docs/new.md").write_text("[nowhere](gone.md)\n", encoding="utf-8")
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "gone.md" in done.stderr


def test_tutorials_come_first_and_decisions_last() -> None:
    index = pages.on_page_markdown((DOCS / "index.md").read_text(encoding="utf-8"))
    made = pages.navigation(index)
    names = [name for section in made for name in section]
    assert names == ["Tutorials", "How to", "Reference", "Explanation", "Decisions"]
    assert made[0]["Tutorials"][0] == {"Your first tunnel": "tutorials/first-tunnel.md"}
    assert {"In the lab", "Packages"} < {name for group in made[1]["How to"] for name in group}


@pytest.mark.long
def test_the_search_finds_a_page_from_a_disk(tmp_path: Path) -> None:
    """A browser starts no worker for a page of a disk: `worker.js` stands in for it."""
    from selenium import webdriver
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    if not Path(DRIVER).exists():
        pytest.skip("this machine has no chromedriver")
    words = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path)]
    subprocess.run(words, cwd=ROOT, check=True)
    options = webdriver.ChromeOptions()
    for option in ("--headless=new", "--no-sandbox", "--disable-gpu"):
        options.add_argument(option)
    browser = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
    try:
        browser.get(f"file://{tmp_path}/how-to/rotate-keys.html")
        browser.execute_script("document.querySelector('#__search').click()")
        field = browser.find_element(By.CSS_SELECTOR, "input[name=query]")
        browser.execute_script("arguments[0].focus()", field)
        field.send_keys("RSA-OAEP")
        found = WebDriverWait(browser, 60).until(
            lambda page: page.find_elements(By.CSS_SELECTOR, ".md-search-result__item a")
        )
        assert "0006-preshared-keys.html" in "".join(str(a.get_attribute("href")) for a in found)
    finally:
        browser.quit()


# -- links -------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_relative_links_resolve(page: Path) -> None:
    broken = []
    for target in LINK.findall(prose(page)):
        path, _, anchor = target.partition("#")
        if ":" in path:
            continue
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(target)
    assert not broken


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_table_is_cut_by_a_blank_line(page: Path) -> None:
    """A row after a blank line shows as text, unless a line of dashes makes it a head."""
    assert re.findall(r"^\|.*\n\n(\|.*)\n(?!\|-)", prose(page), re.MULTILINE) == []


def test_every_parameter_file_is_documented_with_its_source() -> None:
    services = variants.parameter_files(TREE)
    made = services | packages.deployments(TREE, packages.catalogue(TREE), services)
    found: dict[str, str] = {}
    for line in section("reference/packages.md", "Parameter files").splitlines():
        if line.startswith("| `"):
            files, source, *_ = line.strip("| ").split(" | ")
            found |= dict.fromkeys(INLINE.findall(files), INLINE.findall(source)[0])
    for name in ("variants", "slices"):
        found |= dict.fromkeys(rows(pages.TABLES[name](TREE)), f"params/{name}.yaml")
    assert sorted(found) == sorted(f"{name}.yaml" for name in made)
    for name, source in found.items():
        path = ROOT / source
        assert (path / name if path.is_dir() else path).is_file(), name
        if path.name != name and path.is_file():
            # The stem names a section of it.
            assert re.search(rf"^ *{name.removesuffix('.yaml')}:", path.read_text(), re.M), name


def test_every_page_can_be_reached_from_the_index() -> None:
    targets = LINK.findall(pages.on_page_markdown(prose(DOCS / "index.md")))
    listed = {(DOCS / target.partition("#")[0]).resolve() for target in targets}
    assert {name_of(p) for p in set(DOCS.rglob("*.md")) - listed} == {"docs/index.md"}


def test_decisions_are_numbered_once_and_have_their_parts() -> None:
    pages = sorted((DOCS / "adr").glob("*.md"))
    numbers = [int(p.name[:4]) for p in pages]
    assert numbers == sorted(set(numbers))
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert text.startswith(f"# {page.name[:4]} "), page.name
        for part in ("Status: ", "## Context", "## Decision", "## Consequences"):
            assert part in text, f"{page.name} lacks {part}"


def test_decisions_that_code_cites_exist() -> None:
    for source in LIBRARY.rglob("*.py"):
        for number in re.findall(r"docs/adr/(\d{4})", source.read_text(encoding="utf-8")):
            assert list((DOCS / "adr").glob(f"{number}-*.md")), f"{source.name} cites {number}"


# -- charms ------------------------------------------------------------------------------------


def test_exactly_the_actions_there_are_have_a_section() -> None:
    text = (DOCS / "reference/charm-actions.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## ([a-z-]+)$", text, re.M)
    assert sorted(headings) == sorted(ACTIONS)


def marks(page: str) -> dict[str, list[tuple[str, str]]]:
    """Return the actions that the site describes, by the heading of their section."""
    text = (DOCS / page).read_text(encoding="utf-8")
    parts = re.split(r"^## (.+)$", text, flags=re.M)[1:]
    return {
        heading: pages.MARK.findall(body)
        for heading, body in zip(parts[::2], parts[1::2], strict=True)
    }


def test_the_site_says_of_each_action_what_it_does() -> None:
    shown = marks("reference/charm-actions.md")
    files = {name: file for file in ACTION_FILES for name in charms.declared_actions(TREE, file)}
    assert {name: shown[name] for name in ACTIONS} == {n: [(f, n)] for n, f in files.items()}


def test_a_table_tells_type_default_and_meaning() -> None:
    text = pages.action("common/actions.yaml", "measure-throughput")
    assert text.startswith(ACTIONS["measure-throughput"]["description"].strip())
    assert "|" not in pages.action("common/actions.yaml", "show-qos")
    table = rows(text)
    schema = ACTIONS["measure-throughput"]["params"]
    assert list(table) == list(schema)
    assert table["duration"][1:] == ["1-1500", "`10`", schema["duration"]["description"]]
    assert "`udp`" in table["protocol"][1]
    assert table["link"][1:3] == ["`LINK`", ""]


def shown_fields() -> set[str]:
    """Return the fields that functions of the library put into `show-status`."""
    functions = {"link_status", "_peer", "details", "session", "shown"}
    files = ("status", "tunnels/keyed", "tunnels/wireguard/technology", "tunnels/ipsec/technology")
    names: set[str] = set()
    for file in (*files, "tunnels/ipsec/enrolment"):
        tree = ast.parse((LIBRARY / f"{file}.py").read_text(encoding="utf-8"))
        for function in ast.walk(tree):
            if not isinstance(function, ast.FunctionDef) or function.name not in functions:
                continue
            for node in ast.walk(function):
                if isinstance(node, ast.Dict):
                    names |= {key.value for key in node.keys if isinstance(key, ast.Constant)}
                elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
                    names |= {node.slice.value} if isinstance(node.slice, ast.Constant) else set()
                elif isinstance(node, ast.Call) and ast.unparse(node.func) == "dict":
                    names |= {keyword.arg for keyword in node.keywords if keyword.arg}
    return names


def test_exactly_the_fields_of_show_status_are_documented() -> None:
    documented: set[str] = set()
    for line in section("reference/charm-actions.md", "Fields of show-status").splitlines():
        if line.startswith("| `"):
            documented |= set(INLINE.findall(line.split("|")[1]))
    assert documented == shown_fields() | {"configured"}


def test_tables_have_a_row_for_each_charm_package_and_option() -> None:
    table = {name: rows(make(TREE)) for name, make in pages.TABLES.items()}
    assert list(table["charms"]) == TREE.charms()
    assert table["charms"]["mme"] == ["`mme`", "`s1c`", "`s6a`, `s11`"]
    assert set(table["options"]) == set(OPTIONS)
    assert table["vnf-packages"]["spgwu_vnf"][3:] == ["1", "3", "20"]
    assert "ens5 `s1u`" in table["vnf-packages"]["spgwu_vnf"][2]
    assert table["ns-packages"]["epc_core_ns"][1] == "`mme`, `spgwc`, `spgwu`, `enb`"
    assert "s11: `spgwc` to `mme`" in table["ns-packages"]["epc_core_ns"][3]
    assert table["alerts"]["TunnelDown"][1:] == ["*link* to *peer* of *ns*/*vnf* is down", "2m"]
    assert table["nst-packages"]["embb_shared_nst"][1:3] == ["eMBB", "6"]
    for kind in ("vnf", "ns", "nst"):
        found = sorted(path.parent.name for path in ROOT.glob(f"{kind}-packages/*/*_{kind}*.yaml"))
        assert sorted(table[f"{kind}-packages"]) == found


def nf_actions() -> dict[str, dict[str, Any]]:
    """Return the actions of network functions by the heading of their section."""
    return {
        heading: {**action, "file": file}
        for prefix, file in (
            ("", "common/nf-actions.yaml"),
            ("nr-ue and n3ue ", "common/session-actions.yaml"),
            *((f"{kind} ", f"{kind}/actions.yaml") for kind in nf_kinds.KINDS),
        )
        for heading, action in (
            (prefix + name, action) for name, action in charms.declared_actions(TREE, file).items()
        )
    }


def test_the_site_says_of_each_action_of_a_network_function_what_it_does() -> None:
    wanted = {
        heading: [(action["file"], heading.split()[-1])] for heading, action in nf_actions().items()
    }
    assert marks("reference/nf-actions.md") == wanted


def test_limits_of_link_parameters_are_those_of_the_code() -> None:
    rules = section("reference/link-parameters.md", "Rules")
    assert f"{fields.MIN_MTU} to {fields.MAX_MTU} bytes" in rules
    assert f"at most {fields.MAX_PREFIXES} prefixes" in rules
    values = section("reference/link-parameters.md", "Values that follow")
    assert f"less {wireguard.OVERHEAD} bytes" in values


def test_default_ports_are_those_of_the_code() -> None:
    result = {}
    for line in section("reference/link-parameters.md", "Default ports").splitlines():
        if line.startswith("| `"):
            cells = line.strip("|").split("|")
            result |= dict.fromkeys(INLINE.findall(cells[0]), int(cells[2]))
    assert result == {name: point.listen_port for name, point in links.REFERENCE_POINTS.items()}


# -- relation data and files -------------------------------------------------------------------


def test_exactly_the_databag_keys_there_are_are_documented() -> None:
    address = fields.address("test", "192.0.2.1")
    keys = encode(Offer("wireguard", address, 1420, keys=KeyOffer("")))
    heading = "Relations between VNFs (interface `vpnaas-link`)"
    result = rows(section("reference/relation-data.md", heading))
    assert sorted(result) == sorted(keys)
    assert all(key.startswith(PREFIX) for key in result)


def test_exactly_the_keys_of_network_functions_are_documented() -> None:
    result = rows(section("reference/relation-data.md", "Network functions in the same relations"))
    assert sorted(result) == sorted(nf_part.encode(None))


def test_exactly_the_keys_of_the_peer_relation_are_documented() -> None:
    constants = {}
    more = ("features/access.py", "features/pair/pair.py", "../oai/network_function.py")
    for file in [*LIBRARY.glob("*.py"), *(LIBRARY / name for name in more)]:
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                names = [t.id for t in node.targets if isinstance(t, ast.Name)]
                constants |= dict.fromkeys(names, node.value.value)
    expected = {constants[name] for name in constants if name.endswith("_KEY")}
    result = rows(section("reference/relation-data.md", "Peer relation (`proxypeer`)"))
    assert set(result) == expected


def test_files_on_the_vdu_are_documented() -> None:
    page = (DOCS / "reference/files-on-the-vdu.md").read_text(encoding="utf-8")
    text = pages.on_page_markdown(page)
    paths = [
        agent.LOCK,
        facts.KEPT,
        clear.UNIT_FILE,
        qos.UNIT_FILE,
        qos.NFT_FILE,
        guard.FILE,
        guard.UNIT_FILE,
        gateway.FILE,
        monitoring.UNIT_FILE,
        monitoring.PROGRAM_FILE,
        gateway.UNIT_FILE,
        gateway.DAEMON_FILE,
        gateway.SYSCTL_FILE,
        clear.UP.format("LINK"),
        clear.HOLD_PROGRAM,
        nesting.PATHS_FILE,
        measure.KEPT,
        preshared.WRAP_KEY.format("LINK"),
        responder.PROGRAM_FILE,
        "/etc/systemd/system/" + responder.SOCKET.format("LINK"),
        wireguard.HANDOVER_PROGRAM,
        CONF.format("LINK"),
        KEY.format("LINK"),
        NEXT_KEY.format("LINK"),
        preshared.PRESHARED.format("LINK", "PEER"),
        model.SECRETS_FILE,
        model.TLS,
        nf_hss.DATA,
        model.FILL,
        nf_hss.STATEMENTS,
        units.PREPARE_PROGRAM,
        units.LOGROTATE,
        units.RUN,
        units.RULES_FILE,
    ]
    for file in LIBRARY.parent.rglob("*.py"):
        source = file.read_text(encoding="utf-8")
        paths += re.findall(r'"(/(?:etc|run|usr|var)/[^"{}]*osm-vpnaas[^"{}*]*[^"{}*/-])"', source)
    assert sorted({path for path in paths if path not in text}) == []
    assert f"TCP {links.RESPONDER_PORT}" in text
    assert f"newest {measure.KEPT_REPORTS}" in text
    assert f"newest {measure.KEPT_REPORTS}" in (DOCS / "how-to/measure.md").read_text("utf-8")


# -- architecture ------------------------------------------------------------------------------


def test_the_table_of_the_library_has_each_module_and_what_it_is() -> None:
    table = rows(pages.TABLES["library"](TREE))
    modules = (p for p in LIBRARY.rglob("*.py") if p.stem != "__init__")
    assert set(table) == {str(p.relative_to(LIBRARY).with_suffix("")) for p in modules}
    assert [name for name, cells in table.items() if not cells[1]] == []


def test_the_map_of_the_lab_has_each_room_and_what_it_is() -> None:
    table = rows((ROOT / "lab/README.md").read_text(encoding="utf-8"))
    rooms = {path.parent for path in (ROOT / "lab").glob("*/**/__init__.py")}
    assert {name: cells[1] for name, cells in table.items()} == {
        str(room.relative_to(ROOT / "lab")): pages._first_line(room / "__init__.py")
        for room in rooms
    }


def test_modules_that_the_map_of_the_lab_names_exist() -> None:
    text = (ROOT / "lab/README.md").read_text(encoding="utf-8")
    for name in re.findall(r"`([a-z_]+(?:/[a-z_]+)*)`", text):
        place = ROOT / "lab" / name
        assert place.is_dir() or place.with_suffix(".py").is_file(), name


def test_folders_and_packages_that_architecture_names_exist() -> None:
    text = (DOCS / "explanation/architecture.md").read_text(encoding="utf-8")
    for module in re.findall(r"`(lab\.\w+)`", text):
        assert (ROOT / module.replace(".", "/")).is_dir(), module


# -- commands ----------------------------------------------------------------------------------


def shell_commands(page: Path) -> Iterator[list[str]]:
    """Yield the words of each command in a page's shell blocks and inline code."""
    text = page.read_text(encoding="utf-8")
    found = [block for _, kind, block in FENCE.findall(text) if kind == "sh"]
    found += INLINE.findall(FENCE.sub("", text))
    for block in found:
        joined = re.sub(r"\\\n\s*", " ", block)
        # Quoted parameters may go over several lines.
        for line in re.sub(r"'[^']*'", lambda m: m[0].replace("\n", " "), joined).splitlines():
            for part in re.split(r"[;|&]\s*(?:do )?", re.sub(r"'[^']*'", "QUOTED", line)):
                try:
                    words = shlex.split(part, comments=True)
                except ValueError:
                    continue
                if words[:2] == ["sudo", "osm-lab"]:
                    words = words[1:]
                if words:
                    yield words


def complaints(root: click.Command, words: list[str]) -> list[str]:
    """Return what click would refuse of a command: unknown verbs and options."""
    command, bad = root, []
    with click.Context(root) as context:
        for word in words:
            if word == "--":
                break
            known = {o for p in command.params for o in (*p.opts, *p.secondary_opts)} | {"--help"}
            if isinstance(command, click.Group) and not word.startswith("-"):
                # "DIR" of "--home DIR", and "VERB" or "..." where a page speaks of any verb.
                if not re.match(r"[a-z]", word):
                    continue
                verb = command.get_command(context, word)
                if verb is None:
                    return [*bad, f"no verb {word}"]
                command = verb
            elif word.startswith("--") and word.partition("=")[0] not in known:
                bad.append(f"{command.name} has no option {word}")
    return bad


def test_complaints_notice_what_is_wrong() -> None:
    assert complaints(osm_lab, ["ns-make"]) == ["no verb ns-make"]
    assert complaints(osm_lab, ["ns-create", "--nsname"]) == ["ns-create has no option --nsname"]
    assert complaints(osm_lab, ["lab", "console", "a", "b", "--", "ls", "--all"]) == []


CLICK = {
    "osm-lab": osm_lab,
    "osm": osm_lab,
    "vpnaas-build": vpnaas_build,
    "vpnaas-operate": vpnaas_operate,
}
"""The lab has osmclient's verbs and options, so `osm` is checked against it as well."""
READS_ITS_OWN_WORDS = {"ns-heal", "vnf-heal"}
NOT_IN_THE_LAB = {"vca-add", "vca-list", "vim-update"}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_exist(page: Path) -> None:
    bad = []
    verbs = set(re.findall(r"^ {4}([a-z]+)\)", (ROOT / "run").read_text(encoding="utf-8"), re.M))
    for words in shell_commands(page):
        program, *rest = words
        if READS_ITS_OWN_WORDS & set(rest):
            continue
        if program in CLICK and not (program == "osm" and NOT_IN_THE_LAB & set(rest)):
            bad += complaints(CLICK[program], rest)
        elif program == "./run" and rest and rest[0].isalpha() and rest[0] not in verbs:
            bad.append(f"./run has no command {rest[0]}")
    assert not bad


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_parameters_shown_for_actions_are_accepted(page: Path) -> None:
    """Check `--action_name X --params '{...}'` in shell blocks against the action's schema."""
    known: dict[str, list[dict[str, Any]]] = {}
    for name, action in (ACTIONS | nf_actions()).items():
        # An action of all charms and one of a network function may have the same name.
        known.setdefault(name.split()[-1], []).append(action)
    text = page.read_text(encoding="utf-8")
    pattern = re.compile(r"--action_name\s+([a-z0-9-]+)(?:\s|\\)*(?:--params\s+'([^']*)')?")
    for _, kind, block in FENCE.findall(text):
        if kind != "sh":
            continue
        for action, given in pattern.findall(block):
            assert action in known, action
            params = yaml.safe_load(given) or {}
            assert any(
                set(params) <= set(schema.get("params") or {})
                and set(schema.get("required", ())) <= set(params)
                for schema in known[action]
            ), (action, params)
