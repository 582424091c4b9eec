"""The records of the lab: documents on disk, the processes that work on them, journals."""
