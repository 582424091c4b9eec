"""Cloud-init files with blocks, and variables that may be missing."""

import time

import pytest
from validate_support import PARAMS, Draft, catalog, ns, vnf

from builder.validate import Catalog, validate_package, validate_params
from builder.validate.cloudinit_rules import HEADERS, TEMPLATE


def with_text(text: str) -> Draft:
    made = vnf()
    made.files["cloud_init/init.yaml"].text = f"#cloud-config\n{text}\n"
    return made


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{% if OSM.vdu_id == 'vm' %}password: secret{% endif %}", "cloud-init-password"),
        (
            "{% if OSM.vdu_id == 'vm' %}a: 1{% else %}password: secret{% endif %}",
            "cloud-init-password",
        ),
        ("{% if OSM.vdu_id == 'vm' %}a: 1{% else %}a: [1{% endif %}", "cloud-init-yaml"),
        ("a:\n{% for name in OSM.vdu %}- [1\n{% endfor %}", "cloud-init-yaml"),
        ("{% if OSM.vdu_id == 'vm' %}a: 1{% else %}b: 2{% endif %}", None),
        ("a:\n{% for name in OSM.vdu %}- 1\n{% endfor %}", None),
    ],
)
def test_blocks_are_read_both_ways(text, code, tmp_path):
    problems = validate_package(with_text(text).tar(tmp_path / "x.tar.gz"), catalog())
    assert [p.code for p in problems] == ([code] if code else [])


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("{{ a | safe }}", ["a"]),
        ("{{ a | default('x') }}", []),
        ("{% if a is defined %}{{ a }}{% endif %}", []),
        ("{{ a if a is defined else b }}", ["b"]),
        ("{% if a is defined and b %}{{ a }}{% endif %}", ["b"]),
        ("{% set a = 1 %}{{ a }}", []),
        ("{% for a in b %}{{ a }}{% endfor %}", ["b"]),
    ],
)
def test_variables_that_cloud_init_cannot_do_without(text, needed):
    known = Catalog()
    known.add(with_text(f"hostname: x{text}").package())
    known.add(ns().package())
    problems = validate_params("ns", PARAMS, known)
    assert [p.code for p in problems] == ["params-cloud-init"] * len(needed) * 2
    assert all(f"{name!r}" in p.sentence for p in problems for name in needed)


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("a: 1 {# gone #}", "cloud-init-comment", "disappears"),
        ("a: {{ 'x' | b64encode }}", "cloud-init-jinja", "no filter 'b64encode'"),
        ("a: {{ name | nosuch | safe }}", "cloud-init-jinja", "no filter 'nosuch'"),
        ("{% filter nosuch %}a: 1{% endfilter %}", "cloud-init-jinja", "no filter 'nosuch'"),
        ("{% if OSM.vdu is nosuch %}{% endif %}a: 1", "cloud-init-jinja", "no test 'nosuch'"),
        ("{% include 'x' %}", "cloud-init-jinja", "another file"),
        ("{% import 'x' as y %}", "cloud-init-jinja", "another file"),
        ("{% from 'x' import y %}", "cloud-init-jinja", "another file"),
        ("{% extends 'x' %}", "cloud-init-jinja", "another file"),
        ("a: {{ x" + ".a" * 1200 + "|safe }}", "cloud-init-jinja", "nested too deeply"),
    ],
)
def test_what_jinja2_reads_and_cannot_render(text, code, words, tmp_path):
    (problem,) = validate_package(with_text(text).tar(tmp_path / "x.tar.gz"), catalog())
    assert (problem.code, words in problem.sentence) == (code, True), problem


@pytest.mark.parametrize(
    "text",
    [
        "#cloud-config\na: {% raw %}echo '{# fine #}' ${#a} ${#b#x}{% endraw %}\n",
        "#cloud-config-archive\n- {type: text/cloud-config, content: x}\n",
        "## template: jinja\n#cloud-config\na: {% raw %}{{ v1.region }}{% endraw %}\n",
        "## template: jinja\n#cloud-config\na: {{ name | safe }}\n",
        "## Template: Jinja\n#!/bin/sh\n",
    ],
)
def test_texts_that_cloud_init_takes(text, tmp_path):
    made = vnf()
    made.files["cloud_init/init.yaml"].text = text
    assert validate_package(made.tar(tmp_path / "x.tar.gz"), catalog()) == []


@pytest.mark.parametrize(
    ("text", "codes", "words"),
    [
        ("#cloud-config\na: {{ v1.region | safe }}", ["cloud-init-jinja"], "only cloud-init knows"),
        ("#include\nhttps://a.example/", ["cloud-init-header"], "allowed: #cloud-config, #!"),
        ("#cloud-config\n- a", ["cloud-init-yaml"], "a mapping"),
        (
            "#cloud-config\na: {% raw %}{% if %}{% endraw %}",
            ["cloud-init-jinja"],
            "cloud-init cannot render what RO leaves",
        ),
        (
            "#cloud-config\n{% raw %}{% if v1.region %}password: a{% endif %}{% endraw %}",
            ["cloud-init-password"],
            "a password in clear",
        ),
    ],
)
def test_a_template_of_cloud_init_is_read_as_ro_and_cloud_init_render_it(
    text, codes, words, tmp_path
):
    made = vnf()
    made.files["cloud_init/init.yaml"].text = f"## template: jinja\n{text}\n"
    problems = validate_package(made.tar(tmp_path / "x.tar.gz"), catalog())
    assert [p.code for p in problems] == codes, problems
    assert words in problems[0].sentence


def test_a_long_row_of_comment_marks_takes_no_time(tmp_path):
    text = "a: |\n {% raw %}" + "{#" * 100_000 + "{% endraw %}"
    made = with_text(text).tar(tmp_path / "x.tar.gz")
    begin = time.process_time()
    assert validate_package(made, catalog()) == []
    assert time.process_time() - begin < 20


def test_an_unknown_first_line_names_the_formats(tmp_path):
    made = vnf()
    made.files["cloud_init/init.yaml"].text = "hello\n"
    (problem,) = validate_package(made.tar(tmp_path / "x.tar.gz"), catalog())
    assert problem.sentence.endswith("allowed: " + ", ".join((*HEADERS, TEMPLATE)))
