"""An EPC in containers of the distribution's own podman, on virtual machines.

The images are the simulators, pulled from the lab's registry by the names that the charms have. The
tests follow each other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import open_machines
from e2e_support import EPC, PATIENCE, ActionError, Lab, Secrets, Service, Vnf, gone, wait
from e2e_ue import load
from oai.images import Registry
from oai.plan import CONTAINERS

from simulators.images import IMAGES, reference
from simulators.oci import make

pytestmark = [pytest.mark.lab, pytest.mark.vm, pytest.mark.long, pytest.mark.timeout(3600)]

LAYOUT = Path(__file__).resolve().parents[3] / ".cache" / "simulators"
FUNCTIONS = ("hss", "mme", "spgwc", "spgwu", "enb")
#: What starts a program in an image of the simulators.
IN_ENB = (
    "podman",
    "exec",
    "--interactive",
    "enb",
    "/usr/bin/python3",
    "-IBm",
    "simulators.programs",
)
ALL_CAPABILITIES = re.compile(r"CapEff:\t0*1?[37f]f+\n")


@pytest.fixture(scope="module")
def machines_with_registry(
    dist: Path, secrets: Secrets, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    home = tmp_path_factory.mktemp("containers")
    options = ("--config", "{registry: true}")
    yield from open_machines(home, dist, secrets, *options)


@pytest.fixture(scope="module")
def digests(machines_with_registry: Lab) -> dict[str, str]:
    """Digests of the images in the registry, by the names to pull them by."""
    make(LAYOUT)
    told = machines_with_registry.done("--json", "lab", "image-load", str(LAYOUT))
    return {row["name"]: row["digest"] for row in json.loads(told)}


@pytest.fixture(scope="module")
def epc(machines_with_registry: Lab, digests: dict[str, str]) -> Iterator[Service]:
    lab = machines_with_registry
    lab.onboard(*EPC[:5], "epc_ns")
    text = (lab.dist / "params/epc_oai.yaml").read_text(encoding="utf-8")
    # The charms name the MME by the digest of the real one.
    pins = f"mme={digests[reference('magma-mme')]}"
    assert text.count("nf_image_pins: none") >= len(FUNCTIONS)
    file = lab.home / "epc.yaml"
    file.write_text(text.replace("nf_image_pins: none", f"nf_image_pins: {pins}"))
    words = ("--ns_name", "epc", "--nsd_name", "epc_ns", "--vim_account", "lab")
    created = lab.verb("ns-create", *words, "--config_file", str(file), "--wait", timeout=2700)
    assert created.returncode == 0, created.stdout + created.stderr
    service = Service(lab, "epc")
    yield service
    gone(service)


def ready(vnf: Vnf) -> bool:
    return bool(vnf.action("health")["state"] == "ready")


def all_ready(service: Service) -> None:
    for name in FUNCTIONS:
        vnf = service[name]
        wait(lambda vnf=vnf: ready(vnf), f"{name}: {vnf.action('health')}", PATIENCE)


def pid(vnf: Vnf, container: str) -> str:
    """Return the first process of a container."""
    return vnf.out("podman", "inspect", "--format", "{{.State.Pid}}", container).strip()


def test_every_function_runs_in_a_container_of_podman(
    epc: Service, digests: dict[str, str]
) -> None:
    all_ready(epc)
    registry = Registry()
    for name in FUNCTIONS:
        vnf = epc[name]
        assert re.fullmatch(r"podman version \d+\.\d+\.\d+\n", vnf.out("podman", "--version"))
        for container in CONTAINERS[name]:
            assert vnf.out("systemctl", "is-active", f"{container}.service") == "active\n"
            assert vnf.out("systemctl", "is-enabled", f"{container}.service") == "enabled\n"
            shown = json.loads(vnf.out("podman", "inspect", container))[0]
            assert shown["HostConfig"]["NetworkMode"] == "host"
            image = json.loads(vnf.out("podman", "image", "inspect", shown["ImageName"]))[0]
            if container == "mme":
                assert shown["ImageName"].endswith("@" + image["Digest"])
                assert image["Digest"] == digests[reference("magma-mme")]
            else:
                assert shown["ImageName"] == registry.reference(container)
                assert image["Digest"] == digests[shown["ImageName"]]


def test_containers_have_the_capabilities_that_their_units_give(epc: Service) -> None:
    for name, container, all_of_them in (
        ("hss", "cassandra", False),
        ("mme", "redis", False),
        ("hss", "hss", True),
        ("spgwu", "spgwu", True),
    ):
        status = epc[name].out("cat", f"/proc/{pid(epc[name], container)}/status")
        assert bool(ALL_CAPABILITIES.search(status)) == all_of_them, (container, status)
    # A privileged container makes its device in the VDU's network.
    assert " pdn: " in epc["spgwu"].out("ip", "-o", "link", "show", "dev", "pdn")


def test_ues_attach_through_containers_and_tunnels(epc: Service) -> None:
    told = load(epc["enb"], 2, 1, by=IN_ENB)
    assert (told["attached"], told["lost"]) == (2, 0), told
    # S1AP is on the kernel's own SCTP, in the tunnel.
    assert "192.168.247.102" in epc["enb"].out("cat", "/proc/net/sctp/assocs")


def test_a_container_that_dies_is_started_again_by_its_unit(epc: Service) -> None:
    spgwu = epc["spgwu"]
    before = pid(spgwu, "spgwu")
    spgwu.out("kill", "-KILL", before)

    def anew() -> bool:
        done = spgwu.run("podman", "inspect", "--format", "{{.State.Pid}}", "spgwu")
        return done.returncode == 0 and done.stdout.strip() not in ("0", before)

    wait(anew, "the container is started again", 120)
    assert spgwu.out("systemctl", "show", "-p", "NRestarts", "--value", "spgwu") != "0\n"
    wait(lambda: ready(spgwu), "the SPGW-U is ready", PATIENCE)


def test_a_restart_and_a_log_level_by_primitive(epc: Service) -> None:
    spgwu = epc["spgwu"]
    before = pid(spgwu, "spgwu")
    assert spgwu.action("set-log-level", log_level="error")["state"] == "ready"
    assert pid(spgwu, "spgwu") != before
    size = int(spgwu.out("stat", "-c", "%s", "/var/log/spgwu.log"))
    assert spgwu.action("restart-nf")["state"] == "ready"
    assert "PFCP association" not in spgwu.out("tail", "-c", f"+{size + 1}", "/var/log/spgwu.log")
    assert spgwu.action("set-log-level", log_level="info")["state"] == "ready"
    assert "PFCP association" in spgwu.out("cat", "/var/log/spgwu.log")


def test_a_reboot_brings_the_containers_back(epc: Service) -> None:
    hss = epc["hss"]
    epc.vim.reboot(hss.server_id)
    epc.vim.wait_active(hss.server_id, PATIENCE)
    wait(lambda: ready(hss), "the HSS is ready", PATIENCE)
    wait(lambda: ready(epc["mme"]), "S6a is open again", PATIENCE)
    told = load(epc["enb"], 1, 1, after=200, by=IN_ENB)
    assert (told["attached"], told["lost"]) == (1, 0), told


def test_an_image_that_the_registry_lacks_is_named(epc: Service) -> None:
    enb = epc["enb"]
    parameters = enb.action("show-config")["parameters"]
    del parameters["log-level"]  # of set-log-level
    told = enb.action("configure-nf", **{**parameters, "image-pins": "enb=2099.w01"})
    assert told["state"] == "starting"
    assert "oai-enb:2099.w01 is not pulled yet" in told["reason"], told
    assert "manifest unknown" in enb.out("journalctl", "--no-pager", "-u", "enb.service")
    try:
        told = enb.action("configure-nf", **parameters)
    except ActionError as error:
        pytest.fail(str(error))
    wait(lambda: ready(enb), "the eNB is ready", PATIENCE)


def test_the_registry_has_what_the_charms_name(digests: dict[str, str]) -> None:
    assert set(digests) == {reference(name) for name in IMAGES}
