"""The controller: the models below one folder."""

import os
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path

from lab.errors import NotFoundError, VcaError
from lab.vca.model import Model
from lab.vca.python import choose_python
from lab.vca.runtime import Settings
from lab.vca.state import ModelDocument
from lab.vca.store import Store, models_folder
from lab.vca.toolserver import install_tools


class Controller:
    """An embedded Juju 2.9 controller for charms on one machine.

    Its state is the folder `<home>/vca`; several processes may use it at the same time.
    `exec_prefix` is put before each charm process, e.g. `("ip", "netns", "exec", "mgmt")`.
    """

    def __init__(
        self, home: Path | str, exec_prefix: Sequence[str] = (), settings: Settings | None = None
    ) -> None:
        self._models_dir = models_folder(home)
        self._root = self._models_dir.parent
        self._exec_prefix = tuple(exec_prefix)
        self._settings = settings or Settings()
        self._models: dict[str, Model] = {}
        self._lock = threading.Lock()
        self._models_dir.mkdir(parents=True, exist_ok=True)
        self._tools = self._root / "tools"
        install_tools(self._tools)

    def add_model(self, uuid: str) -> Model:
        """Make a model."""
        with self._lock:
            directory = self._models_dir / uuid
            if (directory / "model.json").exists():
                raise VcaError(f'model "{uuid}" already exists')
            shutil.rmtree(directory, ignore_errors=True)  # left by a killed add_model
            directory.mkdir()
            Store.create(directory, ModelDocument(uuid=uuid))
            return self._open(directory)

    def model(self, uuid: str) -> Model:
        """Return a model; the same object each time. Raises NotFoundError."""
        with self._lock:
            directory = self._models_dir / uuid
            if not (directory / "model.json").exists():
                self._models.pop(uuid, None)
                raise NotFoundError(f'model "{uuid}" not found')
            return self._models.get(uuid) or self._open(directory)

    def models(self) -> list[str]:
        return sorted(p.name for p in self._models_dir.iterdir() if (p / "model.json").exists())

    def destroy_model(self, uuid: str, timeout: float = 60.0, force: bool = False) -> None:
        """Remove a model with its units, packages and logs.

        The charms get `timeout` seconds to run their last hooks (relation-broken, stop, remove);
        with `force` they get no time. Then everything that is left is removed, including processes.
        Raises NotFoundError, and ModelBusyError if another process runs the model.
        """
        self.model(uuid).destroy(timeout, force)
        with self._lock:
            self._models.pop(uuid, None)

    def _open(self, directory: Path) -> Model:
        model = Model(
            directory, self._settings, self._tools, self._python_folder(), self._exec_prefix
        )
        self._models[directory.name] = model
        return model

    def _python_folder(self) -> Path:
        """Return a folder that contains only python3, for the PATH of charms."""
        python = choose_python()
        folder = self._root / f"python-{'.'.join(map(str, python.version))}"
        folder.mkdir(exist_ok=True)
        link = folder / "python3"
        if not link.is_symlink() or os.readlink(link) != str(python.path):
            partial = folder / f".python3.{os.getpid()}.{threading.get_ident()}"
            partial.symlink_to(python.path)
            partial.replace(link)
        return folder
