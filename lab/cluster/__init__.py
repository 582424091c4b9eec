"""OSM's own Kubernetes in the lab: a real API server, and what runs the pods of its StatefulSets.

There is no scheduler and no network of pods. A pod is a process in the namespace in which charms
run, with a loopback address of its own.
"""

from lab.cluster.control import Cluster
from lab.cluster.errors import ClusterError

__all__ = ["Cluster", "ClusterError"]
