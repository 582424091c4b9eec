"""OSM's own Kubernetes in the lab: a real API server, and a runner for pods of StatefulSets.

There is no scheduler and no pod network. A pod is a process in the network namespace of the charms,
with its own loopback address.
"""

from lab.cluster.control import Cluster
from lab.errors import ClusterError

__all__ = ["Cluster", "ClusterError"]
