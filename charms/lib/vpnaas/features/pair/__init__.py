"""A gateway that is one of a pair."""
