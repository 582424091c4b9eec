"""Head of the files that the charm writes on the VDU."""

MARK = "# Written by osm-vpnaas"
HEAD = MARK + "; changes are overwritten by the next reconcile.\n"
"""First line of a file, where `#` begins a comment."""
