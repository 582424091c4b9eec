"""Tokens: who may use the interface (NBI: ``admin/v1/tokens``).

A lab has one user and one project, both called `admin`.
"""

import hmac
import ipaddress
import secrets
import threading
import time
import uuid
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from lab.errors import NbiError
from lab.nbi.views import PROJECT_ID

NAME = "admin"
LIFETIME = 3600.0  # Seconds for which a token is valid, as in OSM.
MOST = 10_000  # Largest number of tokens; the oldest are dropped first.
WRONG = 10  # Wrong passwords of one address, after which it waits `PAUSE` before each further one.
PAUSE = 10.0
"""Seconds for which an address is not heard then; others are, and it has its tokens meanwhile."""
#: Ids of the one user and role; the same in every lab.
USER_ID, ROLE_ID = (
    str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{kind}.osm-vpnaas-lab")) for kind in ("u", "r")
)


def _origin(address: str) -> str:
    """Return what wrong passwords are counted by: an IPv4 address, or the /64 of an IPv6 one."""
    try:
        given = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:  # no IP connection
        return address
    if isinstance(given, ipaddress.IPv4Address):
        return str(given)
    return str(given.ipv4_mapped or ipaddress.IPv6Network((given, 64), strict=False))


class Tokens:
    """The tokens of a lab's users. Thread-safe."""

    def __init__(self, password: str) -> None:
        self._password = password.encode()
        self._tokens: dict[str, dict[str, Any]] = {}
        self._wrong: dict[str, tuple[int, float]] = {}
        self._lock = threading.Lock()

    def login(self, credentials: Mapping[str, Any], address: str = "") -> dict[str, Any]:
        """Return a new token for a user name and password, which a client at ``address`` sends."""
        origin = _origin(address)
        self._admit(origin)
        # JSON may have half a surrogate pair, and UTF-8 does not have that.
        given = str(credentials.get("password") or "").encode(errors="surrogatepass")
        right = hmac.compare_digest(given, self._password)
        if credentials.get("username") not in (NAME, USER_ID) or not right:
            self._note_wrong(origin)
            raise NbiError("Invalid username/password", HTTPStatus.UNAUTHORIZED)
        project = credentials.get("project_id")
        if project not in (None, NAME, PROJECT_ID):
            text = f"project {project} not allowed for this user"
            raise NbiError(text, HTTPStatus.UNAUTHORIZED)
        key = secrets.token_urlsafe(24)
        now = time.time()
        token = {
            "_id": key,
            "id": key,
            "issued_at": now,
            "expires": now + LIFETIME,
            "username": NAME,
            "user_id": USER_ID,
            "project_id": PROJECT_ID,
            "project_name": NAME,
            "admin": True,
            "roles": [{"name": "system_admin", "id": ROLE_ID}],
            # Fields of OSM's user management, which the lab does not have: no notices at login.
            "login_count": None,
            "last_login": None,
            "admin_show": False,
            "user_show": False,
        }
        with self._lock:
            self._drop_old(now)
            self._tokens[key] = token
            self._wrong.pop(origin, None)
        return dict(token)

    def _admit(self, origin: str) -> None:
        with self._lock:
            count, last = self._wrong.get(origin, (0, 0.0))
        left = last + PAUSE - time.monotonic()
        if count >= WRONG and left > 0:
            text = f"Too many wrong passwords from this address; try again in {left:.0f} seconds"
            raise NbiError(text, HTTPStatus.TOO_MANY_REQUESTS)

    def _note_wrong(self, origin: str) -> None:
        with self._lock:
            count, last = self._wrong.pop(origin, (0, 0.0))
            if time.monotonic() - last > 6 * WRONG * PAUSE:  # long ago
                count = 0
            self._wrong[origin] = (count + 1, time.monotonic())  # the latest is the last
            if len(self._wrong) > MOST:
                del self._wrong[next(iter(self._wrong))]

    def _drop_old(self, now: float) -> None:
        expired = [key for key, token in self._tokens.items() if token["expires"] < now]
        surplus = list(self._tokens)[: max(0, len(self._tokens) - MOST + 1)]
        for key in {*expired, *surplus}:
            del self._tokens[key]

    def authorize(self, header: str | None) -> dict[str, Any]:
        """Return the token that an Authorization header names."""
        kind, _, key = (header or "").partition(" ")
        if kind.lower() != "bearer" or not key:
            text = "Needed a token or Authorization http header"
            raise NbiError(text, HTTPStatus.UNAUTHORIZED)
        with self._lock:
            token = self._tokens.get(key.strip())
        if token is None:
            text = "Invalid Token or Authorization HTTP header"
            raise NbiError(text, HTTPStatus.UNAUTHORIZED)
        if token["expires"] < time.time():
            text = "Expired Token or Authorization HTTP header"
            raise NbiError(text, HTTPStatus.UNAUTHORIZED)
        return dict(token)

    def find(self, key: str) -> dict[str, Any]:
        with self._lock:
            token = self._tokens.get(key)
        if token is None:
            raise NbiError("token not found", HTTPStatus.NOT_FOUND)
        return dict(token)

    def all(self) -> list[dict[str, Any]]:
        with self._lock:
            self._drop_old(time.time())
            return [dict(token) for token in self._tokens.values()]

    def logout(self, key: str) -> None:
        with self._lock:
            if self._tokens.pop(key, None) is None:
                raise NbiError(f"Token '{key}' not found", HTTPStatus.NOT_FOUND)
