"""Every `openstack` line of the pages is one that OpenStack's client takes.

The client is no dependency of the project: its parser is asked where the machine has it.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from builder import documents
from operate.acceptance import reasons

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
#: Reads lines of words; prints those that the client does not take, and why.
ASK = """
import contextlib, io, json, sys, types
from openstackclient import shell
client = shell.OpenStackShell()
client.api_version = {}
client.client_manager = types.SimpleNamespace(is_network_endpoint_enabled=lambda: True)
manager = client.command_manager
for group in ("common", "compute.v2", "identity.v3", "image.v2", "network.v2", "volume.v3"):
    manager.add_command_group("openstack." + group)
for line in sys.stdin:
    words = json.loads(line)
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            factory, name, rest = manager.find_command(words)
            factory(client, None).get_parser(" ".join(words)).parse_args(rest)
    except (SystemExit, ValueError) as error:
        print(*words, "->", said.getvalue().strip().splitlines()[-1:] or error)
"""


def lines_of(text: str) -> set[tuple[str, ...]]:
    """Return the words of each call of the client in a page, without the client's name."""
    text = re.sub(r"\\\n\s*", " ", text)
    code = re.findall(r"^\s*```sh\n(.*?)```", text, re.M | re.S)
    code += re.findall(r"`(openstack [^`]+)`", text)
    calls = set()
    for part in code:
        # A call ends where the shell's next command begins.
        for call in re.findall(r"(?:^|[;&|(]|\bdo )\s*openstack ([^;&|#>)\n]*)", part, re.M):
            calls.add(tuple(shlex.split(call)))
    return calls


def calls() -> set[tuple[str, ...]]:
    pages = set().union(*(lines_of(path.read_text(encoding="utf-8")) for path in PAGES))
    causes = documents.read(Path(reasons.__file__).with_suffix(".yaml"))["causes"]
    return pages | set().union(*(lines_of(f"`{cause['command']}`") for cause in causes))


def test_calls_are_found_in_the_pages() -> None:
    text = "```sh\nif :; then\n  openstack port create p$n \\\n    --network n$n  # 1\nfi\n```\n"
    assert lines_of(text) == {("port", "create", "p$n", "--network", "n$n")}
    assert lines_of("Run `openstack quota show` twice.") == {("quota", "show")}
    assert len(calls()) > 25


def test_usage_of_quotas_is_asked_as_all_releases_know_it() -> None:
    """`quota show --usage` is newer than the client of Debian 12 and that of MicroStack."""
    assert [words for words in calls() if "--usage" in words] == []


def test_the_client_takes_each_line() -> None:
    client = shutil.which("openstack")
    if client is None:
        pytest.skip("this machine has no python3-openstackclient")
    python = Path(client).read_text(encoding="utf-8").splitlines()[0].removeprefix("#!").split()
    asked = "\n".join(json.dumps(words) for words in sorted(calls()))
    done = subprocess.run(
        [*python, "-c", ASK], input=asked, capture_output=True, text=True, check=False, timeout=300
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
