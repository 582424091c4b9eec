"""The settings of a security gateway."""
