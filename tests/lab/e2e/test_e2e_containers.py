"""A 4G core in containers of the distribution's own podman, on virtual machines.

The registry of the lab has the simulators by the names of the real images. The tests follow each
other: an HSS alone, then a whole core.

Cast: hss (`hss_ns`); hss, mme, spgwc, spgwu, enb (`epc_ns`).

Seen:
- every function runs in a container, and UEs attach through the tunnels;
- a container that dies or whose machine reboots is started again;
- an image that the registry lacks is named.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from e2e_labs import open_machines
from e2e_support import EPC, PATIENCE, Lab, Secrets, Service, Vnf, gone, wait
from e2e_ue import OP, K, load
from oai import kinds
from oai.images import Registry
from oai.plan import MAX_RESTARTS
from oai.units import CONTAINER

from simulators.engine.images import IMAGES, reference
from simulators.engine.oci import make

pytestmark = [
    pytest.mark.schedule(order=3, worker="alone"),
    *(pytest.mark.lab, pytest.mark.vm, pytest.mark.kvm),
    *(pytest.mark.long, pytest.mark.timeout(3600)),
]

LAYOUT = Path(__file__).resolve().parents[3] / ".cache" / "simulators"
FUNCTIONS = ("hss", "mme", "spgwc", "spgwu", "enb")
#: What starts a program in an image of the simulators.
IN_ENB = (
    "podman",
    "exec",
    "--interactive",
    CONTAINER.format("enb"),
    "/usr/bin/python3",
    "-IBm",
    "simulators.programs",
)
#: What show-config does not tell.
KEYS = {"operator-key": OP, "subscriber-key": K}
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
    result = machines_with_registry.done("--json", "lab", "image-load", str(LAYOUT))
    return {row["name"]: row["digest"] for row in json.loads(result)}


def create(lab: Lab, name: str, nsd: str, params: dict[str, Any]) -> Service:
    """Instantiate a service with these parameters."""
    file = lab.home / f"{name}.yaml"
    file.write_text(yaml.safe_dump(params), encoding="utf-8")
    words = ("--ns_name", name, "--nsd_name", nsd, "--vim_account", "lab")
    created = lab.verb("ns-create", *words, "--config_file", str(file), "--wait", timeout=2700)
    assert created.returncode == 0, created.stdout + created.stderr
    return Service(lab, name)


def parameters(lab: Lab) -> dict[str, Any]:
    """Return the parameters of an EPC whose functions run in containers."""
    text = (lab.dist / "params/epc_oai.yaml").read_text(encoding="utf-8")
    return dict(yaml.safe_load(text))


@pytest.fixture(scope="module")
def alone(machines_with_registry: Lab, digests: dict[str, str]) -> Iterator[Service]:
    """An HSS without a core."""
    lab = machines_with_registry
    lab.onboard("hss_vnf", "hss_ns")
    params = parameters(lab)
    (member,) = (m for m in params["additionalParamsForVnf"] if m["member-vnf-index"] == "hss")
    member["additionalParams"]["nf_subscribers"] = 16
    service = create(lab, "hss", "hss_ns", {"additionalParamsForVnf": [member]})
    yield service
    gone(service)


@pytest.fixture(scope="module")
def epc(machines_with_registry: Lab, digests: dict[str, str]) -> Iterator[Service]:
    lab = machines_with_registry
    lab.onboard(*EPC[:5], "epc_ns")
    params = parameters(lab)
    for member in params["additionalParamsForVnf"]:
        # The charms name the MME by the digest of the real one.
        given = member["additionalParams"]
        assert given["nf_image_pins"] == "none"
        given["nf_image_pins"] = f"mme={digests[reference('magma-mme')]}"
    service = create(lab, "epc", "epc_ns", params)
    yield service
    gone(service)


def pid(vnf: Vnf, container: str) -> str:
    words = ("podman", "inspect", "--format", "{{.State.Pid}}", CONTAINER.format(container))
    return vnf.out(*words).strip()


def check_containers(vnf: Vnf, digests: dict[str, str]) -> None:
    """Check that a function's containers are podman's, of the registry's images, by their units."""
    assert re.fullmatch(r"podman version \d+\.\d+\.\d+\n", vnf.out("podman", "--version"))
    for container in kinds.FUNCTIONS[vnf.index].names:
        assert vnf.out("systemctl", "is-active", f"{container}.service") == "active\n"
        assert vnf.out("systemctl", "is-enabled", f"{container}.service") == "enabled\n"
        shown = json.loads(vnf.out("podman", "inspect", CONTAINER.format(container)))[0]
        assert shown["HostConfig"]["NetworkMode"] == "host"
        name = Registry().reference(container) if container != "mme" else shown["ImageName"]
        assert shown["ImageName"] == name
        image = json.loads(vnf.out("podman", "image", "inspect", name))[0]
        expected = digests[reference("magma-mme") if container == "mme" else name]
        assert image["Digest"] == expected
        assert container != "mme" or name.endswith(f"@{expected}")


def privileged(vnf: Vnf, container: str) -> bool:
    """Say whether a container has all capabilities."""
    status = vnf.out("cat", f"/proc/{pid(vnf, container)}/status")
    return bool(ALL_CAPABILITIES.search(status))


def kill(vnf: Vnf, container: str) -> None:
    """Kill a container's first process, and wait for another one."""
    before = pid(vnf, container)
    vnf.out("kill", "-KILL", before)

    def anew() -> bool:
        words = ("podman", "inspect", "--format", "{{.State.Pid}}", CONTAINER.format(container))
        done = vnf.run(*words)
        return done.returncode == 0 and done.stdout.strip() not in ("0", before)

    wait(anew, f"{container} is started again", 240)
    assert vnf.out("systemctl", "show", "-p", "NRestarts", "--value", container) != "0\n"


def test_the_registry_has_what_the_charms_name(digests: dict[str, str]) -> None:
    assert set(digests) == {reference(name) for name in IMAGES}


def test_an_hss_and_its_database_run_in_containers_of_podman(
    alone: Service, digests: dict[str, str]
) -> None:
    hss = alone["hss"]
    wait(hss.ready, "the HSS is ready", 2 * PATIENCE)
    check_containers(hss, digests)
    # As their units say, all but the database may do everything.
    assert (privileged(hss, "hss"), privileged(hss, "cassandra")) == (True, False)
    assert hss.action("list-subscribers", limit=1)


def test_an_hss_that_dies_is_started_again_by_its_unit(alone: Service) -> None:
    hss = alone["hss"]
    kill(hss, "hss")
    wait(hss.ready, "the HSS is ready", PATIENCE)
    before = pid(hss, "hss")
    assert hss.action("restart-nf")["state"] in ("ready", "starting")
    wait(lambda: hss.ready() and pid(hss, "hss") != before, "the HSS is ready", PATIENCE)


def test_an_image_that_the_registry_lacks_is_named(alone: Service) -> None:
    hss = alone["hss"]
    given = hss.action("show-config")["parameters"]
    given.pop("log-level", None)  # of set-log-level
    answer = hss.action("configure-nf", **{**given, **KEYS, "image-pins": "hss=v0"})
    # A near registry may answer that often while the action waits.
    often = answer["restarts"] >= MAX_RESTARTS
    assert answer["state"] == ("failed" if often else "starting"), answer
    assert "oai-hss:v0 of hss is not pulled yet" in answer["reason"], answer
    assert "manifest unknown" in hss.out("tail", "-n", "40", "/var/log/hss.log")
    hss.action("configure-nf", **{**given, **KEYS})
    wait(hss.ready, "the HSS is ready", PATIENCE)


def test_a_reboot_brings_the_containers_back(alone: Service) -> None:
    hss = alone["hss"]
    alone.vim.reboot(hss.server_id)
    alone.vim.wait_active(hss.server_id, PATIENCE)
    wait(hss.ready, "the HSS is ready", PATIENCE)


def test_every_function_runs_in_a_container_of_podman(
    epc: Service, digests: dict[str, str]
) -> None:
    for name in FUNCTIONS:
        wait(epc[name].ready, f"{name} is ready", PATIENCE)
        check_containers(epc[name], digests)
    assert (privileged(epc["spgwu"], "spgwu"), privileged(epc["mme"], "redis")) == (True, False)
    # A privileged container makes its device in the VDU's network.
    assert " tun0: " in epc["spgwu"].out("ip", "-o", "link", "show", "dev", "tun0")


def test_ues_attach_through_containers_and_tunnels(epc: Service) -> None:
    result = load(epc["enb"], 2, 1, by=IN_ENB)
    assert (result["attached"], result["lost"]) == (2, 0), result
    # S1AP is on the kernel's own SCTP, in the tunnel.
    assert "192.168.247.102" in epc["enb"].out("cat", "/proc/net/sctp/assocs")


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
