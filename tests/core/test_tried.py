"""Versions of the VDU's programs that nobody has tried."""

import json
import re
from pathlib import Path

import pytest
from agent_support import execute
from vpnaas.vdu import tried
from vpnaas.vdu.steps import Results

from builder import documents

ROOT = Path(__file__).resolve().parents[2]


def seen(packages: str, system: str = "Ubuntu 22.04.5 LTS") -> tuple[str, ...]:
    return tried.untried(
        Results(
            {
                "facts/packages": {"code": 1, "out": packages},  # 1: some are not installed
                "facts/system": {"code": 0, "out": system},
            }
        )
    )


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ("strongswan-swanctl 6.3.0-1", "strongSwan 6.3.0 of Ubuntu 22.04.5 LTS was never tried; "),
        ("openssh-server 1:11.0p2-1", "OpenSSH 11.0p2 of "),
        ("iproute2 4.15.0-2ubuntu1", "iproute2 4.15.0 of "),
        ("systemd 241-7~deb10u8", "systemd 241 of "),
    ],
)
def test_a_version_outside_the_range_is_named(row: str, sentence: str) -> None:
    (found,) = seen(f"nftables 1.0.6-2\n{row}\n")
    assert found.startswith(sentence)


@pytest.mark.parametrize("end", [1, 2])
def test_both_ends_of_a_range_are_inside(end: int) -> None:
    table = json.loads(Path(tried.__file__).with_suffix(".json").read_text(encoding="utf-8"))
    assert seen("".join(f"{name} 3:{row[end]}+ds-1~u\n" for name, row in table.items())) == ()


def test_what_is_not_installed_and_what_is_not_ours_is_not_judged() -> None:
    assert seen("podman \nnftables 1.0.6\nbash 99.0\nthree words here\n") == ()


def test_a_system_without_dpkg_is_named() -> None:
    assert seen("", "Fedora Linux 42\x1b[1m") == (
        "Fedora Linux 42[1m: it tells no versions (no dpkg), so it was never tried",
    )


def test_this_machine_is_seen_by_the_agent() -> None:
    results = execute(*tried.look())
    named = re.search('^PRETTY_NAME="?([^"\n]*)', Path("/etc/os-release").read_text(), re.M)
    assert named is not None
    assert results.output("facts/system").strip() == named.group(1)
    if Path("/usr/bin/dpkg-query").exists():
        assert re.search("^python3 3", results.output("facts/packages"), re.M)


def test_the_page_has_the_same_range() -> None:
    page = documents.read(ROOT / "docs/reference/data/vdu-systems.yaml")
    head, *rows = page["programs"]
    ours = [i for i, name in enumerate(head) if name in page["tried"]]
    table = json.loads(Path(tried.__file__).with_suffix(".json").read_text(encoding="utf-8"))
    listed = {row[0]: [str(row[i]) for i in ours] for row in rows}
    for name, (_, oldest, newest) in table.items():
        columns = listed[name]
        first = next(column for column in columns if "not tried" not in column)
        assert first.startswith(oldest), name
        assert columns[-1].startswith(newest), name
