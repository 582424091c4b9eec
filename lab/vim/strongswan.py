"""strongSwan of this machine on a link, as a peer that `add-peer` knows."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from string import Template

from lab.vim.dataplane import probe
from lab.vim.run import start

PROGRAM = shutil.which("charon-systemd", path="/usr/sbin:/sbin")
PLUGINS = (
    "random nonce aesni openssl kdf hmac sha1 sha2 curve25519 kernel-netlink pem pkcs1 pkcs8 "
    "pubkey x509 revocation constraints socket-default vici updown counters"
)
CONFIGURATION = Template(Path(__file__).with_suffix(".conf").read_text(encoding="utf-8"))


def plugins(kernel: bool) -> str:
    """Return the plugins of charon; one carries ESP where the kernel has none."""
    return PLUGINS if kernel else f"kernel-libipsec {PLUGINS}"


@contextmanager
def strongswan(words: Sequence[str]) -> Iterator[dict[str, str]]:
    """Run an IKE daemon while the block runs; yield the variables by which swanctl finds it.

    ``words`` before a command run it on the link. The variables are none where this machine has no
    strongSwan. SWANCTL_DIR is the place of what is /etc/swanctl elsewhere; it is gone after the
    block.
    """
    if PROGRAM is None:
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="osm-vpnaas-") as name:
        folder = Path(name)
        for place in ("conf.d", "private", "pubkey", "x509", "x509ca"):
            (folder / "swanctl" / place).mkdir(parents=True)
        (folder / "swanctl/swanctl.conf").write_text("include conf.d/*.conf\n", encoding="utf-8")
        file = folder / "strongswan.conf"
        text = CONFIGURATION.substitute(folder=folder, plugins=plugins(probe().esp))
        file.write_text(text, encoding="utf-8")
        variables = {"STRONGSWAN_CONF": str(file), "SWANCTL_DIR": str(folder / "swanctl")}
        process = start(
            [*words, PROGRAM],
            folder / "log",
            lambda _: (folder / "vici").exists(),
            "strongSwan did not start on this link",
            {**os.environ, **variables},
        )
        try:
            yield variables
        finally:
            process.terminate()
            process.wait()
