"""Cloud-init files with blocks, and variables that may be missing."""

import pytest
from validate_support import PARAMS, Draft, catalog, ns, vnf

from builder.validate import Catalog, validate_package, validate_params


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
