"""The packages built once, one lab of services that tests share, one for what is torn down."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e_core import with_core
from e2e_labs import open_lab, open_machines
from e2e_standby import whole
from e2e_support import (
    ACCESS_5G,
    BASIC,
    CORE_5G,
    EPC,
    EPC_SECGW,
    SECGW,
    SHARED_HSS,
    SITEGW,
    SLICES,
    SMALL_CELL,
    Lab,
    Secrets,
    Service,
    Vnf,
    gone,
)
from support.dist import built

from lab.records.store import NSRS


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    core = [*CORE_5G, *ACCESS_5G, *EPC, "epc_ns", *EPC_SECGW, *SHARED_HSS]
    return built(tmp_path_factory, [*BASIC, *core, *SECGW, *SITEGW, *SMALL_CELL, *SLICES])


@pytest.fixture(scope="session")
def secrets() -> Secrets:
    return Secrets()


@pytest.fixture(scope="session")
def lab(dist: Path, secrets: Secrets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    yield from open_lab(tmp_path_factory.mktemp("e2e"), dist, secrets)


@pytest.fixture(scope="module")
def machines(
    dist: Path, secrets: Secrets, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    yield from open_machines(tmp_path_factory.mktemp("machines"), dist, secrets)


@pytest.fixture(scope="session")
def basic(lab: Lab) -> Service:
    """Two VNFs with a WireGuard tunnel, shared: a test leaves it as it found it."""
    lab.onboard(*BASIC)
    return lab.create("basic", "vpn_basic_ns", "vpn_basic", experiments=True)


@pytest.fixture(scope="module")
def service(basic: Service) -> Service:
    """The service with `server` and `client`; a module may have one of its own."""
    return basic


@pytest.fixture
def server(service: Service) -> Vnf:
    return service["server"]


@pytest.fixture
def client(service: Service) -> Vnf:
    return service["client"]


@pytest.fixture(scope="session")
def clear(lab: Lab) -> Iterator[Service]:
    """The same service without a VPN, with the same addresses; tests switch it over."""
    lab.onboard(*BASIC)
    made = lab.create("clear", "vpn_basic_ns", "vpn_basic_novpn")
    yield made
    gone(made)


@pytest.fixture(scope="module")
def psk(lab: Lab) -> Iterator[Service]:
    """The same service with a preshared key, taken apart bit by bit."""
    lab.onboard(*BASIC)
    service = lab.create("psk", "vpn_basic_ns", "vpn_basic_psk")
    yield service
    if any(row["name"] == "psk" for row in lab.engine.store.all(NSRS)):
        gone(service)


@pytest.fixture(scope="module")
def pair(lab: Lab) -> Iterator[Service]:
    with with_core(lab, "secgw-ha", "secgw_ha_ns", "secgw_ha") as service:
        yield service


@pytest.fixture
def ha(pair: Service) -> Service:
    """A pair of gateways, both whole when the test begins."""
    whole(pair)
    return pair


@pytest.fixture(scope="session")
def epc_behind(lab: Lab) -> Service:
    """The core behind a pair of security gateways, its network functions and a UE, shared."""
    lab.onboard(*EPC_SECGW)
    return lab.create("behind-pair", "epc_secgw_ha_ns", "epc_secgw_ha")


@pytest.fixture(scope="session")
def epc(lab: Lab) -> Service:
    """The core with its five links, its network functions and a UE, shared.

    Its cloud names NICs otherwise than the packages: enp4s0 for ens4.
    """
    lab.onboard(*EPC)
    images = {"images": {"ubuntu22.04": {"hw_machine_type": "q35"}}}
    lab.done("vim-create", "--name", "q35", "--config", json.dumps(images))
    return lab.create("epc", "epc_ue_ns", "epc_ue", experiments=True, vim="q35")
