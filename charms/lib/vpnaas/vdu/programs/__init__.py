"""Programs that run on the VDU, one file each, and what several of them share.

The charm reads them as text and sends them. They import the standard library only; the exporter
needs prometheus_client too. They run on any Python from 3.6 on. A program takes what it shares from
`common`, `netlink` or `charon`; `source` puts their text in place of such an import.
"""

import functools
import pkgutil
import re

PYTHON = ("/usr/bin/python3", "-I")
"""Words before the file of a program: /usr/local, where it lies, may be mounted noexec."""
_SHARED = re.compile(r"^from vpnaas\.vdu\.programs\.(\w+) import (?:\([^)]*\)|.*)\n", re.M)


@functools.lru_cache(maxsize=None)
def source(name: str, package: str = __name__) -> str:
    """Return the text of a file of a package; of a program, one that needs no file beside it."""
    data = pkgutil.get_data(package, name)
    assert data is not None  # noqa: S101 - the loader of a charm folder reads files
    return _SHARED.sub(lambda match: source(match.group(1) + ".py"), data.decode("utf-8"))
