"""What a VDU sees of the machine, from a small machine of the test's own making."""

import os
import stat
import subprocess
from pathlib import Path

import pytest

from lab.vim import image

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("lab_machine")]

PASSWD = """root:x:0:0:root:/root:/bin/zsh
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
alice:x:1000:1000:Alice:/home/alice:/bin/bash
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
"""
GROUP = "root:x:0:\nadm:x:4:alice,daemon\nalice:x:1000:\nnogroup:x:65534:\n"
BOOTS = "[Install]\nWantedBy=cloud-init.target\n"
FILES = {
    "secret-work/code": (0o644, "x"),
    "root/.ssh/id": (0o600, "x"),
    "home/alice/.ssh/authorized_keys": (0o600, "x"),
    "opt/tool/token": (0o644, "x"),
    "usr/bin/tool": (0o755, "x"),
    "usr/local/bin/own": (0o755, "x"),
    "usr/share/openssh/sshd_config": (0o644, "standard\n"),
    "usr/lib/systemd/system/cloud-init.service": (0o644, BOOTS),
    "usr/lib/systemd/system/cloud-config.service": (0o644, BOOTS),
    "usr/lib/systemd/system/cloud-init-hotplugd.service": (0o644, "[Service]\n"),
    "var/lib/dpkg/status": (0o644, "x"),
    "var/lib/mysql/data": (0o644, "x"),
    "var/lib/lab/state": (0o644, "x"),
    "var/log/auth.log": (0o644, "x"),
    "var/www/page": (0o644, "x"),
    "etc/os-release": (0o644, "NAME=x\nID=ubuntu\nID_LIKE=debian\n"),
    "etc/passwd": (0o644, PASSWD),
    "etc/group": (0o644, GROUP),
    "etc/shadow": (0o640, "root:$6$hash:1::::::\n"),
    "etc/ssh/ssh_host_rsa_key": (0o600, "x"),
    "etc/ssh/ssh_host_rsa_key.pub": (0o644, "x"),
    "etc/ssh/sshd_config": (0o644, "AllowUsers alice\n"),
    "etc/ssl/private/key.pem": (0o644, "x"),
    "etc/app/public.conf": (0o644, "x"),
    "etc/app/password": (0o600, "x"),
    "etc/wireguard/wg0.conf": (0o600, "x"),
    "etc/systemd/system/multi-user.target.wants/backup.service": (0o644, "x"),
    "etc/sysctl.d/99-host.conf": (0o644, "x"),
    "etc/cloud/cloud.cfg.d/90_host.cfg": (0o644, "x"),
}


def machine(lower: Path) -> Path:
    """Make the root of a machine."""
    for name, (mode, text) in FILES.items():
        path = lower / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
    (lower / "etc/ssl/private").chmod(0o710)
    (lower / "root").chmod(0o700)
    (lower / "bin").symlink_to("usr/bin")
    (lower / "var/run").symlink_to("/run")
    return lower


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Every file of the overlay with its text, links with their target after '->'."""
    top = tmp_path_factory.mktemp("machine")
    lower = machine(top / "lower")
    go = top / "go"
    go.write_text("go binary")
    look = image.Look("vdu1", "ubuntu", {"meta-data": "m"}, go, hide=(Path("/var/lib/lab"),))
    # One private mount namespace: the tmpfs and the overlay end with it.
    dump = (
        "import os,sys,json\nout={}\n"
        "for d,_,fs in os.walk('.'):\n"
        " out[d[2:]+'/']=oct(os.stat(d).st_mode&0o7777)\n"
        " for f in fs:\n"
        "  p=os.path.join(d,f)\n"
        "  out[p[2:]]='->'+os.readlink(p) if os.path.islink(p) else open(p).read()\n"
        "print(json.dumps(out))"
    )
    disk = top / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "t", disk], check=True)
    try:
        for name in ("upper", "work", "root"):
            (disk / name).mkdir()
        image.build(disk / "upper", look, lower)
        options = f"lowerdir={lower},upperdir={disk}/upper,workdir={disk}/work"
        script = f'mount -t overlay o -o {options} {disk}/root && cd {disk}/root && python3 -c "$D"'
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", script],
            env={**os.environ, "D": dump},
            capture_output=True,
            text=True,
            check=True,
        )
    finally:
        subprocess.run(["umount", disk], check=True)
    import json

    result = json.loads(done.stdout)
    assert isinstance(result, dict)
    return result


@pytest.mark.parametrize(
    "path",
    [
        "secret-work/", "root/.ssh/", "home/alice/", "opt/tool/", "usr/local/bin/own",
        "var/lib/mysql/", "var/lib/lab/", "var/log/auth.log", "var/www/",
        "etc/ssh/ssh_host_rsa_key", "etc/ssh/ssh_host_rsa_key.pub", "etc/ssl/private/key.pem",
        "etc/app/password", "etc/wireguard/wg0.conf", "etc/sysctl.d/99-host.conf",
        "etc/systemd/system/multi-user.target.wants/backup.service",
        "etc/cloud/cloud.cfg.d/90_host.cfg",
    ],
)  # fmt: skip
def test_hidden(seen: dict[str, str], path: str) -> None:
    assert path.rstrip("/") in {name.rstrip("/") for name in FILES} | {
        parent for name in FILES for parent in map(str, Path(name).parents)
    }, "the machine has it"
    assert path not in seen


@pytest.mark.parametrize(
    "path", ["usr/bin/tool", "var/lib/dpkg/status", "etc/app/public.conf", "etc/os-release"]
)
def test_shown(seen: dict[str, str], path: str) -> None:
    assert seen[path] == FILES[path][1]


def test_modes(seen: dict[str, str]) -> None:
    assert seen["root/"] == "0o700"
    assert seen["tmp/"] == "0o1777"
    assert seen["etc/ssl/private/"] == "0o710"
    assert seen["etc/wireguard/"] == oct(stat.S_IMODE(0o755)), (
        "as the machine's, whatever was in it"
    )


def test_accounts(seen: dict[str, str]) -> None:
    assert "alice" not in seen["etc/passwd"] + seen["etc/group"] + seen["etc/shadow"]
    assert "hash" not in seen["etc/shadow"]
    assert seen["etc/passwd"].splitlines()[0] == "root:x:0:0:root:/root:/bin/bash"
    assert "adm:x:4:daemon" in seen["etc/group"].splitlines()
    assert "sudo:x:27:" in seen["etc/group"].splitlines()
    assert {line.split(":")[1] for line in seen["etc/shadow"].splitlines()} == {"*"}


def test_own_files(seen: dict[str, str]) -> None:
    assert seen["etc/hostname"] == "vdu1\n"
    assert "127.0.1.1 vdu1\n" in seen["etc/hosts"]
    assert seen["etc/ssh/sshd_config"] == "standard\n"
    assert seen["usr/bin/wireguard-go"] == "go binary"
    assert seen["var/lib/cloud/seed/nocloud/meta-data"] == "m"
    assert "distro: ubuntu" in seen["etc/cloud/cloud.cfg"]
    assert len(seen["etc/machine-id"]) == 33


def test_services(seen: dict[str, str]) -> None:
    system = "etc/systemd/system"
    links = [name for name in seen if ".wants/" in name and not name.endswith("/")]
    assert sorted(Path(name).name for name in links) == [
        "cloud-init.service",
        "cloud-init.target",
        "ssh.service",
    ]
    assert seen[f"{system}/systemd-udevd.service"] == "->/dev/null"
    assert seen[f"{system}/cloud-config.service"] == "->/dev/null"
    assert seen[f"{system}/sshd.service"].endswith("/ssh.service")


def test_every_stage_of_a_cloud_init_that_is_one_process_starts(tmp_path: Path) -> None:
    lower, upper = machine(tmp_path / "lower"), tmp_path / "upper"
    upper.mkdir()
    (lower / "usr/lib/systemd/system/cloud-init-main.service").write_text("[Service]\n")
    image.build(upper, image.Look("vdu1", "ubuntu", {}), lower)
    assert not os.path.lexists(upper / "etc/systemd/system/cloud-config.service")
    wants = upper / "etc/systemd/system/cloud-init.target.wants"
    assert {file.name for file in wants.iterdir()} == {"cloud-config.service", "cloud-init.service"}


def test_kept_directories_show_through(tmp_path: Path) -> None:
    (tmp_path / "upper").mkdir()
    look = image.Look("vdu1", "ubuntu", {}, keep=frozenset({"/opt"}))
    image.build(tmp_path / "upper", look)
    assert not (tmp_path / "upper/opt").exists()
    assert (tmp_path / "upper/srv").is_dir()
