"""What is the machine's: labs beside each other keep it, the last one puts it back."""

import json
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lab.cli.commands import main
from lab.vim import host
from lab.vim.account import Vim, clean
from lab.vim.model import PortSpec, ServerSpec
from lab.vim.store import Home

pytestmark = pytest.mark.lab

LIMIT = "fs/inotify/max_user_instances"
USUAL, WANTED = "128", str(host.LEAST[LIMIT])


@pytest.fixture
def limit(lab_machine: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file in place of a kernel setting, which other runs on this machine need."""
    for name in host.LEAST:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(USUAL)
    monkeypatch.setattr(host, "SETTINGS", tmp_path)
    monkeypatch.setattr(host, "REGISTRY", tmp_path / "registry")
    yield tmp_path / LIMIT
    if (mount := tmp_path / "registry/cgroup").is_mount():
        subprocess.run(["umount", mount], check=True)


def lab(path: Path) -> Home:
    """A lab with a record of an account."""
    (path / "vims").mkdir(parents=True, exist_ok=True)
    return Home.at(path)


def test_the_last_lab_puts_the_limit_back(limit: Path, tmp_path: Path) -> None:
    first, second = lab(tmp_path / "first"), lab(tmp_path / "second")
    host.join(first)
    host.join(second)
    host.join(first)
    host.leave(first)
    assert limit.read_text() == WANTED
    host.leave(second)
    assert limit.read_text() == USUAL
    host.leave(second)
    assert limit.read_text() == USUAL


def test_labs_that_come_and_go_at_the_same_time_always_have_the_limit(
    limit: Path, tmp_path: Path
) -> None:
    def use(number: int) -> None:
        home = lab(tmp_path / str(number))
        for _ in range(25):
            host.join(home)
            assert limit.read_text() == WANTED
            host.leave(home)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(use, range(8)))
    assert limit.read_text() == USUAL


def test_a_limit_that_somebody_else_set_stays(limit: Path, tmp_path: Path) -> None:
    home = lab(tmp_path / "lab")
    host.join(home)
    limit.write_text("8192")
    host.leave(home)
    assert limit.read_text() == "8192"
    host.join(home)
    host.leave(home)
    assert limit.read_text() == "8192"


def test_a_lab_whose_directory_was_removed_does_not_count(limit: Path, tmp_path: Path) -> None:
    lost, home = lab(tmp_path / "lost"), lab(tmp_path / "lab")
    host.join(lost)
    host.join(home)
    shutil.rmtree(lost.path)
    host.leave(home)
    assert limit.read_text() == USUAL


def test_the_labs_of_a_machine_are_listed_with_their_disk(
    limit: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, gone = lab(tmp_path / "one"), lab(tmp_path / "gone")
    for home in (one, gone):
        host.join(home)
    (one.path / "disk").write_bytes(b"x" * (3 << 20))
    shutil.rmtree(gone.path)
    (tmp_path / "own").mkdir()
    main(["--home", str(tmp_path / "own"), "--json", "lab", "list"])
    row, own = json.loads(capsys.readouterr().out)
    assert (row["home"], row["services"], 3 <= row["MiB"] <= 4) == (str(one.path), 0, True)
    assert own["home"] == str(tmp_path / "own")
    assert row["namespaces"] == f"{one.prefix}-*"


VERB = textwrap.dedent(
    """
    import sys, time
    from pathlib import Path
    from lab.vim import host
    from lab.vim.account import Vim
    from lab.vim.model import PortSpec, ServerSpec
    host.SETTINGS, host.REGISTRY = Path(sys.argv[2]), Path(sys.argv[3])
    vim = Vim.create(sys.argv[1], "killed")
    vim.create_server(ServerSpec("a", "a", "ubuntu22.04", 1, 512, 1,
                                 (PortSpec(vim.management_network().id),)), "ns")
    print("made", flush=True)
    time.sleep(60)
    """
)


def test_a_lab_goes_on_when_another_ends_or_is_killed(limit: Path, tmp_path: Path) -> None:
    """The other's end, its SIGKILL and the clean-up after it: here tunnels still come up."""
    own, other, killed = tmp_path / "own", tmp_path / "other", tmp_path / "killed"
    try:
        Vim.create(other, "v")
        vim = Vim.create(own, "v")
        spec = ServerSpec(
            "s", "s", "ubuntu22.04", 1, 512, 1, (PortSpec(vim.management_network().id),)
        )
        server = vim.create_server(spec, "ns").id
        words = [sys.executable, "-c", VERB, killed, tmp_path, host.REGISTRY]
        with subprocess.Popen(
            words, cwd=Path(__file__).resolve().parents[3], stdout=subprocess.PIPE, text=True
        ) as verb:
            assert verb.stdout
            assert verb.stdout.readline() == "made\n"
            verb.send_signal(signal.SIGKILL)
        vim.wait_active(server)
        Vim.open(other, "v").destroy()
        assert limit.read_text() == WANTED
        key = vim.console(server, ["wg", "genkey"]).stdout
        config = f"[Interface]\nPrivateKey = {key}"
        assert vim.console(server, ["tee", "/etc/wireguard/wg0.conf"], config).returncode == 0
        assert vim.console(server, ["systemctl", "start", "wg-quick@wg0"]).returncode == 0
        clean(own)
        # The killed one's server still runs, so it still counts.
        assert limit.read_text() == WANTED
        clean(killed)
        assert limit.read_text() == USUAL
    finally:
        for home in (own, other, killed):
            clean(home)
