"""The OpenStack of `./run openstack`, which these tests share."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import cloud as openstack_cloud

from lab.vim.openstack import OpenStack


@pytest.fixture(scope="session")
def up() -> Iterator[None]:
    """The OpenStack runs; one that ran before goes on afterwards."""
    if os.geteuid() != 0:
        pytest.skip("needs root: makes network namespaces and mounts")
    run = openstack_cloud.RUN
    ran = subprocess.run([run, "openstack", "status"], capture_output=True).returncode == 0
    subprocess.run([run, "openstack", "up"], check=True, timeout=1800)
    yield
    if not ran:
        subprocess.run([run, "openstack", "down"], check=True, timeout=300)


@pytest.fixture(scope="module")
def cloud(up: None) -> Iterator[Any]:
    """What the administrator sees; the process is in its network meanwhile."""
    with openstack_cloud.network():
        yield openstack_cloud.connect()


@pytest.fixture
def vim(cloud: Any, tmp_path: Path) -> Iterator[OpenStack]:
    """An account `north`; nothing of it is left at the end."""
    account = OpenStack.create(tmp_path, "north", {}, openstack_cloud.URL, openstack_cloud.OSM)
    yield account
    account.destroy()
    assert openstack_cloud.left(cloud) == []
