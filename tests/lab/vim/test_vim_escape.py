"""Root in a VDU tries to reach the machine; each attempt works for root of the machine.

An attempt is harmless where it succeeds: it opens, or writes what is there already.
"""

import ctypes
import errno
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from vim_support import Boot

from lab.vim import cloudinit, namespaced
from lab.vim import keeper as program
from lab.vim.account import Vim
from lab.vim.model import ACTIVE, BUILD, Server, ServerSpec

pytestmark = pytest.mark.lab

#: A directory of the machine that the VDU shows.
BIND = "/usr/lib/osm-lab/site-packages"

COMMON = """
import ctypes, os, stat, sys, tempfile
libc = ctypes.CDLL(None, use_errno=True)
shown, place = sys.argv[1], tempfile.mkdtemp()

def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result

def mount(source, kind, flags=0):
    checked(libc.mount(source.encode(), place.encode(), kind and kind.encode(), flags, None))

def rewrite(path):
    with open(path) as file:
        text = file.read()
    with open(path, "w") as file:
        file.write(text)
"""

ATTEMPTS = {
    # The way of "shocker": any file of a file system of which one directory is shown.
    "file handle": """
handle = ctypes.create_string_buffer(136)
ctypes.cast(handle, ctypes.POINTER(ctypes.c_uint))[0] = 128
checked(libc.name_to_handle_at(-100, shown.encode(), handle, ctypes.byref(ctypes.c_int()), 0))
directory = os.open(shown, os.O_RDONLY)
checked(libc.open_by_handle_at(directory, handle, os.O_RDONLY))
""",
    # A program of the machine's that the next crash starts as root.
    "core pattern": """
mount("proc", "proc")
rewrite(place + "/sys/kernel/core_pattern")
""",
    "core pattern below the mounts": """
for name in ("/proc/sys/net", "/proc/sys"):
    checked(libc.umount2(name.encode(), 2)) if os.path.ismount(name) else None
rewrite("/proc/sys/kernel/core_pattern")
""",
    "caches": """
mount("proc", "proc")
os.open(place + "/sys/vm/drop_caches", os.O_WRONLY)
""",
    "sysfs": """
mount("sysfs", "sysfs")
os.open(place + "/kernel/rcu_expedited", os.O_WRONLY)
""",
    "debugfs": 'mount("debugfs", "debugfs")',
    "tracefs": 'mount("tracefs", "tracefs")',
    "kernel log": "checked(libc.klogctl(10, None, 0))",
    "disk": """
node = place + "/disk"
os.mknod(node, stat.S_IFBLK | 0o600, os.stat(shown).st_dev)
os.open(node, os.O_RDONLY)
""",
    "shown directory": """
mount(shown, None, 4096)
MS_REMOUNT, MS_RDONLY = 32 | 4096, 1
checked(libc.mount(None, place.encode(), None, MS_REMOUNT, None))
os.open(os.path.join(place, "attempt"), os.O_WRONLY | os.O_CREAT)
os.unlink(os.path.join(place, "attempt"))
""",
}

#: As a process of a service, and as what an operator runs on the console.
WAYS = {"service": ["systemd-run", "--quiet", "--wait", "--pipe"], "console": []}


@pytest.fixture(scope="module")
def vdu(boot: Boot, spec: Callable[..., ServerSpec]) -> Server:
    return boot(spec("prisoner"), tag="escape")[0]


@pytest.fixture(scope="module")
def machine_can(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], bool]:
    """Tell whether root of the machine succeeds, in mounts of its own that end with the try."""
    directory = tmp_path_factory.mktemp("shown")
    space = ["unshare", "--mount", "--pid", "--fork", "--propagation", "private"]

    def can(code: str) -> bool:
        words = [*space, sys.executable, "-c", COMMON + code, str(directory)]
        return subprocess.run(words, capture_output=True, check=False).returncode == 0

    return can


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ATTEMPTS)
def test_attempt_fails(
    vim: Vim, vdu: Server, machine_can: Callable[[str], bool], name: str, way: str
) -> None:
    if vim.server(vdu.id).notes[-1:] and "root of the machine" in vim.server(vdu.id).notes[-1]:
        pytest.skip(vim.server(vdu.id).notes[-1])
    if not machine_can(ATTEMPTS[name]):
        pytest.skip("this machine's kernel or file system has no such thing")
    words = [*WAYS[way], "python3", "-c", COMMON + ATTEMPTS[name], BIND]
    done = vim.console(vdu.id, words)
    assert done.returncode == 1, done
    assert "PermissionError" in done.stderr or "OSError: [Errno" in done.stderr


def test_controls_hold_here(machine_can: Callable[[str], bool]) -> None:
    """Where these two were skipped, nothing above would be shown."""
    assert machine_can(ATTEMPTS["core pattern"])
    assert machine_can(ATTEMPTS["file handle"])


#: What root of a VDU puts in the place of cloud-init's result, and the status the server has then.
RESULTS = {
    "link to the machine's files": ("rm -r $data; ln -s {outside} $data", BUILD),
    "link on the way": ("rm -r /run/cloud-init; ln -s {outside} /run/cloud-init", BUILD),
    "link to no end": ("ln -sf /dev/zero $data/result.json", BUILD),
    "FIFO": ("rm $data/result.json; mkfifo $data/result.json", BUILD),
    "no end": ("truncate -s 1T $data/result.json", BUILD),
    "other JSON": ("echo '[]' >$data/result.json", ACTIVE),
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_of_cloud_init_leads_nowhere(
    vim: Vim, vdu: Server, tmp_path: Path, name: str
) -> None:
    (tmp_path / "result.json").write_text('{"v1": {"errors": []}}')
    script, status = RESULTS[name]
    keep = "cp -a $data /run/kept; cp -a /run/cloud-init /run/kept-run; set -e; "
    back = "rm -rf $data /run/cloud-init; mv /run/kept $data; mv /run/kept-run /run/cloud-init"
    data = "data=/var/lib/cloud/data; "
    vim.console(vdu.id, ["sh", "-c", data + keep + script.format(outside=tmp_path)])
    seen: list[str] = []
    look = threading.Thread(target=lambda: seen.append(vim.server(vdu.id).status), daemon=True)
    look.start()
    look.join(10)
    vim.console(vdu.id, ["sh", "-c", data + back])
    assert seen == [status]
    assert vim.server(vdu.id).status == ACTIVE


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        (b"", None),
        (b'{"v1": ', None),
        (b'{"v1": {"errors": ["a", 1]}}', ["a", "1"]),
        *[
            (text, ["its result.json is not what cloud-init writes"])
            for text in (b"[]", b"null", b'{"v1":[]}', b'{"v1":{"errors":5}}', b"[" * 65536)
        ],
    ],
)
def test_any_result_of_cloud_init_is_understood(text: bytes, errors: list[str] | None) -> None:
    assert cloudinit.result_errors(text) == errors


def test_root_is_somebody_else_of_its_own(
    vim: Vim, vdu: Server, boot: Boot, spec: Callable[..., ServerSpec]
) -> None:
    other = boot(spec("neighbour"), tag="escape")[0]

    def first(one: Server) -> str:
        return vim.console(one.id, ["cat", "/proc/self/uid_map"]).stdout.split()[1]

    assert len({"0", first(vdu), first(other)}) == 3


def test_a_machine_that_cannot_map_users_says_so(
    vim: Vim, boot: Boot, spec: Callable[..., ServerSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(namespaced, "why_shared_users", lambda: "a reason")
    made = boot(spec("plain"), tag="plain")[0]
    assert "root in it is root of the machine: a reason" in made.notes
    assert vim.console(made.id, ["systemctl", "--failed", "--no-legend"]).stdout == ""
    words = ["python3", "-c", COMMON + ATTEMPTS["file handle"], BIND]
    assert vim.console(made.id, words).returncode == 1
    assert vim.console(made.id, [*WAYS["service"], *words]).returncode == 1
    vim.delete_tag("plain")


#: What a program of the VDU finds when an operator runs a command.
FOUND = """
import os
# Before ctypes is there: libffi 3.5 opens itself.
opened = [os.readlink("/proc/self/fd/" + n) for n in os.listdir("/proc/self/fd")
          if n not in "012" and os.path.exists("/proc/self/fd/" + n)]
import ctypes, json
libc = ctypes.CDLL(None, use_errno=True)
def call(*words):
    return 0 if libc.syscall(*words) >= 0 else ctypes.get_errno()
status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
print(json.dumps({
    "seccomp": status["Seccomp"].strip(),
    "io_uring": call(425, 1, ctypes.create_string_buffer(256)),
    "keyctl": call(NUMBER, 0, -3, 0),
    "open": opened,
    "group": open("/proc/self/cgroup").read().splitlines()[-1],
    "capabilities": int(status["CapBnd"], 16) >> 16 & 1,
}))
"""


@pytest.mark.parametrize("replaced", [False, True])
def test_a_command_of_the_operator_has_no_more_rights_than_the_vdu(
    vim: Vim, vdu: Server, replaced: bool
) -> None:
    """Root of the VDU may have put its own programs in the place of those that enter it."""
    column = 0 if os.uname().machine == "x86_64" else 1
    number = program.REFUSED_CALLS["keyctl"][column]
    # The operator has a key, and a file open.
    libc = ctypes.CDLL(None, use_errno=True)
    add = program.REFUSED_CALLS["add_key"][column]
    libc.syscall(add, b"user", b"operators", b"secret", 6, -3)
    marked = "#!/usr/bin/python3\nopen('/run/replaced', 'a').write('ran')\n"
    places = [f"/usr/bin/{name}" for name in ("bash", "setpriv", "nsenter")]
    if replaced:
        for path in places:
            words = ["sh", "-c", f"mv {path} {path}.own; cat > {path}; chmod 755 {path}"]
            assert vim.console(vdu.id, words, marked).returncode == 0
    try:
        words = ["python3", "-c", FOUND.replace("NUMBER", str(number))]
        found = json.loads(vim.console(vdu.id, words).stdout)
    finally:
        for path in places if replaced else ():
            vim.console(vdu.id, ["mv", f"{path}.own", path])
    assert (found["seccomp"], found["open"], found["capabilities"]) == ("2", [], 0)
    assert found["io_uring"] == found["keyctl"] == errno.ENOSYS
    assert found["group"].endswith("/console"), found
    assert vim.console(vdu.id, ["cat", "/run/replaced"]).returncode == 1


def test_a_command_that_is_not_there_or_dies_is_told(vim: Vim, vdu: Server) -> None:
    done = vim.console(vdu.id, ["no-such-program"])
    assert (done.returncode, done.stderr) == (127, "no-such-program: No such file or directory\n")
    assert vim.console(vdu.id, ["/etc/passwd"]).returncode == 126
    assert vim.console(vdu.id, ["sh", "-c", "kill -TERM $$"]).returncode == -15
    assert vim.console(vdu.id, ["sh", "-c", "exit 7"]).returncode == 7


def test_the_keys_of_the_operators_session_stay_outside() -> None:
    code = f"""
import ctypes, sys
sys.path.insert(0, {str(Path(program.__file__).parent)!r})
import keeper
column = 0 if keeper.platform.machine() == "x86_64" else 1
keyctl, add = keeper.REFUSED_CALLS["keyctl"][column], keeper.REFUSED_CALLS["add_key"][column]
keeper.new_keyring()
assert keeper._libc.syscall(add, b"user", b"operators", b"secret", 6, -3) > 0
def seen():
    return keeper._libc.syscall(keyctl, 10, -3, b"user", b"operators", 0) > 0
before = seen()
keeper.new_keyring()
print(before, seen())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if "not implemented" in done.stderr:
        pytest.skip("this kernel has no keys")
    assert done.stdout == "True False\n", done.stderr
