"""A model's state in memory and on disk, and its locks between threads and processes."""

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from lab import files
from lab.documents import Stored
from lab.errors import ModelBusyError, NotFoundError, VcaError
from lab.vca.state import ActionDocument, ModelDocument


def models_folder(home: Path | str) -> Path:
    """Return the folder with the models of a lab."""
    return Path(home).resolve() / "vca" / "models"


class Store:
    """The document of one model.

    `changed` is notified after each transaction; its lock guards `document`.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.path = directory / "model.json"
        missing = NotFoundError(f'model "{directory.name}" not found')
        remedy = "delete the service, or clean the lab"
        self._stored = Stored(self.path, ModelDocument, VcaError, missing, remedy)
        self._actions = directory / "actions"
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self._depth = 0
        self._saved = ""
        self._document: ModelDocument | None = None

    @classmethod
    def create(cls, directory: Path, document: ModelDocument) -> "Store":
        store = cls(directory)
        store._actions.mkdir(parents=True)
        store._stored.write(document)
        return store

    def read(self) -> ModelDocument:
        """Return the document on disk, also while another process runs the model."""
        return self._stored.read()

    def load(self) -> None:
        """Load the document from disk into memory (the caller holds the process lock)."""
        with self.lock:
            self._document = self.read()
            self._saved = self._document.model_dump_json()

    def unload(self) -> None:
        """Forget the document in memory."""
        with self.lock:
            self._document = None

    @property
    def loaded(self) -> bool:
        """Whether this process holds the document."""
        return self._document is not None

    @property
    def document(self) -> ModelDocument:
        """The document in memory; hold `lock` while you read more than one field."""
        if self._document is None:
            raise VcaError(f'model "{self.directory.name}" is not running in this process')
        return self._document

    @contextlib.contextmanager
    def transaction(self) -> Iterator[ModelDocument]:
        """Change the document and save it; an exception undoes all changes.

        Transactions nest: the outermost one saves.
        """
        with self.lock:
            self._depth += 1
            try:
                yield self.document
                if self._depth == 1:
                    self._save()
            except BaseException:
                if self._depth == 1:
                    self._document = ModelDocument.model_validate_json(self._saved)
                raise
            finally:
                self._depth -= 1

    def _save(self) -> None:
        data = self.document.model_dump_json()
        if data != self._saved:
            files.replace(self.path, data)
            self._saved = data
        self.changed.notify_all()

    def _action(self, action_id: str) -> Stored[ActionDocument]:
        path = self._actions / f"{action_id}.json"
        missing = NotFoundError(f'action "{action_id}" not found')
        return Stored(path, ActionDocument, VcaError, missing, "remove it, or clean the lab")

    def save_action(self, action: ActionDocument) -> None:
        self._action(action.id).write(action)

    def end_action(
        self, action: ActionDocument, status: Literal["completed", "failed"], message: str
    ) -> None:
        action.status, action.message, action.completed = status, message, time.time()
        self.save_action(action)

    def delete_action(self, action_id: str) -> None:
        (self._actions / f"{int(action_id)}.json").unlink(missing_ok=True)

    def action_ids(self) -> list[str]:
        """Return the ids of all recorded actions, oldest first."""
        return sorted((path.stem for path in self._actions.glob("*.json")), key=int)

    def load_action(self, action_id: str) -> ActionDocument:
        if not action_id.isdigit():  # it may be a path
            raise NotFoundError(f'action "{action_id}" not found')
        return self._action(action_id).read()


class ProcessLock:
    """The lock that lets one process at a time run a model.

    An flock: the kernel releases it when its process ends. The process id in the file is for the
    error message only.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def acquire(self, timeout: float) -> None:
        """Wait up to `timeout` seconds for the lock.

        Raises ModelBusyError, naming the process that holds it.
        """
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            raise NotFoundError(f'model "{self._path.parent.name}" not found') from None
        if not files.lock(descriptor, timeout):
            pid = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            raise ModelBusyError(
                f'model "{self._path.parent.name}" is run by process {pid}, '
                f"which did not finish within {timeout:g} s"
            )
        if not self._still_there(descriptor):
            os.close(descriptor)
            raise NotFoundError(f'model "{self._path.parent.name}" not found')
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        self._descriptor = descriptor

    def _still_there(self, descriptor: int) -> bool:
        # The model may have been destroyed while we waited; then we locked a file without a name.
        try:
            now = os.stat(self._path)
        except FileNotFoundError:
            return False
        return os.path.samestat(now, os.fstat(descriptor))

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
