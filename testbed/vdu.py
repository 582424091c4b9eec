"""The state of a VDU that the charm library needs to render connections, without a VDU."""

import subprocess
from pathlib import Path

from vpnaas.base import x509
from vpnaas.tunnels.ipsec.names import DOWN
from vpnaas.tunnels.ipsec.observed import GENERATE, State


def key_pair(path: Path) -> str:
    """Create an Ed25519 private key in a file; return the public key in the form of an offer."""
    subprocess.run([*GENERATE["ed25519"], "-out", str(path)], check=True)
    words = ("openssl", "pkey", "-in", str(path), "-pubout")
    return x509.body(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def state(link: str, public_key: str, identity: str, plane: str) -> State:
    """Return the state of a VDU whose daemon runs and has no connection."""
    return State(
        public_key=public_key,
        next_public_key="",
        generation=1,
        applied=(),
        identity=identity,
        plane=plane,
        running=True,
        daemon_plane=True,
        enabled=True,
        files={DOWN.format(link): None},
        loaded=frozenset(),
        sas=(),
        interface=None,
        routes=frozenset(),
    )
