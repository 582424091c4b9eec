"""Error of the build: one sentence."""


class BuildError(Exception):
    """A package cannot be built; `str()` says what, where and what is allowed."""
