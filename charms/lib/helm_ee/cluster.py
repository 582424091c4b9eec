"""Kubernetes edge: a Secret and a ConfigMap of this release, and the ConfigMaps of the others.

The role that the chart makes allows no more than that: this release may change its own two objects
only, and read every ConfigMap of the namespace, which is that of the network service.
"""

import base64
import logging
import threading
from typing import Any, Callable, Dict

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

# It tells each request.
logging.getLogger("httpx2").setLevel(logging.WARNING)


class ClusterError(Exception):
    """The cluster refused, or does not answer."""


class Cluster:
    """The objects of one namespace.

    Attributes:
        name: Of our Secret and ConfigMap, which is that of the release.
    """

    def __init__(self, name: str, client: Any = None) -> None:
        self.name = name
        self._client: Any = client
        self._own = client is None
        self.connect()
        self._offers: Dict[str, str] = {}
        self._sent = ""
        self._lock = threading.Lock()

    def connect(self) -> None:
        """Read anew what the pod's service account has; its token is replaced from time to time."""
        if self._own:
            account = lightkube.KubeConfig.from_service_account()
            self._client = lightkube.Client(account.get(), field_manager="osm-vpnaas")

    def state(self) -> str:
        """Return the kept state, "" if none was kept yet."""
        try:
            data = self._client.get(Secret, self.name).data or {}
            return base64.b64decode(data.get(STATE, "")).decode("utf-8")
        except FAILURES as error:
            raise _unreadable("Secret", self.name, error)

    def keep_state(self, text: str) -> None:
        """Keep a state."""
        try:
            body = {"stringData": {STATE: text}}
            self._client.patch(Secret, self.name, body, patch_type=PatchType.MERGE)
        except FAILURES as error:
            raise _unreadable("Secret", self.name, error)

    def tell(self, text: str) -> None:
        """Put a text into our ConfigMap, for all others."""
        if text == self._sent:
            return
        try:
            body = {"data": {OFFER: text}}
            self._client.patch(ConfigMap, self.name, body, patch_type=PatchType.MERGE)
        except FAILURES as error:
            raise _unreadable("ConfigMap", self.name, error)
        self._sent = text

    def offers(self) -> Dict[str, str]:
        """Return the text of each ConfigMap of a release, by its name, as last seen."""
        with self._lock:
            return dict(self._offers)

    def load(self) -> str:
        """Read all ConfigMaps; return the version of the list."""
        try:
            listed = self._client.list(ConfigMap, labels=LABELS)
            texts = {_name(item): _text(item) for item in listed}
            version = str(listed.resourceVersion)
        except FAILURES as error:
            raise _unreadable("ConfigMaps", "of the namespace", error)
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
                # Also where the version is too old: the next round reads all anew.
                logger.warning("the offers cannot be followed: %s", error)
                stopped.wait(PAUSE_SECONDS)
                self.connect()


def _name(item: Any) -> str:
    return str(item.metadata.name)


def _text(item: Any) -> str:
    return str((item.data or {}).get(OFFER, ""))


def _unreadable(kind: str, name: str, error: BaseException) -> ClusterError:
    return ClusterError("{} {} of the cluster: {}".format(kind, name, error))
