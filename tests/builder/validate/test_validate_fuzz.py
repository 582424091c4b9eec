"""Whatever the input, the validator answers with problems and never with an exception."""

import copy
import math
import string
import tempfile
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.validating import validate_package
from validate_support import ENTRY, GOOD, PARAMS, File, catalog

from builder.validate import Catalog, Problem, validate_params

pytestmark = pytest.mark.slow

KEYS = sorted(
    {
        key
        for draft in GOOD.values()
        for key in yaml.safe_dump(draft().document).replace("- ", "").split()
        if key.endswith(":")
    }
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([0, -1, 10**30, 2**64, math.nan, math.inf, -0.0, "", "<", "<>", "<x>", "{{"]),
    st.floats(),
    st.text(max_size=8),
    st.dates(),
    st.datetimes(),
    st.binary(max_size=4),
)
NAMES = st.one_of(
    st.sampled_from([key[:-1] for key in KEYS]),
    st.text(string.ascii_lowercase, min_size=1, max_size=4),
    st.integers(),
    st.booleans(),
    st.none(),
    st.dates(),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(NAMES, inner, max_size=4)),
    max_leaves=12,
)
SETTINGS = settings(max_examples=60, suppress_health_check=list(HealthCheck), derandomize=True)
KNOWN = catalog()


def places(node, path=()):
    found = [path]
    if isinstance(node, dict):
        found += [place for key, item in node.items() for place in places(item, (*path, key))]
    elif isinstance(node, list):
        found += [place for i, item in enumerate(node) for place in places(item, (*path, i))]
    return found


def mutate(data, document):
    """Change a document at some of its places: replace, delete, add, double or swap."""
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(places(document)))
        if not path:
            continue
        holder = document
        for part in path[:-1]:
            holder = holder[part]
        how = data.draw(st.sampled_from(["replace", "delete", "add", "double", "other"]))
        if how == "replace":
            holder[path[-1]] = data.draw(VALUES)
        elif how == "delete":
            del holder[path[-1]]
        elif how == "add" and isinstance(holder, dict):
            holder[data.draw(NAMES)] = data.draw(VALUES)
        elif how == "double" and isinstance(holder, list):
            holder.append(copy.deepcopy(holder[path[-1]]))
        elif how == "other":
            node = document
            for part in data.draw(st.sampled_from(places(document))):
                node = node[part]
            holder[path[-1]] = copy.deepcopy(node)
    return document


def good_answer(found):
    assert isinstance(found, list)
    for problem in found:
        assert isinstance(problem, Problem)
        assert problem.path
        assert problem.sentence
        assert "\n" not in problem.sentence
        assert len(problem.sentence) < 5000
    assert found == sorted(set(found))


def validate(draft):
    with tempfile.TemporaryDirectory() as folder:
        good_answer(validate_package(draft.tar(Path(folder, "x.tar.gz")), KNOWN))


@SETTINGS
@given(st.data(), st.sampled_from(sorted(GOOD)))
def test_a_changed_descriptor(data, name):
    draft = GOOD[name]()
    draft.document = mutate(data, draft.document)
    validate(draft)


@SETTINGS
@given(st.data(), st.sampled_from(["metadata.yaml", "actions.yaml", "config.yaml"]))
def test_a_changed_charm(data, file):
    draft = GOOD["vnf"]()
    entry = draft.files[f"charms/gate/{file}"]
    entry.text = yaml.safe_dump(mutate(data, yaml.safe_load(entry.text)))
    validate(draft)


@SETTINGS
@given(st.data())
def test_changed_parameters(data):
    document = mutate(data, copy.deepcopy(PARAMS))
    good_answer(validate_params("ns", document, KNOWN))


@SETTINGS
@given(VALUES, st.sampled_from(["ns", "nsi"]))
def test_any_parameters(document, kind):
    good_answer(validate_params(kind, document, KNOWN))


@SETTINGS
@given(VALUES, st.sampled_from(["vnfd", "nsd", "nst", "x"]))
def test_any_document(inner, key):
    draft = GOOD["ns"]()
    draft.document = {key: inner}
    validate(draft)


@SETTINGS
@given(st.data())
def test_any_catalogue(data):
    vnfds = {"gate_vnf": mutate(data, copy.deepcopy(KNOWN.vnfds["gate_vnf"]))}
    nsds = {"gate_ns": mutate(data, copy.deepcopy(KNOWN.nsds["gate_ns"]))}
    known = Catalog(vnfds=vnfds, nsds=nsds)
    good_answer(validate_params("ns", copy.deepcopy(PARAMS), known))


@SETTINGS
@given(st.text(max_size=60))
def test_any_text_as_descriptor(text):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.yaml")
        path.write_text(text, encoding="utf-8", errors="surrogatepass")
        good_answer(validate_package(path, KNOWN))


HUGE = "0x" + "F" * 4000
"""An integer that Python reads and does not print."""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("vnfd:\n", f"? {HUGE}\n: 1\nvnfd:\n"),
        ("\n  id: gate_vnf\n", f"\n  id: gate_vnf\n  ? {HUGE}\n  : 1\n"),
        ("value: left", f"value: {HUGE}"),
    ],
)
def test_a_huge_integer_is_refused(old, new, tmp_path):
    text = yaml.safe_dump(GOOD["vnf"]().document)
    assert old in text
    path = tmp_path / "x.yaml"
    path.write_text(text.replace(old, new))
    (problem,) = validate_package(path, KNOWN)
    assert (problem.code, "more than 1000 digits" in problem.sentence) == ("descriptor-yaml", True)
    (problem,) = validate_params("ns", {"config-units": int(HUGE, 16)}, KNOWN)
    assert problem.code == "params-form"


def test_a_value_that_cannot_be_divided(tmp_path):
    draft = GOOD["vnf"]()
    draft.charm("actions.yaml", "port: {type: integer,", "port: {type: integer, multipleOf: 0.5,")
    where = f"{ENTRY}/0/config-primitive/1/parameter/1/default-value"
    draft.put(where, "9" * 400)
    draft.charm("actions.yaml", "maximum: 65535", "minLength: 1")
    (problem,) = validate_package(draft.tar(tmp_path / "x.tar.gz"), KNOWN)
    assert (problem.code, "is too large" in problem.sentence) == ("action-value", True)


def test_a_pattern_of_a_charm_is_not_run(tmp_path):
    draft = GOOD["vnf"]()
    draft.charm("actions.yaml", "enum: [left, right]", "pattern: '^(a+)+$'")
    draft.put(f"{ENTRY}/0/initial-config-primitive/1/parameter/0/value", "a" * 60 + "!")
    assert validate_package(draft.tar(tmp_path / "x.tar.gz"), KNOWN) == []


PIECES = (
    "#cloud-config #! {{ }} {% %} {# #} name OSM . [' '] |safe | if for in raw endraw a: - & * ["
)
CLOUD = st.lists(st.sampled_from([*PIECES.split(), " ", "\n"]), max_size=14)


@SETTINGS
@given(CLOUD)
def test_any_cloud_init(parts):
    draft = GOOD["vnf"]()
    draft.files["cloud_init/init.yaml"] = File("".join(parts))
    validate(draft)


@SETTINGS
@given(st.binary(max_size=300), st.sampled_from([".tar.gz", ".zip", ".yaml", ".tgz", ""]))
def test_any_bytes(data, ending):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"x{ending}")
        path.write_bytes(data)
        good_answer(validate_package(path, KNOWN))
