import os
import re
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

import jsonschema
import pytest
import yaml
from helm_ee.schema import Actions
from vpnaas import edge
from vpnaas.actions import declared
from vpnaas.charm import Kind

from builder import charms, pages
from builder.descriptors import day_2, parameters
from builder.errors import BuildError
from builder.parameters.variants import parameter_files
from builder.tree import BASES
from lab.vca.python import choose_python

ACTIONS_OF_OSM = {"run", "generate-ssh-key", "get-ssh-public-key", "verify-ssh-credentials"}
OPTIONS_OF_OSM = {"ssh-hostname", "ssh-username", "ssh-password"}

PROBE = """
import sys
import vpnaas.edge
# As a charm starts: ops.pebble needs a module that Python 3.13 has no more, and is never used.
sys.meta_path.insert(0, vpnaas.edge._Unused())
import attr, bcrypt, cryptography, nacl.signing, ops, paramiko, yaml
import vpnaas.charm
for module in (attr, bcrypt, cryptography, nacl, ops, paramiko, yaml, vpnaas):
    assert module.__file__.startswith(sys.argv[1]), module.__file__
paramiko.RSAKey.generate(2048).sign_ssh_data(b"data")
nacl.signing.SigningKey.generate().sign(b"data")
bcrypt.hashpw(b"word", bcrypt.gensalt(4))
"""


def charm_folders(unpacked):
    found = [path for top in unpacked.values() for path in sorted((top / "charms").glob("*"))]
    assert found
    return found


def python36():
    python = choose_python()
    return str(python.path) if python.version[:2] == (3, 6) else None


def test_every_charm_is_complete(unpacked):
    for folder in charm_folders(unpacked):
        for file in ("src/charm.py", "lib/vpnaas/__init__.py", "venv/ops/main.py", "LICENSE"):
            assert (folder / file).is_file(), (folder, file)
        assert os.access(folder / "dispatch", os.X_OK)
        metadata = yaml.safe_load((folder / "metadata.yaml").read_text())
        assert metadata["name"] == folder.name
        assert metadata["peers"] == {"proxypeer": {"interface": "proxypeer"}}
        # LCM makes every machine with the base "bionic", and Juju refuses others.
        assert "bionic" in metadata["series"]
        options = yaml.safe_load((folder / "config.yaml").read_text())["options"]
        assert set(options) >= OPTIONS_OF_OSM
        assert {options[name]["default"] for name in OPTIONS_OF_OSM} == {""}
        actions = yaml.safe_load((folder / "actions.yaml").read_text())
        assert set(actions) >= ACTIONS_OF_OSM


ACTION_OF_JUJU = re.compile(r"[a-z](?:[a-z-]*[a-z0-9])?(?:[a-z0-9-]*[a-z0-9])?")
OPTION_TYPES = {"string": str, "int": int, "float": float, "boolean": bool}


@pytest.mark.parametrize("release", ["2.9", "3.6", "4.0"])
def test_juju_takes_every_charm(unpacked, release):
    """What each release of Juju reads before it deploys a charm (juju/charm, meta and manifest)."""
    for folder in charm_folders(unpacked):

        def read(name, folder=folder):
            return yaml.safe_load((folder / name).read_text())

        metadata, manifest = read("metadata.yaml"), read("manifest.yaml")
        for key in ("name", "summary", "description"):
            assert isinstance(metadata[key], str) and metadata[key].strip()
        assert re.fullmatch("[a-z][a-z0-9]*(-[a-z0-9]*[a-z][a-z0-9]*)*", metadata["name"])
        # The manifest as Juju 2.9 and later parse it; 4.0 refuses a charm without any base.
        channels = []
        for base in manifest["bases"]:
            assert set(base) <= {"name", "channel", "architectures"}
            assert base["name"] == "ubuntu"
            assert isinstance(base["channel"], str)
            channels.append(base["channel"])
            assert base["architectures"] and set(base["architectures"]) <= {"amd64", "arm64"}
        if release == "2.9":  # Without a series of its own, OSM's machines would not fit.
            assert metadata["series"][0] == "bionic"
        else:
            assert channels and "22.04" in channels
        assert [BASES["bionic"].series[name] for name in metadata["series"]] == channels
        ends = [n for key in ("provides", "requires", "peers") for n in metadata.get(key, {})]
        assert len(ends) == len(set(ends))
        assert not [name for name in ends if name == "juju" or name.startswith("juju-")]
        for option in read("config.yaml")["options"].values():
            assert isinstance(option["default"], OPTION_TYPES[option["type"]])
        for name, action in read("actions.yaml").items():
            assert ACTION_OF_JUJU.fullmatch(name) and not name.startswith("juju")
            assert set(action.get("required", [])) <= set(action.get("params", {}))
            for parameter in action.get("params", {}).values():
                assert parameter["type"] in ("string", "integer", "number", "boolean", "array")
        assert os.access(folder / "dispatch", os.X_OK)
        assert (folder / "version").read_text().count("\n") == 1


def test_no_charm_has_what_juju_or_zip_would_trip_over(unpacked):
    for folder in charm_folders(unpacked):
        for path in folder.rglob("*"):
            assert not path.is_symlink()
            assert path.suffix != ".pyc"
            assert path.name != "__pycache__"
        # libjuju leaves these out of the zip it uploads.
        assert not (folder / "build").exists()
        assert not list(folder.glob(".*"))


def test_roles_of_the_mme(tree):
    metadata = charms.load(tree, "mme").metadata
    assert metadata["provides"] == {
        "s1c": {"interface": "vpnaas-link"},
        "s1c-function": {"interface": "oai-function"},
    }
    assert metadata["requires"] == {
        "s6a": {"interface": "vpnaas-link"},
        "s11": {"interface": "vpnaas-link"},
    }


def test_a_parameter_link_takes_the_links_of_the_charm(tree):
    actions = charms.load(tree, "spgwu").actions
    assert actions["configure"]["params"]["link"]["enum"] == ["s1u", "sxab"]
    assert actions["restart"]["params"]["link"]["enum"] == ["all", "s1u", "sxab"]
    assert "enum" not in actions["inject-fault"]["params"]["link"]
    assert {action["additionalProperties"] for action in actions.values()} == {False}


def test_charms_share_on_disk_the_packages_of_others(tree):
    with tempfile.TemporaryDirectory(dir=tree.cache) as folder:  # of one file system with them
        hss, mme = (Path(folder, name) for name in ("hss", "mme"))
        for place in (hss, mme):
            charms.assemble(tree, place.name, place)
        assert (hss / "venv/ops/charm.py").samefile(mme / "venv/ops/charm.py")
        assert not (hss / "lib/vpnaas/charm.py").samefile(mme / "lib/vpnaas/charm.py")


@pytest.mark.parametrize("python", [sys.executable, python36()])
def test_charm_imports_with_nothing_but_its_own_folder(unpacked, python):
    if python is None:
        pytest.skip("no Python 3.6 on this machine; OSMLAB_CHARM_PYTHON names one")
    folder = unpacked["hss_vnf"] / "charms" / "hss"
    done = subprocess.run(
        [python, "-B", "-s", "-S", "-c", PROBE, str(folder)],
        env={"PYTHONPATH": f"{folder}/lib:{folder}/venv", "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_dispatch_runs_the_charm_under_the_python_on_path(unpacked, tmp_path):
    folder = unpacked["hss_vnf"] / "charms" / "hss"
    (tmp_path / "python3").symlink_to(sys.executable)
    path = f"{tmp_path}:{os.environ['PATH']}"
    for extra in ({}, {"JUJU_CHARM_DIR": str(folder)}):
        done = subprocess.run(
            [folder / "dispatch"],
            env={"PATH": path, "PYTHONDONTWRITEBYTECODE": "1", **extra},
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )
        # That far and no farther: ops is imported from the charm and asks who it is.
        assert "JUJU_UNIT_NAME not set" in done.stderr


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("summary:", "sumary:", ["charms/hss/charm.yaml", "summary"]),
        ("s6a: provider", "s6a: server", ["charms/hss/charm.yaml", "s6a", "'provider'"]),
        ("s6a: provider", "a-long-link-name: provider", ["charms/hss/charm.yaml", "links"]),
        ("name: hss", "name: hs", ["charms/hss/charm.yaml", "name must be hss"]),
        ("links:", "links: [", ["charms/hss/charm.yaml", "not YAML"]),
        ("links:", "extra: 1\nlinks:", ["charms/hss/charm.yaml", "extra"]),
    ],
)
def test_a_wrong_declaration_is_one_sentence(sources, before, after, words):
    path = sources.root / "charms/hss/charm.yaml"
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after, 1))
    with pytest.raises(BuildError) as caught:
        charms.load(sources, "hss")
    for word in words:
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("limits", ["10000", "[1]", "[1, 2, 3]", "[1, many]", "1 to 10000"])
def test_a_range_that_is_no_pair_of_numbers_is_one_sentence(sources, limits):
    path = sources.common / "actions.yaml"
    path.write_text(re.sub(r"range: .*", f"range: {limits}", path.read_text(), count=1))
    with pytest.raises(BuildError, match=r"^charms/.*: range must be two whole numbers, not .*\Z"):
        charms.load(sources, "hss")


def test_an_unknown_charm_names_those_there_are(tree):
    with pytest.raises(BuildError, match=r"no charm hsx; allowed are access, amf, cell, enb, gnb"):
        charms.load(tree, "hsx")


@pytest.mark.slow
def test_the_library_needs_no_python_newer_than_the_proxy_machines(tree):
    # Statically: a machine without Python 3.6 still finds an f-string too many.
    folders = [str(tree.library), str(tree.common)]
    script = "import sys, vermin; sys.exit(vermin.main())"
    command = [sys.executable, "-c", script, "--target=3.6-", "--violations", "--no-tips"]
    result = subprocess.run([*command, *folders], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def about_links(tree):
    """Return the actions that a charm without links does not have."""
    common = ("actions", "experiment-actions", "nf-actions")
    links = {
        name: action.get("params", {}).get("link", {"default": "none"})
        for file in common
        for name, action in charms.declared_actions(tree, f"common/{file}.yaml").items()
    }
    return {name for name, link in links.items() if link.get("default", "all") == "all"}


def kind_of(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Kind:
    """Return the kind of charm that a charm's entry runs."""
    found: list[Kind] = []
    monkeypatch.setattr(edge, "main", lambda *names: found.append(edge.kind_of(*names)))
    runpy.run_path(str(folder / "src/charm.py"), run_name="__main__")
    return found[0]


DECLARED = {"configure-gateway", "configure-cell", "configure-n6", "configure-sgi"}
DECLARED |= {"measure-s6a", "measure-n2"}


def test_every_action_has_a_handler_and_every_handler_an_action(unpacked, tree, monkeypatch):
    of_links = about_links(tree)
    for folder in charm_folders(unpacked):
        actions = yaml.safe_load((folder / "actions.yaml").read_text())
        groups = kind_of(folder, monkeypatch).groups
        handlers = set(declared(groups))
        # A feature stands in one place: no group overrides an action of another.
        assert len(handlers) == sum(len(declared([group])) for group in groups)
        if folder.name in ("ue", "nr-ue", "n3ue"):
            handlers -= of_links - {"measure-throughput", "measure-latency"}
        # Of these the declaration of a charm says whether it has them.
        handlers -= DECLARED - set(charms.load(tree, folder.name).actions)
        assert folder.name != "secgw" or "configure-gateway" in handlers
        assert set(actions) == handlers, folder.name


def test_parameters_of_a_network_function_can_all_stay_as_they_are(tree):
    for name in ("amf", "hss", "n3iwf", "spgwu", "upf", "ue"):
        action = charms.load(tree, name).actions.get(charms.KEPT)
        if action is None:
            continue
        assert "required" not in action
        for parameter in action["params"].values():
            validator = jsonschema.Draft4Validator(parameter)
            if parameter["type"] == "boolean":
                assert "default" not in parameter
            else:
                validator.validate(parameter["default"])
            if parameter["type"] == "integer":
                assert parameter["default"] == -1
                low = parameter.get("not", {"maximum": -1})["maximum"] + 1
                validator.validate(low)
                assert validator.is_valid(low - 1) == (low == 0)


def test_a_charm_without_experiments_is_smaller_and_has_none_of_their_actions(sources):
    declared_file = sources.root / "charms/vpn-endpoint/charm.yaml"
    sizes = {}
    for word in ("true", "false"):
        text = declared_file.read_text().replace("experiments: true\n", "")
        declared_file.write_text(f"{text}experiments: {word}\n")
        folder = sources.root / word
        charm = charms.declare(sources, "vpn-endpoint", folder)
        charms.libraries(sources, charm, folder)
        sizes[word] = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        asked = {step["name"] for step in parameters(charm, "config", {})}
        found = word != "false"
        assert (folder / "lib/experiments/vdu/watch.py").is_file() == found
        assert ("start-capture" in charm.actions) == found
        assert ("allow-experiments" in charm.config["options"]) == found
        assert ("allow-experiments" in asked) == found
        assert ("experiments.vdu" in (folder / "src/charm.py").read_text()) == found
    assert sizes["true"] - sizes["false"] > 40_000


def test_a_default_of_configure_is_stated_once(sources, monkeypatch):
    file = sources.common / "actions.yaml"
    before = "    keepalive:\n      default: -1\n"
    text = file.read_text(encoding="utf-8")
    assert text.count(before) == 1
    file.write_text(text.replace(before, before.replace("-1", "20")), encoding="utf-8")
    charm = charms.load(sources, "hss")
    # The action of the charm, the primitive in OSM, a pod, instantiation parameters, and the page.
    assert charm.actions["configure"]["params"]["keepalive"]["default"] == 20
    (step,) = (step for step in day_2(charm, "hss") if step["name"] == "configure")
    defaults = {p["name"]: p.get("default-value") for p in step["parameter"]}
    assert defaults["keepalive"] == "20"
    given = {"link": "s6a", "inner-address": "172.16.6.1/24"}
    assert Actions(charm.actions).parameters("configure", given)["keepalive"] == 20
    members = [
        member["additionalParams"]
        for document in parameter_files(sources).values()
        for member in document.get("additionalParamsForVnf", ())
    ]
    assert {values.get("vpn_keepalive", 20) for values in members} == {20}
    assert sum("vpn_keepalive" in values for values in members) > 50
    monkeypatch.setattr(pages.Tree, "find", lambda: sources)
    table = pages.action("common/actions.yaml", "configure")
    assert re.search(r"^\| `keepalive` \|[^|]*\| `?20`? \|", table, re.MULTILINE)
