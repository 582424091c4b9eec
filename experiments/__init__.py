"""Experiments on the lab: the isolation of two slices, its cost, and a report of both."""
