"""The server's application in this process, over a lab whose operations start no worker."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.dist import built
from support.nbi_server import BASIC, VIM, Api, Site

from lab.nbi.engine import Engine
from lab.records import jobs
from lab.records.ids import admin
from lab.records.journal import Tail
from lab.records.store import VIMS, Document, Store


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory, BASIC)


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    def start(store: Store, operation: Document, collection: str = "") -> Tail:
        return Tail(store.home / f"events-{operation['_id']}")

    monkeypatch.setattr(jobs, "start", start)
    monkeypatch.setattr(jobs, "alive", lambda operation: True)
    monkeypatch.setattr(jobs, "kill", lambda operation: None)
    engine = Engine(tmp_path / "home")
    state = {**admin(), "operationalState": "ENABLED"}
    engine.store.put(VIMS, {"_id": VIM, "name": "lab", "vim_type": "lab", "_admin": state})
    return engine


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("site"))
    yield site
    site.stop()


@pytest.fixture
def api(engine: Engine, site: Site) -> Iterator[Api]:
    with Api(engine, site) as api:
        yield api
