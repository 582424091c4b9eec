"""The store of images: made ones, and those that a user puts there by name."""

import hashlib
import shutil
import tempfile
from pathlib import Path

from lab.vim.qemu import bake as maker
from lab.vim.qemu.bake import Baked
from lab.vim.store import locked
from lab.vim.vdu import Tell

STORE = Path(__file__).resolve().parents[3] / ".cache" / "images"


def baked(store: Path = STORE) -> Baked:
    """The made image for the present inputs; its directory may not exist yet."""
    program = Path(maker.__file__)
    source = program.read_bytes() + program.with_suffix(".yaml").read_bytes()
    inputs = hashlib.sha256(repr((maker.release(), maker.packages())).encode() + source)
    return Baked(store / f"made-{inputs.hexdigest()[:12]}")


def bake(tell: Tell, store: Path = STORE) -> Baked:
    """Make the image if it is missing; ``tell`` is called with a line for each step."""
    image = baked(store)
    store.mkdir(parents=True, exist_ok=True)
    with locked(store / "lock", 1800):
        if not image.directory.exists():
            maker.check_tools()
            with tempfile.TemporaryDirectory(prefix="making-", dir=store) as work:
                maker.make(Baked(Path(work) / "image"), Path(work), tell)
                (Path(work) / "image").rename(image.directory)
            tell(f"the image is made: {image.disk}")
        for name in prune(store, image):
            tell(f"removed {name}, which nothing needs any more")
    return image


def prune(store: Path, image: Baked) -> list[str]:
    """Remove made images of earlier inputs, and incomplete ones; return their names.

    An image stays while a server of any lab on this machine uses it. The caller holds the store's
    lock.
    """
    folders = [
        path
        for path in sorted([*store.glob("made-*"), *store.glob("making-*")])
        if path != image.directory and not _used(Baked(path))
    ]
    for path in folders:
        shutil.rmtree(path)
    return [path.name for path in folders]


def use(image: Baked, server: Path) -> None:
    """Note which server uses the image, so that `prune` keeps it."""
    image.users.mkdir(exist_ok=True)
    (image.users / server.name).write_text(str(server), encoding="utf-8")


def _used(image: Baked) -> bool:
    """Tell whether a server that was made from an image still exists, also after a restart."""
    users = image.users.iterdir() if image.users.is_dir() else []
    return any(Path(user.read_text(encoding="utf-8")).exists() for user in users)


def export(made: Baked, output: Path) -> None:
    """Write a compressed copy of an image, and beside it the list of its packages."""
    output.parent.mkdir(parents=True, exist_ok=True)
    maker.run(["qemu-img", "convert", "-c", "-O", "qcow2", str(made.disk), str(output)])
    shutil.copy(made.directory / "packages.txt", output.with_suffix(".packages.txt"))
