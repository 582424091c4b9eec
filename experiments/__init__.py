"""Experiments on the lab: what isolates two slices, what it costs, and a report of both."""
