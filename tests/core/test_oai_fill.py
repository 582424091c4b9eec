"""The program that fills the databases of HSS and UDR."""

import json
import subprocess
import sys
from pathlib import Path

import oai
import pytest
from oai_support import params, rendered

PROGRAM = Path(oai.__file__).with_name("fill.py")
BASE = "/etc/osm-vpnaas/nf/"


@pytest.mark.parametrize(
    ("kind", "module", "rows", "probe"),
    [
        ("hss", "provision.py", "provision.json", "SELECT idmmeidentity"),
        ("amf", "provision_5g.py", "udr-provision.json", "SELECT ueid"),
    ],
)
def test_a_database_is_filled_once_for_each_content(
    kind: str, module: str, rows: str, probe: str, tmp_path: Path
) -> None:
    statements, engine, file = (tmp_path / name for name in ("taken", "engine", "rows.json"))
    engine.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/words\ncat > {statements}\n')
    engine.chmod(0o755)

    def fill(document: dict[str, object]) -> str:
        file.write_text(json.dumps(document))
        words = [str(engine), f"/usr/local/lib/{module}", str(file), str(tmp_path)]
        subprocess.run([sys.executable, "-B", str(PROGRAM), *words], check=True, timeout=60)
        return statements.read_text()

    document = json.loads(rendered(kind)[BASE + rows])
    first = fill(document)
    assert (tmp_path / "words").read_text().startswith("exec --interactive ")
    assert str(document["first_imsi"]) in first
    assert fill(document).startswith(probe)
    assert fill({**document, "subscribers": 3}) != first


def test_systemd_waits_until_the_most_subscribers_are_filled_in() -> None:
    unit = rendered("hss", params=params("hss", subscribers=100000))[
        "/etc/systemd/system/hss.service"
    ]
    seconds = int(unit.partition("TimeoutStartSec=")[2].split()[0])
    assert seconds > 100000 * 0.03, "what a subscriber takes in Cassandra"
