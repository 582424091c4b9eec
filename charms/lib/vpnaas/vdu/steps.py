"""Typed steps for the agent on the VDU, and their results.

A step is plain data. The pure core renders lists of them; `ssh` sends a list in one round trip;
`agent.py` executes it. Each step has an `id` that is unique in its list, by which its result is
found.
"""

import base64
import hashlib
import json
import re
import zlib
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import attr

from vpnaas.base import fields
from vpnaas.base.errors import MALFORMED, VduError
from vpnaas.vdu import file_cache
from vpnaas.vdu.file_cache import FileCache
from vpnaas.vdu.programs import source

Json = Dict[str, Any]

MOST = 64 << 20
"""Most characters of a request or an answer; enough for some 20,000 peers of a link."""
_PLAIN = 4096
"""Most characters of a request that is sent as it is; a longer one is compressed."""


FOREIGN = "somebody else wrote this file"
"""Text of a file that `read` asks to be ours and that is not."""


@attr.frozen
class Step:
    """One thing the agent does; made by the functions below."""

    id: str
    body: Mapping[str, Any]
    # Known text of the file that a `write` replaces: then only the difference is sent.
    before: Optional[str] = None
    # Whether the charm may store the text of a `read`, so that it is sent only once.
    cacheable: bool = False
    part: str = ""  # What ends if the step fails, such as a link; "" for all.
    needs: str = ""  # Another part, without which the step does not run.

    def to_json(self) -> Json:
        """Return the form the functions below describe."""
        more = {"part": self.part, "needs": self.needs}
        return dict(self.body, id=self.id, **{key: text for key, text in more.items() if text})


def write(id: str, path: str, text: str, mode: int = 0o644, before: Optional[str] = None) -> Step:
    """Replace a file atomically if content or mode differ; missing folders get mode 0755.

    Where its content is not `before` any more, as it was observed, the step fails.
    """
    return Step(id, {"do": "write", "path": path, "text": text, "mode": mode}, before=before)


def read(id: str, path: str, cacheable: bool = False, mark: str = "") -> Step:
    """Read a text file; a missing one gives None, one that does not begin with `mark` FOREIGN.

    If it is cacheable, the charm may store the text on its disk. Never for a secret.
    """
    more = {"mark": mark, "foreign": FOREIGN} if mark else {}
    return Step(id, dict(more, do="read", path=path), cacheable=cacheable)


def remove(id: str, path: str, mark: str = "") -> Step:
    """Remove a file; a missing one is fine, and one that does not begin with `mark` stays."""
    return Step(id, dict({"mark": mark} if mark else {}, do="remove", path=path))


def move(id: str, source: str, path: str) -> Step:
    """Rename a file over another one, atomically."""
    return Step(id, {"do": "move", "source": source, "path": path})


def directory(id: str, path: str, mode: int = 0o700) -> Step:
    """Make a directory with its parents and set its mode."""
    return Step(id, {"do": "directory", "path": path, "mode": mode})


def which(id: str, names: Sequence[str]) -> Step:
    """Look programs up on PATH."""
    return Step(id, {"do": "which", "names": list(names)})


def authorize(id: str, user: str, keys: Sequence[str]) -> Step:
    """Add SSH public keys to the authorized_keys of `user`."""
    return Step(id, {"do": "authorize", "user": user, "keys": list(keys)})


def run(
    id: str,
    *argv: str,
    stdin: str = "",
    stdin_file: str = "",
    stdout_file: str = "",
    unless: str = "",
    only_if: str = "",
    any_exit: bool = False,
    pick: str = "",
    timeout: int = 20,
) -> Step:
    """Run a program without a shell.

    Args:
        id: Name of the result.
        argv: Program and arguments. Never a secret: any process on the VDU can read them.
        stdin: Text for standard input.
        stdin_file: File on the VDU for standard input, for secrets.
        stdout_file: File on the VDU that takes standard output with mode 0600, for secrets.
        unless: Do nothing if this path exists.
        only_if: Do nothing if this path does not exist.
        any_exit: Report a non-zero exit instead of failing.
        pick: Regular expression (re.M). Only its group in standard output is sent, one line per
            match.
        timeout: Seconds after which the program is killed and the step fails.
    """
    body = {"do": "run", "argv": list(argv), "timeout": timeout, "any_exit": any_exit}
    texts = {
        "stdin": stdin,
        "stdin_file": stdin_file,
        "stdout_file": stdout_file,
        "unless": unless,
        "only_if": only_if,
        "pick": pick,
    }
    return Step(id, dict(body, **{key: text for key, text in texts.items() if text}))


def ask(id: str, program: str, request: Mapping[str, Any], timeout: int) -> Step:
    """Run a Python program's text with a request as JSON at standard input; any exit is fine."""
    words = ("python3", "-I", "-c", program)
    return run(id, *words, stdin=json.dumps(request), any_exit=True, timeout=timeout)


def enable(id: str, *units: str, any_exit: bool = False) -> Step:
    """Let systemd start units at each boot; this step does not start them.

    systemd does not read its unit files again here. A changed unit needs `systemctl daemon-reload`
    before. A new unit does not: systemd reads its file when it starts the unit.
    """
    words = ("systemctl", "enable", "--no-reload") + units
    return run(id, *words, any_exit=any_exit, timeout=60)


def disable(id: str, *units: str, timeout: int = 60) -> Step:
    """Stop systemd units and disable them at boot; units that do not exist are fine."""
    return run(id, "systemctl", "disable", "--now", *units, any_exit=True, timeout=timeout)


_MEANINGS = (
    ("No space left on device", "there is no room left for {} on the VDU"),
    ("Read-only file system", "{} is on a read-only file system of the VDU"),
    ("Operation not permitted", "{} cannot be changed on the VDU; it may be protected (lsattr)"),
    ("Permission denied", "{} cannot be changed on the VDU; it may be protected (lsattr)"),
    ("Is a directory", "{} is a folder on the VDU, where a file belongs"),
    ("Not a directory", "a folder of {} is a file on the VDU"),
    ("File exists", "a folder of {} is a file on the VDU"),
)
"""What the kernel's reasons mean for a file, in the order in which they are looked for."""


_AGENTS = ("has changed since it was read", "has more than", "printed more than")
"""Parts of sentences of the agent, which name the cause themselves."""
_NAMED = (
    *_AGENTS,
    "did not end within",
    "is not installed",
    "is masked",
    *(text for text, _ in _MEANINGS[:2]),
)
_LACKING = "the kernel of the VDU lacks features that our rules of nftables need"
_REFUSED_RULES = (
    ("not supported", _LACKING),
    ("No such file or directory", _LACKING),
    ("syntax error", "nft of the VDU is too old for our rules"),
    ("Operation not permitted", "a program of the VDU owns the table of our rules, or nobody may"
     " load rules there; see `nft list ruleset`"),
    ("resource busy", "rules of others on the VDU exclude ours, as those of iptables-legacy do;"
     " see `nft list ruleset`"),
    ("File exists", "rules of others on the VDU have the names of ours; see `nft list ruleset`"),
)  # fmt: skip
"""What nft(8) says, and what it means."""


@attr.frozen
class Broken:
    """The step that ended a part."""

    step: Step
    why: str  # The agent's reason; a tool may have written it.

    @property
    def plain(self) -> bool:
        """Tell whether the reason is the cause, so that no other need be looked for."""
        return self.step.body["do"] != "run" or any(text in self.why for text in _NAMED)

    def sentence(self) -> str:
        """Return the reason in words of ours."""
        if any(text in self.why for text in _AGENTS):
            return printable(self.why)
        body = self.step.body
        argv = list(body.get("argv", ()))
        path = str(body.get("path") or body.get("stdout_file") or "")
        for text, meaning in _MEANINGS if path or "No space" in self.why else ():
            if text in self.why:
                return meaning.format(path or "files of {}".format(argv[0]))
        if not argv:
            return "{} cannot be used on the VDU".format(path or self.step.id)
        if self.why.endswith("is not installed"):
            what = "the VDU has no {}; its image or Day-0 cloud-init must install it"
            return what.format(argv[0])
        if "did not end within" in self.why:
            return "{} did not end within {} s on the VDU".format(argv[0], body["timeout"])
        file = body.get("stdin_file") or ("-in" in argv and argv[argv.index("-in") + 1])
        if argv[0] == "systemctl" and "is masked" in self.why:
            return "{} of the VDU is masked; see `systemctl unmask`".format(argv[-1])
        if argv[0] == "systemctl":
            return "{} of the VDU does not {}".format(argv[-1], argv[1])
        if file:
            return "{} cannot use {} of the VDU; it may be empty or damaged".format(argv[0], file)
        if argv[0] == "nft":
            return self._rules()
        name = "a program of the charm" if argv[0] == "python3" else " ".join(argv[:4])
        for text, sentence in _SAID:
            if sentence and text in self.why:
                return "{} failed: {}".format(name, sentence)
        last = (self.why.splitlines() or [""])[-1].rpartition(": ")[2]
        return "{} failed on the VDU ({})".format(name, printable(last)[:200])

    def _rules(self) -> str:
        """Return why nftables refuses our rules."""
        for text, sentence in _REFUSED_RULES:
            if text in self.why:
                return sentence
        found = re.search("Error: (.*)", self.why)
        said = printable(found.group(1))[:200] if found else "nothing"
        return "nft of the VDU refuses our rules and says: {}".format(said)


def printable(text: str) -> str:
    """Return what a VDU said, without control characters."""
    return "".join(character for character in text if character.isprintable())


class Results:
    """What the agent reported, by step id."""

    def __init__(
        self,
        results: Mapping[str, Json],
        failed: Optional[str] = None,
        broken: Optional[Mapping[str, Broken]] = None,
        at: Optional[Broken] = None,
    ) -> None:
        self._results = results
        self.failed = failed  # Why it did not run all steps, None if it did.
        self.at = at  # The step that failed for all, None if another reason ended them.
        self.broken = dict(broken or {})  # The step that failed, by its part.

    @classmethod
    def from_json(
        cls,
        text: str,
        steps: Sequence[Step] = (),
        known: Optional[FileCache] = None,
        mark: str = "",
    ) -> "Results":
        """Read the agent's answer to steps; cache and mark are those that `program` got."""
        if mark:
            parts = text.split(hashlib.sha256(mark.encode()).hexdigest())
            if len(parts) != 3:
                said = " ".join(text.split())[:200]
                what = "the VDU did not run the agent, it printed {}"
                raise VduError(what.format(fields.shown(said) if said else "nothing"))
            text = parts[1]
        try:
            document = json.loads(_unpack(text) if text.startswith(_PACKED) else text)
            results, failed = document["results"], document["failed"]
            sent = {step.id: step for step in steps}
            broken = {
                part: Broken(sent[cause["id"]], str(cause["why"]))
                for part, cause in document.get("broken", {}).items()
            }
            at = sent.get(document.get("at", "")) if failed else None
            _check(results, [failed or "", *broken, *(cause.why for cause in broken.values())])
            for step in steps:
                if known is not None and step.id in results:
                    file_cache.learn(known, step, results[step.id])
            return cls(results, failed, broken, Broken(at, str(failed)) if at else None)
        except (zlib.error, *MALFORMED):
            raise VduError("the VDU answered something that is not an agent's result")

    def __contains__(self, id: str) -> bool:
        """Tell whether the step was reached."""
        return id in self._results

    def ids(self) -> List[str]:
        """Return the ids of all steps that were reached."""
        return list(self._results)

    def check(self) -> "Results":
        """Raise VduError if a step failed."""
        if self.failed is not None:
            what = meaning(self.failed) or printable(self.failed)
            raise VduError(self.at.sentence() if self.at else what)
        return self

    def text(self, id: str) -> Optional[str]:
        """Return the text of `read`, None for a missing file."""
        value = self._results.get(id, {}).get("text")
        return None if value is None else str(value)

    def ours(self, id: str) -> bool:
        """Tell whether `read` found a file, and not one of somebody else."""
        return self.text(id) not in (None, FOREIGN)

    def out(self, id: str) -> Optional[str]:
        """Return standard output of `run`, None if it was skipped, failed or not reached."""
        result = self._results.get(id, {})
        return str(result.get("out", "")) if result.get("code") == 0 else None

    def output(self, id: str) -> str:
        """Return standard output of `run` whatever its exit code, "" if it did not run."""
        return str(self._results.get(id, {}).get("out", ""))

    def exit_code(self, id: str) -> Optional[int]:
        """Return the exit code of `run`, None if it was skipped or not reached."""
        value = self._results.get(id, {}).get("code")
        return None if value is None else int(value)

    def error(self, id: str) -> str:
        """Return standard error of `run`."""
        return str(self._results.get(id, {}).get("err", ""))

    def why(self, id: str) -> str:
        """Return a sentence of ours on why a program failed; no text of a tool."""
        code = self.exit_code(id)
        what = "its program on the VDU failed" + (" with exit code {}".format(code) if code else "")
        return meaning(self.failed or self.error(id)) or what

    def paths(self, id: str) -> Dict[str, Optional[str]]:
        """Return the paths that `which` found, None for a missing program."""
        return dict(self._results.get(id, {}).get("found", {}))


_SAID = (
    # Sentences of the agent stay.
    ("did not end within", ""),
    ("is not installed", ""),
    ("printed more than", ""),
    ("another reconcile holds", ""),
    (": not found", "the VDU has no such program; its image or Day-0 cloud-init must install it"),
    ("MemoryError", "the VDU has no memory left"),
    ("No space left", "the VDU's disk is full"),
    ("Read-only file system", "the VDU's disk is read-only"),
    ("Permission denied", "the VDU does not let the charm's user do that"),
    ("ailed to connect to bus", "systemd of the VDU does not answer"),
    ("No such device", "the VDU has no such interface"),
    ("URI failed", "charon takes no commands there; its plugin vici may be off"),
    ("no such container", "its container does not run"),
    ("No such container", "its container does not run"),
)
"""What tools say and what it means, for `Results.why`."""
_PACKED = "packed "


def meaning(said: str) -> str:
    """Return our sentence for what a tool or the agent said, "" without one."""
    return next((sentence or said for text, sentence in _SAID if text in said), "")


def _check(results: Mapping[str, Json], reasons: Sequence[str]) -> None:
    """Raise an error if the agent does not report such data; a hostile VDU may answer anything."""
    texts = [*results, *reasons]
    for result in results.values():
        if type(result.get("code", 0)) is not int:
            raise TypeError("an exit code is no number")
        texts += [result.get("out", ""), result.get("err", "")]
        found = list(result.get("found", {}).values())
        texts += [text for text in [result.get("text")] + found if text is not None]
    for text in texts:
        text.encode("utf-8")


def _unpack(text: str) -> str:
    inflater = zlib.decompressobj()
    data = inflater.decompress(base64.b64decode(text[len(_PACKED) :]), MOST)
    if inflater.unconsumed_tail:
        raise ValueError("more than {} bytes".format(MOST))
    return data.decode("utf-8")


def program(
    steps: Sequence[Step],
    exclusive: bool = True,
    known: Optional[FileCache] = None,
    mark: str = "",
) -> str:
    """Return the Python text to feed to `python3 -` on the VDU.

    The request is embedded as a string literal of ASCII, JSON or compressed JSON, so it stays data.
    An exclusive one takes the VDU's reconcile lock; measurements run beside reconciles. Text that
    is `known` of the VDU's files is not sent again. The answer is between two digests of `mark`,
    which nobody can guess.
    """
    ids = [step.id for step in steps]
    if len(set(ids)) != len(ids):
        raise ValueError("step ids repeat: {}".format(sorted(ids)))
    listed = file_cache.wire(steps, known)
    request = json.dumps({"steps": listed, "exclusive": exclusive})
    if len(request) > MOST:
        raise VduError("the plan for the VDU is too large ({} bytes)".format(len(request)))
    if len(request) > _PLAIN:
        request = _PACKED + base64.b64encode(zlib.compress(request.encode())).decode("ascii")
    return "{}\n\nmain({!r}, {!r})\n".format(source("agent.py"), request, mark)


def changes(steps: Sequence[Step]) -> List[Tuple[str, str]]:
    """Return (kind, id) of steps for logs, without arguments and content."""
    return [(str(step.body["do"]), step.id) for step in steps]
