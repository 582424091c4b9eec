"""The key pair of a link on its VDU, and the staged one to which a rotation switches."""

from typing import List, Tuple

import attr

from vpnaas.base import fields
from vpnaas.base.links import directory
from vpnaas.vdu.steps import Results, Step, move, read, run, write
from vpnaas.vdu.steps import directory as make_directory


@attr.frozen
class KeyPair:
    """Where the keys of a link are, and how they are made; private keys never leave the VDU.

    Attributes:
        file: Private key in use.
        staged: Private key of a rotation that is under way.
        counter: File with the generation of the key in use.
        generate: Command that prints a private key.
        public: Command that reads a private key and prints its public key.
    """

    link: str
    file: str
    staged: str
    counter: str
    generate: Tuple[str, ...]
    public: Tuple[str, ...]

    def observe(self) -> List[Step]:
        """Return the steps that make a missing key, and read what a rotation depends on."""
        link, key = self.link, self.file
        return [
            make_directory(link + "/dir", directory(link)),
            run(link + "/genkey", *self.generate, stdout_file=key, unless=key, timeout=60),
            run(link + "/public", *self.public, stdin_file=key),
            run(link + "/next", *self.public, stdin_file=self.staged, only_if=self.staged),
            read(link + "/generation", self.counter),
            read(link + "/applied", directory(link) + "/applied.json", cacheable=True),
        ]

    def stage(self) -> List[Step]:
        """Return the steps that make the next key, if none is staged; its result is LINK/next."""
        path, generate = self.staged, self.generate
        return [
            run(self.link + "/stage", *generate, stdout_file=path, unless=path, timeout=60),
            run(self.link + "/next", *self.public, stdin_file=path),
        ]

    def promote(self, generation: int) -> List[Step]:
        """Return the steps that replace the key in use by the staged one.

        The file moves first. After a crash at this point, the next reconcile finds that the tunnels
        still have the former key.
        """
        text = "{}\n".format(generation)
        return [
            move(self.link + "/promote/move", self.staged, self.file),
            write(self.link + "/promote/generation", self.counter, text, 0o600),
        ]


def generation(link: str, results: Results) -> int:
    """Return the generation of the key in use, from the results of `KeyPair.observe`."""
    text = (results.text(link + "/generation") or "1").strip()
    return fields.integer("VDU: {} generation".format(link), text, 1, 999999999)
