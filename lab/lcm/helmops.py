"""Calls to a Helm execution environment as LCM's Helm connector makes them.

It has the methods of `CharmOps`, as all connectors of LCM have one interface.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.cluster import Cluster
from lab.descriptors.environments import Environment
from lab.descriptors.relations import Relation
from lab.errors import TIMED_OUT, LcmError
from lab.lcm.timeouts import Timeouts


@dataclass(frozen=True)
class HelmOps:
    """LCM's Helm connector for one execution environment."""

    cluster: Cluster
    env: Environment
    ns_id: str  # Of its service, whose namespace has this name.
    timeouts: Timeouts
    vnf_id: str  # Of the record of its VNF.

    @property
    def ee_id(self) -> str:
        return f"helm-v3:{self.ns_id}.{release(self.env)}"

    def deployed(self) -> bool:
        """Return true: whether there is a pod shows only when it is called."""
        return True

    def install(self, chart: Path, units: int) -> None:
        """Install the chart and wait until its pod is ready."""
        if not chart.is_dir():
            raise LcmError(f"artifact path does not exist: {chart}")
        osm = {"ns_id": self.ns_id, "vnf_id": self.vnf_id}
        if self.env.vdu_id:
            osm["vdu_id"] = self.env.vdu_id
        try:
            self.cluster.call("prepare", namespace=self.ns_id)
            values = {"osm": osm, "global": {"osm": osm}}
            limit = self.timeouts.helm_install
            self._call("install", chart=str(chart.resolve()), values=values, timeout=limit)
        except LcmError as error:
            raise LcmError(f"Error deploying chart ee: {error}") from None

    def relate(self, relation: Relation) -> None:
        """Do nothing, as LCM does."""

    def public_key(self) -> str:
        try:
            return str(self._call("ssh_key", timeout=self.timeouts.helm_initial))
        except LcmError as error:
            raise LcmError(f"the pod gives no SSH key: {error}") from None

    def primitive(self, name: str, params: Mapping[str, Any], timeout: float) -> str:
        patience = self.timeouts.helm_initial if name == "config" else self.timeouts.helm_retry
        try:
            status, message = self._call(
                "primitive", name=name, params=dict(params), timeout=patience, limit=timeout
            )
        except LcmError as error:
            if str(error) == TIMED_OUT:
                raise
            raise LcmError(self._failed(name, str(error))) from None
        if name == "config":
            if status != "OK":
                text = f"status: {status}, message: {message}: "
                raise LcmError(f"Error configuring helm ee_id: {self.ee_id}, {text}")
            return "CONFIG OK"
        if status not in ("OK", "PROCESSING"):
            text = f"Execute primitive {name} returned not ok status: {status}, message: {message}"
            raise LcmError(self._failed(name, text))
        return str(message)

    def verify(self) -> None:
        """Do nothing: LCM does not verify the SSH login of a chart."""

    def _call(self, what: str, **words: Any) -> Any:
        return self.cluster.call(what, namespace=self.ns_id, release=release(self.env), **words)

    def _failed(self, name: str, text: str) -> str:
        return f"Error executing primitive {name} into ee={self.ee_id} : {text}"


def release(env: Environment) -> str:
    """Return the name of the release: the chart's name and a number of ten digits.

    LCM's number is random. The lab computes it from the environment, so that later operations
    find it.
    """
    chart = env.charm[:35]
    return f"{chart}-{zlib.crc32(env.application.encode()) % 10**8:010d}"
