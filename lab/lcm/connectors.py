"""The connectors of LCM, one for each kind of execution environment."""

from lab.descriptors.environments import Environment
from lab.lcm.backends import Backends
from lab.lcm.charmops import CharmOps
from lab.lcm.helmops import HelmOps
from lab.lcm.timeouts import Timeouts

Connector = CharmOps | HelmOps  # LCM has one for each kind of execution environment.


def connector(
    backends: Backends, env: Environment, ns_id: str, timeouts: Timeouts, vnf_id: str = ""
) -> Connector:
    if env.helm:
        return HelmOps(backends.cluster(), env, ns_id, timeouts, vnf_id)
    return CharmOps(backends.model(ns_id), timeouts)
