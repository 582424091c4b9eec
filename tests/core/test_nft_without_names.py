"""Tables load on an image without /etc/protocols and /etc/services (Debian's netbase)."""

from __future__ import annotations

import subprocess

import pytest
from nft_support import URLLC, gateway, plan, share
from vpnaas.features import guard, qos
from vpnaas.features.gateway import gateway_firewall
from vpnaas.features.pair import standby

TABLES = {
    "guard": guard.render(
        [guard.guarded(plan(link), "ens3") for link in ("s6a", "s1c", "vpn-server")]
    ),
    "gateway": gateway_firewall.render(
        gateway_firewall.GatewayFirewall(("out0",), "mgmt0", wireguard=(51820,))
    ),
    "standby": standby.firewall(gateway()),
    "qos": qos.render([share(URLLC, "ipsec")])[qos.NFT_FILE],
}


@pytest.mark.lab
@pytest.mark.parametrize("name", TABLES)
def test_nft_takes_it(name: str) -> None:
    script = "for f in protocols services; do mount --bind /dev/null /etc/$f || exit 9; done; "
    script += "nft -c -f -"
    done = subprocess.run(
        ["unshare", "--mount", "--net", "sh", "-c", script],
        input=TABLES[name],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
