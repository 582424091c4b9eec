"""What starts once for each operation or verb must start fast."""

import json
import subprocess
import sys

import pytest

SLOW = {"cryptography", "jinja2", "jsonschema", "fastapi", "nicegui"}
"""Libraries that few operations need; together they load longer than all others."""


@pytest.mark.parametrize("module", ["lab.lcm.worker", "lab.lcm.keeper", "lab.cli.commands"])
def test_a_process_of_the_lab_loads_no_library_that_few_need(module: str) -> None:
    """Every verb and every operation is a process of its own."""
    code = f"import json, sys, {module}; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(subprocess.check_output([sys.executable, "-c", code], text=True))
    assert module in loaded
    assert SLOW & set(loaded) == set()
