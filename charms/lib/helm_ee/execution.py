"""Runs the code of a charm for a primitive of LCM, for a change of another VNF, and for drift."""

import logging
from typing import Any, Dict, Mapping, Tuple

import yaml
from vpnaas import actions
from vpnaas.base.errors import InputError, VpnaasError
from vpnaas.charm import Charm, Kind

from .cluster import Cluster, ClusterError
from .environment import MEMBER, MEMBERS, RELATIONS, HelmEnvironment
from .schema import Actions, mapping

logger = logging.getLogger(__name__)

OK = "OK"
ERROR = "ERROR"
CONFIG = "config"
OSM = "osm"
"""Parameter of `config`: OSM's own data about the VNF, `<OSM>` in a descriptor, as YAML."""


class Execution:
    """One charm in one pod. It is not thread-safe: only one thread may call it at a time."""

    def __init__(
        self,
        kind: Kind,
        cluster: Cluster,
        folder: str,
        declared: Mapping[str, Mapping[str, Any]],
    ) -> None:
        """Continue with the stored state of earlier pods.

        Args:
            kind: Actions of the charm, and what it has besides links.
            cluster: Access to our objects.
            folder: For files of this pod.
            declared: metadata.yaml, actions.yaml and config.yaml, by "metadata" and so on; and the
                metadata.yaml of all charts by name in "charts", {} if they are not known.

        Raises:
            ClusterError: The cluster does not answer.
        """
        self._kind = kind
        self._actions = Actions(declared["actions"])
        self._options = frozenset(declared["config"]["options"])
        self._cluster = cluster
        charm = dict(declared["metadata"], actions=sorted(declared["actions"]))
        self._environment = HelmEnvironment(cluster, folder, charm, declared.get("charts", {}))

    def primitive(self, name: str, params: str) -> Tuple[str, str]:
        """Run a primitive; return the status for LCM and the answer or the error."""
        logger.info("primitive %s", name[:100])
        try:
            given = mapping(params)
            if name == CONFIG:
                self._configure(given)
                return OK, "CONFIG OK"
            answer = actions.run(self._code(), name, self._actions.parameters(name, given))
            self._environment.publish()
        except (VpnaasError, ClusterError) as error:
            return ERROR, str(error)
        if answer.failed:
            return ERROR, answer.failed
        return OK, answer.results.get("output") or yaml.safe_dump(answer.results)

    def ssh_key(self) -> str:
        """Make our SSH key if there is none, and return its public half.

        OSM calls this before it injects the key into a new VDU. So the action also removes the
        pinned host key of an earlier VDU.
        """
        answer = actions.run(self._code(), "generate-ssh-key", {})
        if answer.failed:
            raise VpnaasError(answer.failed)
        self._environment.keep_key()
        return str(answer.results["output"])

    def reconcile(self, unless_settled: bool) -> None:
        """Bring the VDU to the desired state; not if it is settled and `unless_settled`."""
        try:
            if not unless_settled:
                # The watch may have missed a change.
                self._cluster.connect()
                self._cluster.load()
            self._code().reconcile_and_report(unless_settled)
            self._environment.publish()
        except ClusterError as error:
            logger.warning("%s", error)

    def _code(self) -> Charm:
        # A new object for each call: under Juju each event has its own process.
        self._environment.look()
        return Charm(self._kind, self._environment)

    def _configure(self, given: Mapping[str, Any]) -> None:
        options: Dict[str, str] = {}
        for name, value in given.items():
            if name == OSM:
                options[MEMBER] = _member(value)
            elif name not in self._options and name not in (MEMBERS, RELATIONS):
                known = ", ".join(sorted(self._options | {OSM, MEMBERS, RELATIONS}))
                raise InputError("config", "there is no option {}".format(name[:100]), known)
            elif not isinstance(value, str):
                raise InputError("config: " + name, "it is no text", "a text")
            else:
                options[name] = value
        self._environment.configure(options)
        self.reconcile(unless_settled=False)


def _member(text: Any) -> str:
    """Return the member-vnf-index from OSM's data about the VNF."""
    values = mapping(text) if isinstance(text, str) else text
    member = values.get("member_vnf_index") if isinstance(values, dict) else None
    if not isinstance(member, str) or not 0 < len(member) <= 100:
        raise InputError("config: osm", "it has no member_vnf_index", "<OSM> in the descriptor")
    return member
