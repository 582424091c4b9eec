"""The key pair of a link on its VDU, and the staged one to which a rotation switches."""

from typing import List, Tuple

import attr

from vpnaas.base import fields
from vpnaas.base.links import DIRECTORY, RECORD
from vpnaas.vdu.steps import Results, Step, move, read, remove, run, write
from vpnaas.vdu.steps import directory as make_directory


@attr.frozen
class KeyPair:
    """Where the keys of a link are, and how they are made; private keys never leave the VDU."""

    link: str
    file: str  # Private key in use.
    staged: str  # Private key of a rotation that is under way.
    counter: str  # File with the generation of the key in use.
    generate: Tuple[str, ...]  # Command that prints a private key.
    public: Tuple[str, ...]  # Command that reads a private key and prints its public key.

    def observe(self) -> List[Step]:
        """Return the steps that make a missing key, and read what a rotation depends on."""
        link, key = self.link, self.file
        return [
            make_directory(link + "/dir", DIRECTORY.format(link)),
            run(link + "/genkey", *self.generate, stdout_file=key, unless=key, timeout=60),
            run(link + "/public", *self.public, stdin_file=key),
            run(link + "/next", *self.public, stdin_file=self.staged, only_if=self.staged),
            read(link + "/generation", self.counter),
            read(link + "/applied", RECORD.format(link), cacheable=True),
        ]

    def renew(self, *more: Tuple[str, Tuple[str, ...]]) -> List[Step]:
        """Return the steps that remove keys that cannot be used; they come before `observe`.

        `more` are further files of the link, each with a command that reads it and fails if it
        cannot be used.
        """
        steps: List[Step] = []
        for path, check in ((self.file, self.public), (self.staged, self.public), *more):
            at, good = self.link + "/renew" + path, "/run/osm-vpnaas-usable-" + self.link
            words = ("rm", "-f", path)
            steps += [
                remove(at + "/before", good),
                run(at, *check, stdin_file=path, stdout_file=good, only_if=path, any_exit=True),
                run(at + "/gone", *words, only_if=path, unless=good),
                remove(at + "/after", good),
            ]
        return steps

    def renewed(self, results: Results) -> bool:
        """Tell whether `renew` removed the key in use."""
        return results.exit_code(self.link + "/renew" + self.file + "/gone") is not None

    def unusable(self, id: str) -> str:
        """Return why the step `id` failed, if it was for a key; "" for another step."""
        path = {self.link + "/public": self.file, self.link + "/next": self.staged}.get(id)
        text = (
            "the private key of {} in {} of the VDU is empty or damaged; rotate-keys with force"
            " makes a new one"
        )
        return text.format(self.link, path) if path else ""

    def count(self, generation: int) -> Step:
        """Return the step that stores the generation of the key in use."""
        return write(
            self.link + "/promote/generation", self.counter, "{}\n".format(generation), 0o600
        )

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
        return [
            move(self.link + "/promote/move", self.staged, self.file),
            self.count(generation),
        ]


def generation(link: str, results: Results) -> int:
    """Return the generation of the key in use, from the results of `KeyPair.observe`.

    A file that holds nothing counts as one that is missing.
    """
    text = (results.text(link + "/generation") or "").strip() or "1"
    return fields.integer("VDU: {} generation".format(link), text, 1, 999999999)
