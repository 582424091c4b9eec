"""Charms with a VDU each: the VDUs are the lab's, and a test's process is the controller."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from barejuju import is_sentence
from flavours import WAIT, Flavour

from lab.vca.model import Model
from lab.vim.account import Vim, clean, vca_prefix
from lab.vim.model import NetworkSpec, PortSpec, ServerSpec

USER = "ubuntu"
TAG = "charm-tests"


@dataclass(frozen=True)
class Site:
    """A model of charms and their VDUs, by application.

    Attributes:
        home: The lab's directory.
        flavour: Of the charms.
        servers: The VDU of each application, as the VIM knows it.
    """

    home: Path
    flavour: Flavour
    model: Model
    vim: Vim
    servers: Mapping[str, str]

    def out(self, vnf: str, *argv: str) -> str:
        """Run a command as root in a VDU; return what it printed."""
        done = self.vim.console(self.servers[vnf], list(argv), timeout=120)
        assert done.returncode == 0, (argv, done.stdout, done.stderr)
        return str(done.stdout)

    def put(self, vnf: str, path: str, text: str, mode: str = "644") -> None:
        words = ["sh", "-c", f"mkdir -p $(dirname {path}); cat > {path}; chmod {mode} {path}"]
        assert self.vim.console(self.servers[vnf], words, input=text).returncode == 0

    def let_in(self, vnf: str) -> None:
        """Give the application's leader its VDU, as OSM's resource orchestrator and LCM do."""
        address = self.vim.wait_active(self.servers[vnf], WAIT).ports[0].ip
        key = self.model.run_action(vnf, "get-ssh-public-key", timeout=WAIT).results["pubkey"]
        self.put(vnf, f"/home/{USER}/.ssh/authorized_keys", key + "\n", "600")
        self.out(vnf, "chown", "-R", f"{USER}:", f"/home/{USER}/.ssh")
        self.model.set_config(vnf, {"ssh-hostname": f"{address};", "ssh-username": USER})


@contextmanager
def site(
    home: Path,
    flavour: Flavour,
    subnets: Mapping[str, str],
    members: Mapping[str, Sequence[tuple[str, str | None]]],
    units: Mapping[str, int] | None = None,
) -> Iterator[Site]:
    """Make VDUs and an application for each; its charm does not know the VDU yet (`let_in`).

    Args:
        home: Of the lab.
        flavour: Of the charms.
        subnets: Ranges of the networks, by name.
        members: Of each application the networks of its VDU, in the order of its NICs after that of
            management, with an address or None for any.
        units: Units of applications that have more than one.
    """
    vim = Vim.create(home, "site")
    try:
        networks = {
            name: vim.create_network(NetworkSpec(name, subnet=subnet), TAG).id
            for name, subnet in subnets.items()
        }
        management = PortSpec(vim.management_network().id)
        servers = {}
        for vnf, nics in members.items():
            ports = (management, *(PortSpec(networks[name], ip=ip) for name, ip in nics))
            spec = ServerSpec(vnf, vnf, "ubuntu22.04", 1, 512, 1, ports)
            servers[vnf] = vim.create_server(spec, TAG).id
        with flavour.model(home, tuple(vca_prefix(home))) as model:
            for vnf in members:
                model.deploy(vnf, flavour.charm(vnf), num_units=(units or {}).get(vnf, 1))
            yield Site(home, flavour, model, vim, servers)
    finally:
        vim.destroy()
        clean(home)


def healthy(model: Model) -> dict[str, tuple[str, str]]:
    """Return (status, message) by unit; no hook may have failed."""
    found = {}
    for name, app in model.wait_idle(WAIT).applications.items():
        if name == "hostile":
            continue  # not ours
        for unit_name, unit in app.units.items():
            assert unit.agent == "idle", (unit_name, unit.agent_message)
            assert unit.workload in ("active", "blocked"), (unit_name, unit.workload)
            found[unit_name] = (unit.workload, unit.message)
            log = model.log_path(unit_name).read_text()
            assert "Uncaught exception" not in log
            assert "Traceback" not in log
            assert not re.search(r'hook "\S+" failed', log)
    return found


def refused(model: Model, app: str, action: str, **params: object) -> str:
    """Run an action that must fail; return its one sentence."""
    result = model.run_action(app, action, params, timeout=60)
    assert result.status == "failed", result.results
    assert is_sentence(result.results["output"]), result.results
    # juju shows the message, OSM the output: both must tell.
    assert result.message == result.results["output"]
    return str(result.results["output"])
