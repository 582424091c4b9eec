"""The set-up installs packages without starting their services, also beside another set-up."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"

#: Stands for apt-get: an installation that takes a while and then looks for the policy.
STUBS = """
set -eu
say() { :; }
fail() { echo "$*"; exit 1; }
apt_missing() { [ -e "$cache/done" ] || echo a-package; }
apt-get() {
    [ "$1" = install ] || return 0
    sleep "$seconds"
    grep -q "exit 101" "$policy"
    touch "$cache/done"
}
"""


@pytest.fixture
def install(tmp_path: Path) -> str:
    """A script that does what ./run does to install a package."""
    text = (TOOLS / "packages.sh").read_text(encoding="utf-8")
    part = (TOOLS / "say.sh").read_text(encoding="utf-8").partition("# Run a command")[2]
    part = f"#{part}\n{text[text.index('policy=/usr/sbin/policy-rc.d') :]}"
    part = part.replace("/usr/sbin/policy-rc.d", str(tmp_path / "policy"))
    (lock,) = re.findall("8>(/.*setup) ", part)
    assert Path(lock).parent == Path("/run"), "no other folder is there on every machine"
    part = part.replace(lock, str(tmp_path / "lock"))
    return f"{STUBS}\n{part}\ninstalled=$cache/installed\napt_install a-package\n"


def start(script: str, cache: Path, seconds: float) -> subprocess.Popen[bytes]:
    cache.mkdir()
    return subprocess.Popen(
        ["bash", "-c", f"cache={cache} seconds={seconds}\n{script}"], start_new_session=True
    )


def test_two_setups_at_a_time(install: str, tmp_path: Path) -> None:
    both = [start(install, tmp_path / "a", 0.3), start(install, tmp_path / "b", 0.6)]
    assert [one.wait(120) for one in both] == [0, 0]
    assert not (tmp_path / "policy").exists()


def test_policy_of_a_killed_setup_goes_with_the_next(install: str, tmp_path: Path) -> None:
    with start(install, tmp_path / "a", 5) as killed:
        while not (tmp_path / "policy").exists():
            assert killed.poll() is None
        killed.kill()
    assert (tmp_path / "policy").exists()
    assert start(install, tmp_path / "b", 0).wait(120) == 0
    assert not (tmp_path / "policy").exists()


def test_policy_of_the_machine_stays(install: str, tmp_path: Path) -> None:
    text = "#!/bin/sh\nexit 101 # the administrator's\n"
    (tmp_path / "policy").write_text(text)
    assert start(install, tmp_path / "a", 0).wait(120) == 0
    assert (tmp_path / "policy").read_text() == text


@pytest.mark.parametrize("end", ["false", "sleeps"])
def test_what_an_incomplete_setup_installed_is_known_too(
    install: str, tmp_path: Path, end: str
) -> None:
    """`clean --all` removes it, and its service does not start at the next boot.

    Either apt-get fails, or the user interrupts the set-up.
    """
    (tmp_path / "cloud").mkdir()
    stubs = f"""
        cache={tmp_path}
        apt_missing() {{ for name; do [ -e "$cache/$name" ] || echo "$name"; done; }}
        apt-get() {{ [ "$1" != install ] || {{ touch "$cache"/wrk "$cache"/cloud-init; {end}; }}; }}
        sleeps() {{ bash -c ': >"$0/asleep"; exec sleep 60' "$cache"; }}
    """
    script = install.replace("apt_install a-package", "apt_install bad cloud-init wrk")
    script = script.replace("/etc/cloud", str(tmp_path / "cloud"))
    marker = "policy=" + str(tmp_path)
    script = script.replace(marker, stubs + marker)
    # These tests may run where interrupts are ignored.
    command = ["env", "--default-signal=INT", "bash", "-c", script]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as done:
        if end == "sleeps":
            while not (tmp_path / "asleep").exists():
                assert done.poll() is None
            os.killpg(done.pid, signal.SIGINT)
        said = done.communicate(timeout=120)[0]
    assert done.returncode == (1 if end == "false" else -signal.SIGINT)
    assert ("apt-get failed, see" in said) == (end == "false")
    assert (tmp_path / "installed").read_text().split() == ["cloud-init", "wrk"]
    assert (tmp_path / "cloud" / "cloud-init.disabled").exists()
    assert not (tmp_path / "policy").exists()


@pytest.mark.parametrize("name", ["cloud-init", "cloud-init-base"])
def test_clean_leaves_a_cloud_init_that_it_did_not_install_as_it_is(
    tmp_path: Path, name: str
) -> None:
    text = (TOOLS / "clean.sh").read_text(encoding="utf-8")
    part = text[text.index('if [ "${1:-}" = --all ] && [ -s') : text.rindex("}")]
    disabled = tmp_path / "cloud-init.disabled"
    disabled.touch()
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache/installed").write_text(f"wrk\n{name}\n")
    stubs = "say() { :; }; xargs() { :; }; cache=cache; venv=venv; installed=cache/installed"
    script = f"{stubs}\n{part.replace('/etc/cloud', str(tmp_path))}"
    subprocess.run(["bash", "-euc", script, "run", "--all"], cwd=tmp_path, check=True)
    assert disabled.exists() == (name != "cloud-init")
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("clean --help", 0), ("clean -h", 0), ("clean --al", 2), ("clean --all x", 2),
        ("setup --help", 0), ("setup --kubernets", 2), ("containers --help", 0),
        ("containers x", 2), ("check --help", 0), ("check x", 2),
    ],
)  # fmt: skip
def test_a_command_does_nothing_for_a_word_that_it_does_not_know(
    words: str, code: int, tmp_path: Path
) -> None:
    for name in ("dist", "results", "site"):
        (tmp_path / name).mkdir()
    done = command(words, tmp_path)
    assert done.returncode == code
    assert "usage: ./run COMMAND" in (done.stderr if code else done.stdout)
    assert "did" not in done.stdout
    assert len(list(tmp_path.iterdir())) == 3


def test_clean_and_setup_take_their_option(tmp_path: Path) -> None:
    for words in ("clean", "clean --all"):
        (tmp_path / "dist").mkdir()
        assert (command(words, tmp_path).returncode, list(tmp_path.iterdir())) == (0, [])
    assert command("setup", tmp_path).stdout == "did setup\n"
    assert command("setup --kubernetes", tmp_path).stdout == "did setup\ndid setup_kubernetes\n"


@pytest.mark.parametrize(
    ("words", "did"),
    [
        ("experiments report DIR", "did setup_python\ndid exec\n"),
        ("experiments run --osm X", "did setup_python\ndid build\ndid exec\n"),
        ("experiments run", "did setup\ndid build\ndid exec\n"),
    ],
)
def test_a_report_needs_nothing_of_the_lab(words: str, did: str, tmp_path: Path) -> None:
    """Neither root nor packages of the distribution."""
    assert command(words, tmp_path).stdout == did


def command(words: str, place: Path) -> subprocess.CompletedProcess[str]:
    """Run the part of ./run that looks at its arguments, in a place without a lab."""
    parts = [
        (TOOLS / f"{name}.sh").read_text(encoding="utf-8")
        for name in ("campaigns", "clean", "images", "tests")
    ]
    asks = (TOOLS / "say.sh").read_text(encoding="utf-8").partition("# Whether one of")[2]
    run = (TOOLS.parent / "run").read_text(encoding="utf-8").partition("cmd=${1:-}")[2]
    names = ("apt_install", "build", "setup", "setup_kubernetes", "setup_python", "static_checks")
    stubs = "".join(f"{name}() {{ echo did {name}; }}\n" for name in names)
    stubs += (
        "need_root() { :; }; xargs() { :; }; say() { :; }; exec() { echo did exec; exit; }\n"
        'fail() { echo "ERROR: $*" >&2; exit 1; }; patiently() { echo did patiently; }\n'
        f"usage() {{ cat {TOOLS}/usage.txt; }}; packages=() machine_packages=()\n"
        "container_packages=() cache=$PWD/cache venv=$PWD/venv installed=$PWD/cache/installed\n"
    )
    texts = "\n".join([*parts, f"# {asks}"]).replace('"$venv/bin/python" tools/needs.py', "echo")
    script = f"{texts}\n{stubs}\ncmd=${{1:-}}{run}"
    return subprocess.run(["bash", "-euc", script, "run", *words.split()], cwd=place,
                          capture_output=True, text=True, check=False)  # fmt: skip


@pytest.mark.parametrize(
    ("words", "needed"),
    [
        ("--profile machines", ["qemu", "vpn_endpoint_vnf", "vpn_basic_ns"]),
        ("--profile epc-load", ["hss_vnf", "enb_vnf", "epc_ns"]),
        ("--profile=5g", ["amf_vnf", "5gc_slice_ns", "urllc_5g_nst"]),
        ("--profile full", ["hss_vnf", "hss_vnf_double", "epc_ns_double", "urllc_nst"]),
        ("--osm https://x --vim v", ["hss_vnf", "epc_ns", "embb_nst"]),
        ("--slice a --slice b", []),
        ("--osm https://x --vim v --profile=machines", None),
    ],
)
def test_a_profile_has_what_it_brings_up(words: str, needed: list[str] | None) -> None:
    done = subprocess.run(
        [sys.executable, TOOLS / "needs.py", "experiments", *words.split()],
        capture_output=True,
        text=True,
        check=False,
    )
    if needed is None:
        assert "--profile machines is of the lab" in done.stderr
    else:
        assert done.returncode == 0
        assert set(needed) <= set(done.stdout.split())
        assert bool(needed) == bool(done.stdout.split())


@pytest.fixture
def patient(tmp_path: Path) -> list[str]:
    """A command that takes words for `patiently` of ./run, which tells often."""
    text = (TOOLS / "say.sh").read_text(encoding="utf-8")
    part = text[text.index("patiently() {") : text.index("# Whether one of")]
    return ["env", "VPNAAS_TELL=0.05", "bash", "-euc", f'{part}\npatiently "$@"', "bash"]


def test_silence_is_told(patient: list[str], tmp_path: Path) -> None:
    result = tmp_path / "told"
    # It ends when a line was told.
    command = f"echo out; until grep -q fetching {result}; do sleep 0.05; done; exit 3"
    with result.open("w") as stream:
        words = [*patient, "fetching Go", "bash", "-c", command]
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=stream, check=False)
    assert (done.returncode, done.stdout) == (3, b"out\n")
    lines = result.read_text().splitlines()
    assert all(re.fullmatch(r" +\d+ s  fetching Go", line) for line in lines)


def test_nobody_tells_after_a_kill(patient: list[str]) -> None:
    words = [*patient, "x", "bash", "-c", "kill -KILL $PPID"]
    with subprocess.Popen(words, stderr=subprocess.PIPE) as killed:
        assert killed.wait(120) == -9
        # The pipe comes to its end when the last who could write into it has ended.
        killed.communicate(timeout=120)


@pytest.mark.parametrize("works", [True, False])
def test_uv_gets_what_pip_is_set_to_and_pip_does_what_uv_cannot(
    tmp_path: Path, works: bool
) -> None:
    (tmp_path / "bin").mkdir()
    pip = f"""echo pip "$@" >>{tmp_path}/calls
        if [ "$1" = config ]; then
            echo ":env:.index-url='https://own/simple?a=b'"
            echo "global.index-url='https://other'"
            echo "global.cert='/own.pem'"
        fi"""
    uv = f'echo uv "$UV_DEFAULT_INDEX" "$SSL_CERT_FILE" >>{tmp_path}/calls; exit {1 - works}'
    for name, body in (("pip", pip), ("uv", uv)):
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        (tmp_path / "bin" / name).chmod(0o755)
    script = "set -eu; . tools/python.sh; install_locked a.lock"
    places = {"cache": str(tmp_path), "venv": str(tmp_path), "PATH": os.environ["PATH"]}
    subprocess.run(["bash", "-c", script], cwd=TOOLS.parent, env=places, check=True)
    calls = (tmp_path / "calls").read_text(encoding="utf-8").splitlines()
    assert "uv https://own/simple?a=b /own.pem" in calls
    assert any("--requirement=a.lock" in call for call in calls) is not works
    assert calls[-1].endswith("--editable .")
