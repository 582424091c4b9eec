"""Files of somebody else in /etc/swanctl/conf.d: charon, started by the commands of its unit."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.swanctl import tunnel
from vpnaas.tunnels.ipsec.daemon import dropin
from vpnaas.tunnels.ipsec.names import PROGRAM_FILE, XFRM
from vpnaas.vdu.programs import source

pytestmark = [pytest.mark.lab]

OURS, SECRET, POOL = "s6a_rel-1_00000000_11111111", "ike-s6a-rel-1", "osm-vpnaas-s6a-1"
MORE = f"""pools {{
  {POOL} {{
    addrs = 10.9.1.0/24
  }}
}}
secrets {{
  {SECRET} {{
    id-0 = @near
    id-1 = @far
    include /etc/swanctl/osm-vpnaas-s6a-rel-1.secret
  }}
}}
"""
FOREIGN = {
    "none": "",
    "cut": "connections {\n  office {\n",
    "no syntax": "connections }\n",
    "no certificate": "connections {\n office {\n remote {\n certs = x.pem\n }\n }\n}\n",
}
START = """set -e
mount --make-rprivate /
mount -t tmpfs run /run
mount --bind {0} /etc/swanctl
/usr/sbin/charon-systemd >&2 &
trap "kill $!; wait" EXIT
for _ in $(seq 100); do [ ! -S /run/charon.vici ] || break; sleep 0.1; done
"""
ASK = """
import json, runpy, sys
daemon = runpy.run_path(sys.argv[1], run_name="x")["Daemon"]()
asked = [daemon.ask("get-conns")["conns"], daemon.ask("get-shared")["keys"]]
daemon.tell(0, "get-pools")
print(json.dumps([*asked, daemon.packet().decode("latin-1")]))
"""


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_broken_file_of_somebody_else_takes_no_connection_of_ours(
    tmp_path: Path, kind: str
) -> None:
    folder, program = tmp_path / "swanctl", tmp_path / "ipsec"
    for part in ("conf.d", "private", "x509", "x509ca", "pubkey"):
        (folder / part).mkdir(parents=True)
    program.write_text(source("ipsec.py"))
    program.chmod(0o755)
    (folder / "swanctl.conf").write_text("include conf.d/*.conf\n")
    ends = ({"auth": "psk", "id": "@near"}, {"auth": "psk", "id": "@far"})
    text = tunnel(OURS, *ends, {"remote_ts": "10.9.0.1/32"}, remote_addrs="127.0.0.2")
    (folder / "conf.d/osm-vpnaas-s6a.conf").write_text(text + MORE)
    (folder / "osm-vpnaas-s6a-rel-1.secret").write_text(f"secret = 0s{'A' * 43}=\n")
    (folder / "conf.d/zz-foreign.conf").write_text(FOREIGN[kind])
    unit = Path("/lib/systemd/system/strongswan.service").read_text()
    unit += dropin(SimpleNamespace(), XFRM).replace(PROGRAM_FILE, str(program))
    posts = re.findall("^ExecStartPost=(.*)$", unit, re.M)
    posts = posts[posts.index("") + 1 :] if "" in posts else posts
    commands = [post.lstrip("-") + " >&2" + " || true" * post.startswith("-") for post in posts]
    ask = f"{sys.executable} -c '{ASK}' {program}"
    # Then what the charm does for another link, or to switch it off.
    later = ["swanctl --load-creds --noprompt >&2", "swanctl --load-conns >&2 || true"]
    later.append(f"{sys.executable} {program} load")
    script = START.format(folder) + "\n".join([*commands, ask, *later, ask])
    words = ["unshare", "--mount", "--net", "bash", "-c", script]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == 2
    for connections, secrets, pools in answers:
        assert (OURS in connections, SECRET in secrets, POOL in pools) == (True,) * 3, done.stderr
