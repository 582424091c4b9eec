"""Forms of parameters: the validator and the charm take and refuse the same texts."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from oai import kinds, values
from oai.images import IMAGES
from vpnaas.base import fields
from vpnaas.base.declared import parameters_of
from vpnaas.base.errors import InputError, VpnaasError
from vpnaas.params.intent import link_params
from vpnaas.params.ipsec import OPTIONS
from vpnaas.params.qos import LinkQos

from builder import charms
from builder.tree import Tree
from builder.validate.forms import FORMS
from builder.validate.params_rules import _unfit
from builder.validate.primitive_rules import misfit
from experiments.vdu.orders import require_allowed

ROOT = Path(__file__).parents[3]
CASES = yaml.safe_load(Path(__file__).with_name("forms_cases.yaml").read_text())
NUMBERS = {
    "mtu": (["0", "1280", "9500"], ["1", "68", "1279", "9501"]),
    "resource-blocks": (["25", "50", "100"], ["26", "75"]),
    "allow-experiments": (["yes", "no"], ["nope", "Yes", "y"]),
}
LINK = {"link": "s6a", "technology": "ipsec", "inner-address": "10.9.0.1/24"}


def of_link(name):
    if name == "five-qi":
        parse = parameters_of(LinkQos)[name].metadata["parse"]
        return lambda text: parse(name, int(text))
    return lambda text: link_params({**LINK, name: int(text) if name == "mtu" else text})


def of_function(kind, name):
    """Return how a network function reads one parameter by itself."""
    if name in ("operator-key", "subscriber-key"):
        return lambda text: values.key(name, text) if text != "store" else text
    if name in ("mcc", "mnc"):
        other = {"mcc": "001", "mnc": "01"}
        return lambda text: values.plmn("", *{**other, name: text}.values())
    field = parameters_of(kinds.FUNCTIONS[kind].params)[name]
    number = name == "resource-blocks"
    return lambda text: field.metadata["parse"](name, int(text) if number else text)


def parameters():
    """Return (charm, parameter, schema, reader) of all parameters with a form."""
    tree = Tree(ROOT)
    for name in tree.charms():
        charm = charms.load(tree, name)
        kind = name if name in kinds.FUNCTIONS else name.replace("-", "_")
        for action in ("configure", "configure-nf"):
            for parameter, schema in charm.actions.get(action, {"params": {}})["params"].items():
                if "x-form" in schema and schema["x-form"][0] != "any":
                    links = action == "configure"
                    reader = of_link(parameter) if links else of_function(kind, parameter)
                    yield name, parameter, schema, reader
        options = {
            "allow-experiments": lambda text: text == "no" or require_allowed(text),
            "ssh-host-key-fingerprint": lambda text: fields.host_key_fingerprint("", text),
        }
        for option, reader in options.items():
            if option in charm.config["options"]:
                yield name, option, charm.config["options"][option], reader


SEEN = {}
for _charm, _name, _schema, _reader in parameters():
    # Most charms have the same parameters; a form of one parameter counts once.
    SEEN.setdefault((_name, str(_schema["x-form"])), (_charm, _schema, _reader))


@pytest.mark.parametrize("key", SEEN, ids=lambda key: key[0])
def test_the_validator_takes_what_the_charm_takes(key):
    charm, schema, reader = SEEN[key]
    form = schema["x-form"][0]
    assert form in FORMS
    good, bad = NUMBERS[key[0]] if form == "one-of" else CASES[form]
    kind = {"integer": "INTEGER"}.get(schema["type"], "STRING")
    for text in good:
        reader(text)
        assert misfit(text, kind, schema) == "", (charm, text)
    for text in filter(None, bad):
        with pytest.raises((InputError, VpnaasError)):
            reader(text)
        assert "allowed: " in misfit(text, kind, schema), (charm, text)


@pytest.mark.parametrize("key", SEEN, ids=lambda key: key[0])
def test_an_empty_text_is_taken_where_the_charm_takes_it(key):
    _, schema, reader = SEEN[key]
    try:
        reader("")
    except (VpnaasError, ValueError):
        taken = False
    else:
        taken = True
    assert (misfit("", schema["type"].upper(), schema) == "") is taken


def test_words_are_those_of_the_charm():
    assert FORMS["ipsec-options"]["options"].keys() == OPTIONS.keys()
    names = FORMS["pins"]["pattern"].partition(")")[0].strip("(").split("|")
    assert names == [*IMAGES]


def test_a_wrong_key_is_not_shown():
    schema = charms.load(Tree(ROOT), "hss").actions["configure-nf"]["params"]["operator-key"]
    action = SimpleNamespace(params={"operator-key": schema})
    charm = SimpleNamespace(actions={"configure-nf": action}, config=None)
    primitive = {"name": "configure-nf"}
    reason = _unfit("nf_operator_key", "5ecret", {"name": "operator-key"}, primitive, charm)
    assert reason == (
        "the value does not fit the action; allowed: 32 hexadecimal digits, store, keep"
    )
