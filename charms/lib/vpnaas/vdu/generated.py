"""What the files have in common that are written on the VDU for its programs."""

MARK = "# Written by osm-vpnaas"
HEAD = MARK + "; changes are overwritten by the next reconcile.\n"
"""First line of a file, where `#` begins a comment."""


def nft_table(name: str, body: str) -> str:
    """Return the nft(8) script that replaces a table as a whole, in one transaction.

    Args:
        name: Of the table, of family inet.
        body: Its chains, each line with its end.
    """
    return "{0}table inet {1}\ndelete table inet {1}\ntable inet {1} {{\n{2}}}\n".format(
        HEAD, name, body
    )
