"""The declarations of a package's charms."""

from dataclasses import dataclass, field

from builder.declarations import ACTIONS, CONFIG, METADATA, Action, Config, Metadata, read
from builder.documents import DocumentError
from builder.validate.reader import Package


@dataclass(frozen=True)
class Charm:
    """Declarations of a charm folder."""

    name: str  # Name of the folder.
    folder: str  # Its path in the package, with a slash at the end.
    # `metadata`, `actions`, `config`: Content of the file. None if the file is invalid, so that its
    # declarations cause no further problems.
    metadata: Metadata | None
    actions: dict[str, Action] | None
    config: Config | None
    # (file, reason) of each invalid file.
    broken: list[tuple[str, str]] = field(default_factory=list)


def charm_of(package: Package, name: str) -> Charm | None:
    """Return a charm of a package, None if it has no such folder."""
    if name not in package.charms:
        package.charms[name] = _read(package, name)
    charm: Charm | None = package.charms[name]
    return charm


def _read(package: Package, name: str) -> Charm | None:
    folder = package.folder("charms") + name + "/"
    if not any(path.startswith(folder) for path in package.files):
        return None
    found, broken = {}, []
    for file in (METADATA, ACTIONS, CONFIG):
        try:
            found[file] = read(file, package.data(folder + file))
        except DocumentError as error:
            broken.append((file, str(error)))
    actions = found[ACTIONS].root if ACTIONS in found else None
    return Charm(name, folder, found.get(METADATA), actions, found.get(CONFIG), broken)
