"""The orchestration's interface to the lab's VIM, VCA and cluster; tests replace it by fakes."""

import threading
from pathlib import Path

from lab.cluster import Cluster
from lab.errors import LcmError
from lab.lcm.keys import OpenSshInjector
from lab.records.store import VIMS, Store
from lab.vca.controller import Controller
from lab.vca.model import Model
from lab.vim.account import Vim, vca_prefix
from lab.vim.connector import VimConnector, connect, is_openstack

_LAST_HOOKS = 30.0  # Seconds the charms of a service that is deleted get for their last hooks.


class Backends:
    """All VIM accounts and models of one lab."""

    def __init__(self, home: Path) -> None:
        """Open the lab in ``home``; nothing is made until it is needed."""
        self.home = home
        self.store = Store(home)
        self.keys = OpenSshInjector(lambda: vca_prefix(home))  # RO's key injection.
        self._lock = threading.Lock()
        self._controller: Controller | None = None

    def vim(self, vim_account: str) -> VimConnector:
        return connect(self.home, self._name(vim_account))

    def local_vim(self, vim_account: str) -> Vim:
        """Return the VIM of an account with consoles and captures, as its servers are here."""
        name = self._name(vim_account)
        if is_openstack(self.home, name):
            raise LcmError(
                f"VIM account '{name}' is an OpenStack: its VDUs are not on this machine"
            )
        return Vim.open(self.home, name)

    def _name(self, vim_account: str) -> str:
        document = self.store.find(VIMS, vim_account)
        if document is None:
            raise LcmError(f"vim account '{vim_account}' does not exist")
        return str(document["name"])

    def controller(self) -> Controller:
        """Return the controller; charms run in the management network's namespace."""
        if self._controller is None:
            self._controller = Controller(self.home, exec_prefix=vca_prefix(self.home))
        return self._controller

    def cluster(self) -> Cluster:
        """Return OSM's own Kubernetes; it is in the management network's namespace."""
        return Cluster(self.home, exec_prefix=vca_prefix(self.home))

    def destroy_pods(self, ns_id: str) -> None:
        """Remove a service's namespace with its releases; with the last one end the cluster."""
        cluster = self.cluster()
        if cluster.exists() and not cluster.call("destroy", namespace=ns_id):
            cluster.stop()

    def model(self, ns_id: str) -> Model:
        """Return the model of a network service; it is made at its first use."""
        with self._lock:
            controller = self.controller()
            exists = ns_id in controller.models()
            return controller.model(ns_id) if exists else controller.add_model(ns_id)

    def destroy_model(self, ns_id: str) -> None:
        """Remove the model of a network service; a missing one is no error."""
        controller = self.controller()
        if ns_id in controller.models():
            # Do not wait for a unit in error or without an agent: its last hooks would not run. The
            # same is true of a record that this version cannot read.
            try:
                stuck = bool(controller.model(ns_id).status().failed)
            except LcmError:
                stuck = True
            controller.destroy_model(ns_id, timeout=_LAST_HOOKS, force=stuck)
