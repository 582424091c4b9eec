"""A cell's preshared key out of OpenBao.

The gateway's VDU fetches it, and no record has it.

Cast: server (`vpn_basic_ns`); store, OpenBao on the management network;
    field cell, a VDU set up by hand.

Seen:
- the cell proves itself by the key of the store;
- neither records nor answers nor logs contain the key.
"""

import base64
import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from e2e_basic import SERVER, configure_both
from e2e_support import (
    BASIC,
    ActionError,
    Lab,
    Service,
    Vdu,
    Vnf,
    associations,
    gone,
    outsider,
    scan,
)
from e2e_wire import captured
from support import openbao
from support.filters import NEIGHBOURS
from support.openbao import Bao
from support.swanctl import section, tunnel

from lab.vim.account import vca_prefix

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(1500)]

INNER, OUTER, GATEWAY = "10.77.0.50", "192.168.100.50", "192.168.100.11"
CONF = "charon {\n  plugins {\n    kernel-libipsec {\n      load = 100\n    }\n  }\n}\n"


class Cell:
    """The cell, with whatever key it is told."""

    def __init__(self, vdu: Vdu, identity: str) -> None:
        self.vdu = vdu
        file = {"include": "/etc/swanctl/gateway.secret"}
        ids = {"id-0": "@cell", "id-1": f"@{identity}"}
        text = tunnel(
            "gateway",
            {"auth": "psk", "id": "@cell"},
            {"auth": "psk", "id": f"@{identity}"},
            {"local_ts": f"{INNER}/32", "remote_ts": f"{SERVER}/32"},
            local_addrs=OUTER,
            remote_addrs=GATEWAY,
        ) + section("secrets", {"ike-gateway": {**ids, **file}})
        vdu.run("tee", "/etc/swanctl/conf.d/gateway.conf", input=text)
        vdu.run("tee", "/etc/strongswan.d/00-cell.conf", input=CONF)
        vdu.out("ip", "address", "add", f"{INNER}/32", "dev", "lo")

    def connects(self, key: str) -> bool:
        """Call the gateway with a key; tell whether packets pass."""
        self.vdu.run("tee", "/etc/swanctl/gateway.secret", input=f"secret = 0s{key}\n")
        self.vdu.out("systemctl", "restart", "strongswan")
        called = self.vdu.run("swanctl", "--initiate", "--child", "gateway", "--timeout", "20")
        return called.returncode == 0 and self.vdu.pings(SERVER, "-I", INNER)


def key() -> str:
    """Return a preshared key, which no record may hold."""
    return base64.b64encode(secrets.token_bytes(32)).decode()


@pytest.fixture(scope="module")
def service(lab: Lab) -> Iterator[Service]:
    lab.onboard(*BASIC)
    service = lab.create("stored", "vpn_basic_ns", "vpn_basic_ipsec")
    configure_both(service, technology="ipsec", credentials="psk")
    yield service
    gone(service)


@pytest.fixture(scope="module")
def server(service: Service) -> Vnf:
    return service["server"]


@pytest.fixture(scope="module")
def stores(
    lab: Lab, service: Service, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Bao, ExitStack]]:
    """OpenBao, and what ends it."""
    gateway = service.vim.management_network().gateway
    with ExitStack() as running:
        folder = tmp_path_factory.mktemp("bao")
        prefix = vca_prefix(lab.home)
        bao = running.enter_context(openbao.running(folder, f"{gateway}:8200", prefix))
        yield bao, running


@pytest.fixture(scope="module")
def cell(service: Service, server: Vnf) -> Iterator[Cell]:
    with outsider(service, "data", OUTER) as vdu:
        yield Cell(vdu, str(server.status("vpn-server")["ike-identity"]))


def reference(bao: Bao, **changes: str) -> dict[str, str]:
    given = {"store": bao.url, "ca_certificate": bao.root, "path": "secret/core/cell", **changes}
    return {"token": bao.token(), **given}


def test_a_cell_proves_itself_by_a_key_of_the_store(
    service: Service, server: Vnf, cell: Cell, stores: tuple[Bao, ExitStack], tmp_path: Path
) -> None:
    bao, running = stores
    first, second = key(), key()
    for one in (first, second):
        service.lab.secrets.add(one, "the store")
    bao.put("core/cell", **{"preshared-key": first})
    added = server.action(
        "add-peer", link="vpn-server", name="cell", public_key="store",
        allowed_prefixes=f"{INNER}/32",
    )  # fmt: skip
    assert added["added"] == "cell"
    assert not cell.connects(first)
    assert "see fetch-preshared-key" in str(server.status("vpn-server"))
    used = reference(bao)
    server.action("fetch-preshared-key", link="vpn-server", name="cell", **used)
    assert not cell.connects(second)
    with captured(service, "data", tmp_path / "data.pcap") as capture:
        assert cell.connects(first)
    mine = f"host {OUTER} and not {NEIGHBOURS}"
    assert capture.count(f"{mine} and udp port 4500") >= 6
    assert capture.count(f"{mine} and not udp port 4500") == 0

    # What is wrong is told, and nothing changes.
    before = associations(server)
    for changes, sentence in (
        ({"token": used["token"]}, "ALARM: the store does not know the wrapping token"),
        ({"path": "secret/core/nobody"}, "the store has nothing at secret/core/nobody"),
        ({"path": "secret/ran/cell"}, "the token may not read secret/ran/cell"),
        ({"ca_certificate": bao.other_root}, "the store's certificate is not trusted"),
    ):
        given = reference(bao, **changes)
        with pytest.raises(ActionError, match=sentence):
            server.action("fetch-preshared-key", link="vpn-server", name="cell", **given)
    bao.put("core/wrong", **{"preshared-key": "short", "other": "x"})
    given = reference(bao, path="secret/core/wrong")
    with pytest.raises(ActionError, match="core/wrong: preshared-key is not base64 of 32 bytes"):
        server.action("fetch-preshared-key", link="vpn-server", name="cell", **given)
    assert "is not base64 of 32 bytes" in str(server.status("vpn-server")["reason"])
    assert associations(server) == before
    assert cell.vdu.pings(SERVER, "-I", INNER)

    # Another version of the secret is another key.
    bao.put("core/cell", **{"preshared-key": second})
    server.action("fetch-preshared-key", link="vpn-server", name="cell", **reference(bao))
    assert not cell.connects(first)
    assert cell.connects(second)
    assert "secret store" not in str(server.status("vpn-server")["reason"])

    # A store that is down.
    given = reference(bao)
    running.close()
    with pytest.raises(ActionError, match="the store does not answer"):
        server.action("fetch-preshared-key", link="vpn-server", name="cell", **given)
    with service.controller() as controlled:
        controlled.update_status()
        workload, text = controlled.status("server")
    assert workload == "active"
    assert "cell: the last fetch from the secret store failed, the earlier secrets stay" in text
    assert cell.vdu.pings(SERVER, "-I", INNER)
    assert scan(service.lab, {first: "first", second: "second"}) == []
