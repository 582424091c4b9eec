"""The Kubernetes edge of an execution environment, on prepared answers of an API server."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable

import httpx2
import lightkube
import pytest
from helm_ee.cluster import Cluster, ClusterError
from lightkube.config.models import Cluster as Server
from lightkube.config.models import Context, User

META = {"name": "mme-1", "namespace": "ns"}


def cluster(answer: Callable[[httpx2.Request], httpx2.Response]) -> Cluster:
    config = lightkube.KubeConfig(
        clusters={"c": Server(server="https://api")},
        contexts={"x": Context(cluster="c", user="u", namespace="ns")},
        users={"u": User(token="t")},
        current_context="x",
    )
    client = lightkube.Client(config.get(), transport=httpx2.MockTransport(answer))
    return Cluster("mme-1", client)


def refused(request: httpx2.Request) -> httpx2.Response:
    body = {"kind": "Status", "message": "not allowed", "code": 403, "reason": "Forbidden"}
    return httpx2.Response(403, json=body)


def broken(request: httpx2.Request) -> httpx2.Response:
    raise httpx2.ConnectError("refused")


def test_state_is_read_and_kept_in_the_own_secret() -> None:
    seen: list[tuple[str, str, bytes]] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append((request.method, request.url.path, request.content))
        data = {"state": base64.b64encode(b"kept").decode()}
        return httpx2.Response(200, json={"metadata": META, "data": data})

    api = cluster(answer)
    assert api.state() == "kept"
    api.keep_state("new")
    assert [(method, path) for method, path, _ in seen] == [
        ("GET", "/api/v1/namespaces/ns/secrets/mme-1"),
        ("PATCH", "/api/v1/namespaces/ns/secrets/mme-1"),
    ]
    assert json.loads(seen[1][2]) == {"stringData": {"state": "new"}}


def test_what_was_told_is_not_told_again() -> None:
    result = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        result.append(json.loads(request.content)["data"]["offer"])
        return httpx2.Response(200, json={"metadata": META})

    api = cluster(answer)
    for text in ("a", "a", "b"):
        api.tell(text)
    assert result == ["a", "b"]


@pytest.mark.parametrize("answer", [refused, broken])
@pytest.mark.parametrize("call", ["state", "keep_state", "tell", "load"])
def test_a_refusal_is_a_sentence(
    answer: Callable[[httpx2.Request], httpx2.Response], call: str
) -> None:
    api = cluster(answer)
    with pytest.raises(ClusterError, match="of the cluster: (not allowed|refused)"):
        getattr(api, call)(*(["x"] if call in ("keep_state", "tell") else []))


def test_the_watch_follows_changes_and_begins_anew_after_an_error() -> None:
    stopped = threading.Event()
    seen: list[dict[str, str]] = []
    rounds = []

    def item(name: str, offer: str) -> dict[str, object]:
        return {"metadata": {"name": name, "namespace": "ns"}, "data": {"offer": offer}}

    def answer(request: httpx2.Request) -> httpx2.Response:
        if "watch" not in request.url.params:
            rounds.append(request.url.path)
            listed = {"items": [item("hss-1", f"offer {len(rounds)}")]}
            return httpx2.Response(200, json={"metadata": {"resourceVersion": "7"}, **listed})
        if len(rounds) == 1:
            events = [
                {"type": "MODIFIED", "object": item("hss-1", "changed")},
                {"type": "ADDED", "object": item("enb-1", "new")},
                {"type": "DELETED", "object": item("enb-1", "new")},
            ]
            lines = "".join(json.dumps(event) + "\n" for event in events)
            return httpx2.Response(200, text=lines)
        stopped.set()
        return httpx2.Response(410, json={"kind": "Status", "message": "too old", "code": 410})

    api = cluster(answer)

    def changed() -> None:
        seen.append(api.offers())
        if len(seen) == 4:
            rounds.append("again")
            raise httpx2.ReadError("broken off")

    api.watch(changed, stopped)
    assert seen[:4] == [
        {"hss-1": "offer 1"},
        {"hss-1": "changed"},
        {"hss-1": "changed", "enb-1": "new"},
        {"hss-1": "changed"},
    ]
    assert seen[4] == {"hss-1": "offer 3"}
