"""Executor of typed steps; this file is sent to the VDU and runs there as root.

It imports the standard library only and runs on every Python from 3.6 on. It decides nothing: the
pure core makes the steps (`steps.py` documents each kind). Program arguments are vectors, so no
value from a peer reaches a shell. Files are replaced atomically.
"""

import base64
import contextlib
import fcntl
import glob
import hashlib
import json
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from typing import Any, Callable, Dict, List, Optional

Json = Dict[str, Any]

LOCK = "/run/osm-vpnaas.lock"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where programs are looked for after PATH, which a profile of the VDU may have changed."""
NAMES = "timeout:2 attempts:2"
"""resolv.conf(5): three name servers that drop cost 20 s, and not a program's whole time."""
OUTPUT_LIMIT = 32 << 20
PLAIN = 4096
PACKED = "packed "


class StepError(Exception):
    """One step did not reach its goal; the text says why."""


def _put(path: str, data: bytes, mode: int) -> None:
    folder = os.path.dirname(path)
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".osm-vpnaas-")
    try:
        os.fchmod(handle, mode)
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _get(path: str) -> Optional[bytes]:
    try:
        with open(path, "rb") as stream:
            data = b""
            # In pieces: the kernel refuses to read megabytes at once of a file of /proc/sys.
            for piece in iter(lambda: stream.read(1 << 16), b""):
                data += piece
                if len(data) > OUTPUT_LIMIT:
                    raise StepError("{} has more than {} bytes".format(path, OUTPUT_LIMIT))
    except FileNotFoundError:
        return None
    return data


def _replace(path: str, data: bytes, mode: int) -> Json:
    if _get(path) != data or os.stat(path).st_mode & 0o777 != mode:
        _put(path, data, mode)
    return {}


def _folder(path: str) -> None:
    if not os.path.isdir(path):
        _folder(os.path.dirname(path))
        os.mkdir(path)
        # Programs that do not run as root lie there too.
        os.chmod(path, 0o755)  # noqa: S103


def write(step: Json) -> Json:
    """Replace a file if content or mode differ; missing folders are made."""
    _folder(os.path.dirname(step["path"]))
    return _replace(step["path"], step["text"].encode(), step["mode"])


def patch(step: Json) -> Json:
    """Replace the middle of a file, if the file has the expected digest."""
    data = _get(step["path"])
    if data is None or hashlib.sha256(data).hexdigest() != step["of"]:
        raise StepError("{} has changed since it was read".format(step["path"]))
    text = data.decode()
    text = text[: step["start"]] + step["text"] + text[len(text) - step["end"] :]
    return _replace(step["path"], text.encode(), step["mode"])


def is_theirs(data: bytes, mark: str) -> bool:
    """Tell whether somebody else wrote a file: ours begin with the mark; an empty one is free."""
    return bool(data.strip()) and not data.startswith(mark.encode())


def read(step: Json) -> Json:
    """Read a file; the text is left out if the charm has it already.

    The text of somebody else may have secrets: it stays on the VDU, and `foreign` is the answer.
    """
    data = _get(step["path"])
    if data is not None and is_theirs(data, step.get("mark", "")):
        data = step["foreign"].encode()
    if data is not None and hashlib.sha256(data).hexdigest() == step.get("known"):
        return {"same": True}
    return {"text": None if data is None else data.decode("utf-8", "replace")}


def remove(step: Json) -> Json:
    """Remove a file, but not one of somebody else."""
    mark = step.get("mark")
    with contextlib.suppress(FileNotFoundError):
        if not (mark and is_theirs(_get(step["path"]) or b"", mark)):
            os.unlink(step["path"])
    return {}


def move(step: Json) -> Json:
    os.replace(step["source"], step["path"])
    return {}


def directory(step: Json) -> Json:
    os.makedirs(step["path"], mode=step["mode"], exist_ok=True)
    os.chmod(step["path"], step["mode"])
    return {}


def which(step: Json) -> Json:
    return {"found": {name: shutil.which(name) for name in step["names"]}}


def authorize(step: Json) -> Json:
    account = pwd.getpwnam(step["user"])
    folder = os.path.join(account.pw_dir, ".ssh")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    os.chown(folder, account.pw_uid, account.pw_gid)
    path = os.path.join(folder, "authorized_keys")
    present = (_get(path) or b"").decode("utf-8", "replace").splitlines()
    missing = [key for key in step["keys"] if not any(key in line for line in present)]
    if missing:
        _put(path, ("\n".join(present + missing) + "\n").encode(), 0o600)
        os.chown(path, account.pw_uid, account.pw_gid)
    return {}


def machine(step: Json) -> Json:
    """Tell whether this machine made what charms have left; it is noted where nothing is left.

    A result without "text" says that another one did. The number of an instance and the serial
    number of the board decide; the machine id does where neither is known.
    """
    now = {}
    for name, path in step["identities"].items():
        with contextlib.suppress(OSError):
            now[name] = (_get(path) or b"").decode("utf-8", "replace").strip()
    # cloud-init that finds no cloud calls the instance so.
    now = {name: text for name, text in now.items() if text not in ("", "iid-datasource-none")}
    try:
        noted = dict(json.loads((_get(step["path"]) or b"null").decode("utf-8", "replace")) or {})
    except (TypeError, ValueError):
        noted = {}
    if not noted and not any(
        os.path.basename(path.rstrip("/")) not in step["kept"]
        for pattern in step["left"]
        for path in glob.glob(pattern)
    ):
        noted = now
    weak = step["weak"]
    common = [name for name in now if name in noted]
    deciding = [name for name in common if name != weak] or common
    if (deciding or not now) and all(now[name] == noted[name] for name in deciding):
        _folder(os.path.dirname(step["path"]))
        text = json.dumps(dict(noted, **now), sort_keys=True)
        _replace(step["path"], text.encode(), 0o600)
        return {"text": " ".join(now[name] for name in deciding if name != weak)}
    return {"text": None}


def run(step: Json) -> Json:
    """Run a program and report its exit code and output; nothing where it is skipped."""
    if step.get("unless") and os.path.exists(step["unless"]):
        return {}
    if step.get("only_if") and not os.path.exists(step["only_if"]):
        return {}
    if step.get("stdin_file"):
        stdin = _get(step["stdin_file"])
        if stdin is None:
            raise StepError("{} does not exist".format(step["stdin_file"]))
    else:
        stdin = (step.get("stdin") or "").encode()
    argv = step["argv"]
    try:
        done = subprocess.run(
            argv,
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=step["timeout"],
            env=dict(os.environ, LC_ALL="C", RES_OPTIONS=NAMES),
            check=False,
        )
    except FileNotFoundError:
        if step.get("any_exit"):
            return {"code": 127, "out": "", "err": argv[0] + ": not found"}
        raise StepError("{} is not installed".format(argv[0]))
    except subprocess.TimeoutExpired:
        raise StepError("{} did not end within {} s".format(argv[0], step["timeout"]))
    error = done.stderr[-2000:].decode("utf-8", "replace").strip()
    if done.returncode and not step.get("any_exit"):
        reason = error or "exit code {}".format(done.returncode)
        raise StepError("{}: {}".format(" ".join(argv[:3]), reason))
    if step.get("stdout_file"):
        if done.returncode == 0:
            _put(step["stdout_file"], done.stdout, 0o600)
        return {"code": done.returncode, "out": "", "err": error}
    if len(done.stdout) > OUTPUT_LIMIT:
        raise StepError("{} printed more than {} bytes".format(argv[0], OUTPUT_LIMIT))
    text = done.stdout.decode("utf-8", "replace")
    if step.get("pick"):
        text = "\n".join(re.findall(step["pick"], text, re.M))
    return {"code": done.returncode, "out": text, "err": error}


_ALL = (write, patch, read, remove, move, directory, which, authorize, machine, run)
KINDS: Dict[str, Callable[[Json], Json]] = {kind.__name__: kind for kind in _ALL}


def _lock(seconds: float) -> None:
    """Lock out other agents until this process ends; a former leader's agent may still run."""
    handle = os.open(LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise StepError("another reconcile holds {}".format(LOCK))
            time.sleep(0.05)


def execute(steps: List[Json], exclusive: bool) -> Json:
    """Run the steps in order; return what each reported.

    A failure ends the steps of its part, and of the parts that need this one. A failure of a step
    without a part ends all.
    """
    results: Json = {}
    broken: Dict[str, Json] = {}
    at = ""
    try:
        if exclusive:
            _lock(30)
        for step in steps:
            part, at = step.get("part", ""), step["id"]
            cause = broken.get(part) or broken.get(step.get("needs", ""))
            try:
                if cause is None:
                    results[step["id"]] = KINDS[step["do"]](step)
            except (StepError, OSError, KeyError) as error:
                if not part:
                    raise
                cause = {"id": step["id"], "why": str(error) or type(error).__name__}
            if cause is not None:
                broken[part] = cause
    except (StepError, OSError, KeyError) as error:
        failed = str(error) or type(error).__name__
        return {"results": results, "failed": failed, "at": at, "broken": broken}
    return {"results": results, "failed": None, "broken": broken}


def main(request: str, mark: str = "") -> None:
    """Run a request; the SSH edge appends the call, with the request as a string literal.

    The digest of `mark` goes before and after the answer: the shell may print text of its own.
    """
    os.umask(0o077)
    os.environ["PATH"] = "{}:{}".format(os.environ.get("PATH", ""), PATH).lstrip(":")
    if request.startswith(PACKED):
        request = zlib.decompress(base64.b64decode(request[len(PACKED) :])).decode()
    answer = json.dumps(execute(**json.loads(request)))
    if len(answer) > PLAIN:
        answer = PACKED + base64.b64encode(zlib.compress(answer.encode())).decode("ascii")
    end = hashlib.sha256(mark.encode()).hexdigest() if mark else ""
    sys.stdout.write(end + answer + end)
