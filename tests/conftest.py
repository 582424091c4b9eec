"""Settings of all tests; import paths are set in pyproject.toml."""
