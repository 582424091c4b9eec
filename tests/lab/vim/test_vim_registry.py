"""The lab's registry: what is loaded into it, what is refused, and what it serves."""

import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml
from support.waiting import wait_until
from vim_support import NETWORKS, SERVER, SPEC

from lab.errors import VimError
from lab.procs import start_time
from lab.vim import cgroups, registry
from lab.vim.account import Vim, clean
from lab.vim.fabric import enter
from lab.vim.qemu import configdrive

SOURCE = Path("some.tar")


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("docker.io/library/redis:6.0.5", "library/redis:6.0.5"),
        ("redis:6.0.5", "library/redis:6.0.5"),
        ("oaisoftwarealliance/oai-hss", "oaisoftwarealliance/oai-hss:latest"),
        ("docker.io/oaisoftwarealliance/oai-enb:2022.w46", "oaisoftwarealliance/oai-enb:2022.w46"),
    ],
)
def test_names_of_images_as_engines_write_them(given: str, name: str) -> None:
    assert registry.named(given, SOURCE) == name


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("", "has no name"),
        ("latest", "has no name"),
        ("ghcr.io/me/mine:1", "is of the registry ghcr.io"),
        ("localhost/mine:1", "is of the registry localhost"),
        ("localhost:5000/mine:1", "is of the registry localhost:5000"),
        ("me/Mine:1", "is no name of an image"),
        ("me/mine@sha256:00", "is no name of an image"),
        ("me/../mine:1", "is no name of an image"),
        ("me/mine:1\nx", "is no name of an image"),
    ],
)
def test_names_that_cannot_be_pulled_are_refused(given: str, sentence: str) -> None:
    with pytest.raises(VimError, match=sentence):
        registry.named(given, SOURCE)


def archive(path: Path, **documents: object) -> Path:
    with tarfile.open(path, "w") as made:
        for name, document in documents.items():
            text = document if isinstance(document, bytes) else json.dumps(document).encode()
            entry = tarfile.TarInfo(f"{name}.json")
            entry.size = len(text)
            made.addfile(entry, io.BytesIO(text))
    return path


@pytest.mark.parametrize(
    "documents",
    [
        {"other": {}},
        {"manifest": b"{"},
        {"manifest": {"RepoTags": 1}},
        {"manifest": [1]},
        {"index": []},
        {"index": {"manifests": [[]]}},
    ],
)
def test_what_is_no_archive_of_images_is_refused(
    tmp_path: Path, documents: dict[str, object]
) -> None:
    with pytest.raises(VimError, match="is no archive of images"):
        registry._contents(archive(tmp_path / "x.tar", **documents))


def test_what_is_no_archive_at_all_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VimError, match="does not exist"):
        registry._contents(tmp_path / "none.tar")
    (tmp_path / "text").write_text("text")
    with pytest.raises(VimError, match="is no archive"):
        registry._contents(tmp_path / "text")
    with pytest.raises(VimError, match="is no archive of images"):
        registry._contents(tmp_path)


def test_an_image_without_a_name_wants_one(tmp_path: Path) -> None:
    source = archive(tmp_path / "x.tar", manifest=[{"RepoTags": None}])
    assert registry._contents(source) == [(f"docker-archive:{source}:@0", "")]


def test_missing_programs_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(VimError, match="apt-get install docker-registry skopeo"):
        registry.load(tmp_path)


def test_only_virtual_machines_have_a_registry(tmp_path: Path) -> None:
    with pytest.raises(VimError, match="wrong at 'registry': .* account type qemu"):
        Vim.create(tmp_path, "lab", {"registry": True})


def test_day0_tells_where_images_are_and_leaves_the_users_own_files() -> None:
    result = registry.mirror("10.250.1.1:5000")
    files = configdrive.contents(SPEC, "ubuntu", SERVER, NETWORKS, result)
    config, hook = yaml.safe_load(json.loads(files["vendor_data.json"])["cloud-init"])
    assert yaml.safe_load(config) == {"user": {"name": "ubuntu"}}
    assert hook.startswith("#cloud-boothook\n#!/bin/sh\n")
    assert 'prefix = "docker.io"\nlocation = "10.250.1.1:5000"\ninsecure = true\nEND\n' in hook


LOADER = """
import signal, sys, time
from pathlib import Path
from lab.vim import registry
# A shell's background job ignores these two, and so would its children.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
with registry._writable(Path(sys.argv[1])) as address:
    print(address, flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL, signal.SIGINT])
def test_a_registry_for_writing_ends_with_who_loads_images(tmp_path: Path, number: int) -> None:
    if shutil.which("docker-registry") is None:
        pytest.skip("needs docker-registry")
    argv = [sys.executable, "-c", LOADER, str(tmp_path / "store")]
    loader = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert loader.stdout is not None
    with loader.stdout:
        host, _, port = loader.stdout.readline().rpartition(":")
        loader.send_signal(number)
        loader.wait(20)

    def ended() -> bool:
        with socket.socket() as client:
            return client.connect_ex((host, int(port))) != 0

    wait_until(ended, "the registry ends")


def image(folder: Path, name: str) -> Path:
    layer = archive(folder / "layer.tar", hello={"a": 1})
    layout = folder / "layout"
    for words in (
        ("init", "--layout", layout),
        ("new", "--image", f"{layout}:{name}"),
        ("raw", "add-layer", "--image", f"{layout}:{name}", layer),
    ):
        subprocess.run(["umoci", *map(str, words)], check=True, capture_output=True)
    return layout


@pytest.mark.vm
@pytest.mark.lab
def test_a_loaded_image_is_served_by_its_name_in_the_management_network(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(registry, "STORE", tmp_path / "store")
    monkeypatch.setattr("lab.vim.qemu.machine.bake", lambda _: pytest.skip("an image is made"))
    monkeypatch.setattr("lab.vim.qemu.machine.Machine.prepare", lambda *_: None)
    layout = image(tmp_path, "docker.io/me/mine:1.0")
    (one,) = registry.load(layout, store=registry.STORE)
    assert one.name == "docker.io/me/mine:1.0"
    # The same as others bring it.
    for kind in ("oci-archive", "docker-archive", "dir"):
        target = tmp_path / kind
        source = f"oci:{layout}:docker.io/me/mine:1.0"
        into = f"{kind}:{target}" if kind == "dir" else f"{kind}:{target}:docker.io/me/mine:1.0"
        words = ["skopeo", "--insecure-policy", "copy", source, into]
        subprocess.run(words, check=True, capture_output=True)
        name = "me/dir:2" if kind == "dir" else None
        (other,) = registry.load(target, name, registry.STORE)
        assert other.name == ("docker.io/me/dir:2" if kind == "dir" else one.name), kind
    home = tmp_path / "home"
    vim = Vim.create(home, "lab", {"registry": True}, "qemu")
    try:
        found = []
        for reference in ("me/mine:1.0", f"me/mine@{one.digest}", "me/other:1"):
            words = ("inspect", "--tls-verify=false", f"docker://10.250.1.1:5000/{reference}")
            done = subprocess.run(
                [*enter(vim.home.vca_netns), "skopeo", *words],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            found.append(done.stderr if done.returncode else "")
            if reference == "me/mine:1.0":
                assert json.loads(done.stdout)["Architecture"] == "amd64"
        assert found[:2] == ["", ""]
        assert "manifest unknown" in found[2]
        # Whoever is on a VDU cannot put anything there.
        words = ("copy", "--dest-tls-verify=false", f"oci:{layout}:docker.io/me/mine:1.0")
        written = subprocess.run(
            [*enter(vim.home.vca_netns), "skopeo", "--insecure-policy", *words,
             "docker://10.250.1.1:5000/me/evil:1"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert written.returncode != 0
        pid = (vim._registry.group / "cgroup.procs").read_text().strip()
        vim.destroy()
        assert start_time(int(pid)) is None
    finally:
        clean(home)


@pytest.mark.vm
@pytest.mark.lab
def test_two_images_cannot_have_one_name(tmp_path: Path) -> None:
    source = archive(tmp_path / "x.tar", manifest=[{"RepoTags": ["a:1"]}, {"RepoTags": ["b:1"]}])
    with pytest.raises(VimError, match="has 2 images: one name cannot be for all"):
        registry.load(source, "me/mine:1")


@pytest.mark.vm
@pytest.mark.lab
def test_a_registry_that_has_ended_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "STORE", tmp_path / "store")
    home = tmp_path / "home"
    try:
        vim = Vim.create(home, "lab", {"registry": True, "images": {}}, "qemu")
        (pid,) = cgroups.pids(vim._registry.group)
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not cgroups.pids(vim._registry.group), "the registry ends")
        Vim.open(home, "lab")
        (other,) = cgroups.pids(vim._registry.group)
        assert registry._listens(other)
    finally:
        clean(home)
