"""The container engine of VDUs: the simulators of the EPC's images, or the machine's own engine.

An offline machine has no images, so by default a VDU's ``podman`` knows simulators of them (see
``simulators``). With ``OSMLAB_ENGINE=machine`` a VDU shows the engine that the machine has, which
pulls images or finds them in a store.
"""

import compileall
import functools
import importlib.util
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from lab.errors import VimError

VARIABLE = "OSMLAB_ENGINE"
SIMULATORS, MACHINE = "simulators", "machine"

#: Packages of an engine, which a VDU with simulators does not need.
PACKAGES = frozenset({"podman"})

BASE = Path("usr/lib/osm-lab")  # Where a VDU finds the simulators and their files.
#: VDUs see the machine's /usr. The libraries in binary form are for one version of Python.
_PYTHON = Path(f"/usr/bin/python{sys.version_info[0]}.{sys.version_info[1]}")
_PROGRAM = """#!{python} -IB
import sys
sys.path[:0] = ["/usr/lib/osm-lab/python", "/usr/lib/osm-lab/site-packages"]
from simulators.{module} import main
sys.exit(main(sys.argv[1:]))
"""


@dataclass(frozen=True)
class Simulators:
    """Programs and directories of the simulators in a VDU."""

    files: dict[str, str]  # programs by path in the VDU.
    binds: dict[str, Path]  # directories of the machine by path in the VDU, shown read-only.


def _compile() -> None:
    """Keep the bytecode of the large codecs: a VDU cannot write it, and would need seconds anew."""
    for name in ("NGAP", "S1AP"):
        spec = importlib.util.find_spec(f"pycrate_asn1dir.{name}")
        if spec is not None and spec.origin is not None:
            compileall.compile_file(spec.origin, quiet=2)  # Nothing where it is up to date.


@functools.cache
def simulators() -> Simulators | None:
    """The simulators, or None if VDUs use the machine's own engine."""
    program = os.environ.get(VARIABLE, SIMULATORS)
    if program == MACHINE:
        return None
    if program != SIMULATORS:
        raise VimError(f"{VARIABLE} is '{program}': '{SIMULATORS}' and '{MACHINE}' are allowed.")
    spec = importlib.util.find_spec("diameter")
    if spec is None or spec.origin is None:
        raise VimError("The simulators' libraries are not installed: run ./run setup.")
    if not _PYTHON.exists():
        raise VimError(
            f"{_PYTHON} is missing: the simulators need the version of Python that the lab runs "
            f"on. {VARIABLE}={MACHINE} does without them."
        )
    _compile()
    return Simulators(
        {
            "usr/bin/podman": _PROGRAM.format(python=_PYTHON, module="engine.podman"),
            str(BASE / "launch"): _PROGRAM.format(python=_PYTHON, module="programs.__main__"),
        },
        {
            str(BASE / "python/simulators"): Path(__file__).resolve().parents[2] / "simulators",
            str(BASE / "site-packages"): Path(spec.origin).resolve().parents[1],
        },
    )
