"""A package read and validated in one step."""

from pathlib import Path

from builder.validate import Catalog, PackageError, Problem, read, validate


def validate_package(path: Path, catalog: Catalog | None = None) -> list[Problem]:
    """Return all problems of a folder, archive or descriptor; `catalog` has the other packages."""
    try:
        package = read(path)
    except PackageError as error:
        return [error.problem]
    return validate(package, catalog or Catalog())
