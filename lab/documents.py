"""Documents of a fixed form in files, which are replaced as a whole."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel, ValidationError

from lab import files
from lab.errors import LcmError

Document = TypeVar("Document", bound=BaseModel)
PATIENCE = 120.0  # Seconds to wait for another process that changes a document.


def fault(error: ValidationError) -> str:
    """Return the error of a damaged record, as the end of the sentence "the record FILE ..."."""
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "missing":
        return f"lacks '{where}'"
    return f"is damaged at '{where}'" if where else "is damaged"


@dataclass(frozen=True)
class Stored(Generic[Document]):
    """A document in a file."""

    path: Path
    kind: type[Document]
    error: type[LcmError]  # Raised if the file is missing or damaged.
    missing: LcmError | None = None  # Raised in place of that for a missing file.
    remedy: str = "clean the lab"  # For a damaged one.

    def read(self) -> Document:
        try:
            return self.kind.model_validate_json(self.path.read_bytes())
        except FileNotFoundError:
            text = f"the lab's record {self.path} does not exist"
            raise self.missing or self.error(text) from None
        except ValidationError as error:
            text = f"the lab's record {self.path} {fault(error)}: {self.remedy}"
            raise self.error(text) from None

    def write(self, document: Document) -> None:
        files.replace(self.path, document.model_dump_json())

    @contextmanager
    def change(self) -> Iterator[Document]:
        """Read, let the caller change, write; nothing is written when the caller raises."""
        with files.locked(self.path.with_suffix(".lock"), PATIENCE, error=self.error):
            document = self.read()
            yield document
            self.write(document)
