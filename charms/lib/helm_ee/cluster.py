"""Kubernetes edge: a Secret and a ConfigMap of this release, and the ConfigMaps of the others.

The chart's role allows no more than that: this release can change only its own two objects. It can
read every ConfigMap of the namespace, which belongs to the network service.
"""

import base64
import contextlib
import logging
import threading
from typing import Any, Callable, Dict, Iterator

import httpx2
import lightkube
from lightkube.resources.core_v1 import ConfigMap, Secret
from lightkube.types import PatchType

logger = logging.getLogger(__name__)

LABELS = {"app.kubernetes.io/part-of": "osm-vpnaas"}
OFFER = "offer"
STATE = "state"
WATCH_SECONDS = 240
PAUSE_SECONDS = 2.0

FAILURES = (httpx2.HTTPError, OSError, ValueError)

# It logs each request.
logging.getLogger("httpx2").setLevel(logging.WARNING)


class ClusterError(Exception):
    """The cluster refused, or does not answer."""


class Cluster:
    """The objects of one namespace."""

    def __init__(self, name: str, client: Any = None) -> None:
        self.name = name  # Name of the release, and so of our Secret and ConfigMap.
        self._client: Any = client
        self._own = client is None
        self.connect()
        self._offers: Dict[str, str] = {}
        self._sent = ""
        self._lock = threading.Lock()

    def connect(self) -> None:
        """Read the pod's service account again; Kubernetes replaces its token regularly."""
        if self._own:
            account = lightkube.KubeConfig.from_service_account()
            self._client = lightkube.Client(account.get(), field_manager="osm-vpnaas")

    def state(self) -> str:
        """Return the stored state, "" if there is none yet."""
        with _asked("Secret " + self.name):
            data = self._client.get(Secret, self.name).data or {}
            return base64.b64decode(data.get(STATE, "")).decode("utf-8")

    def keep_state(self, text: str) -> None:
        with _asked("Secret " + self.name):
            body = {"stringData": {STATE: text}}
            self._client.patch(Secret, self.name, body, patch_type=PatchType.MERGE)

    def tell(self, text: str) -> None:
        if text == self._sent:
            return
        with _asked("ConfigMap " + self.name):
            body = {"data": {OFFER: text}}
            self._client.patch(ConfigMap, self.name, body, patch_type=PatchType.MERGE)
        self._sent = text

    def offers(self) -> Dict[str, str]:
        """Return the text of each ConfigMap of a release, by its name, as last seen."""
        with self._lock:
            return dict(self._offers)

    def load(self) -> str:
        """Read all ConfigMaps; return the version of the list."""
        with _asked("ConfigMaps of the namespace"):
            listed = self._client.list(ConfigMap, labels=LABELS)
            texts = {_name(item): _text(item) for item in listed}
            version = str(listed.resourceVersion)
        with self._lock:
            self._offers = texts
        return version

    def watch(self, changed: Callable[[], None], stopped: threading.Event) -> None:
        """Follow the ConfigMaps until `stopped`; call `changed` after each change."""
        while not stopped.is_set():
            try:
                before = self.offers()
                version = self.load()
                if self.offers() != before:
                    changed()
                for operation, item in self._client.watch(
                    ConfigMap,
                    labels=LABELS,
                    resource_version=version,
                    server_timeout=WATCH_SECONDS,
                ):
                    if stopped.is_set():
                        return
                    with self._lock:
                        if operation == "DELETED":
                            self._offers.pop(_name(item), None)
                        else:
                            self._offers[_name(item)] = _text(item)
                    changed()
            except (ClusterError,) + FAILURES as error:
                # This may be a version that is too old: the next round reads all again.
                logger.warning("the offers cannot be followed: %s", error)
                stopped.wait(PAUSE_SECONDS)
                self.connect()


def _name(item: Any) -> str:
    return str(item.metadata.name)


def _text(item: Any) -> str:
    return str((item.data or {}).get(OFFER, ""))


@contextlib.contextmanager
def _asked(what: str) -> Iterator[None]:
    try:
        yield
    except FAILURES as error:
        raise ClusterError("{} of the cluster: {}".format(what, error))
