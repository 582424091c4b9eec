"""Programs that run on the VDU, one file each.

The charm reads them as text and sends them. They import the standard library only; the exporter
needs prometheus_client too. They run on any Python from 3.6 on.
"""

import pkgutil


def source(name: str, package: str = __name__) -> str:
    """Return the text of a file of a package."""
    data = pkgutil.get_data(package, name)
    assert data is not None  # noqa: S101 - the loader of a charm folder reads files
    return data.decode("utf-8")
