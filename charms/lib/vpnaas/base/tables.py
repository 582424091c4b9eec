"""Tables that packages keep as JSON beside their modules."""

import json
import pkgutil
from typing import Any, Dict


def read(name: str, package: str) -> Dict[str, Any]:
    """Return the content of a file of a package, a JSON object."""
    data = pkgutil.get_data(package, name)
    assert data is not None  # noqa: S101 - the loader of a charm folder reads files
    return dict(json.loads(data.decode("utf-8")))
