"""Kinds of charms, each in a module, as a hook loads what its own kind needs only."""
