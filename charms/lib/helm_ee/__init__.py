"""Helm edge: a charm's code as an execution environment of OSM in a pod of Kubernetes."""
