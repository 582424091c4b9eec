"""What the files have in common that are written on the VDU for its programs."""

MARK = "# Written by osm-vpnaas"
HEAD = MARK + "; changes are overwritten by the next reconcile.\n"
"""First line of a file, where `#` begins a comment."""
