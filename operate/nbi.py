"""OSM's northbound interface, one request at a time (SOL005; same paths as osmclient)."""

import hashlib
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import requests
import urllib3

from operate.background import InBackground, NotEnded
from operate.client import OperateError, understood

Document = dict[str, Any]
MOST = 64 << 20  # Bytes of an answer.
READS = 10  # Times the timeout of one read that a whole answer may take, with the request's body.


class Refused(OperateError):  # noqa: N818  # what it is, not that it is an error
    """OSM answered with an error status (of HTTP), and its own text."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


class Unreachable(OperateError):  # noqa: N818
    """No valid answer came; a GET request was repeated before."""


class Nbi:
    """A session with an OSM. Each request may raise Refused or Unreachable."""

    def __init__(
        self,
        url: str,
        verify: bool | str = True,
        pause: float = 2.0,
        timeout: float = 60.0,
        tries: int = 5,
    ) -> None:
        """Prepare a session with the OSM at ``https://HOST:PORT``.

        Args:
            url: Its address, with or without ``/osm``.
            verify: True to verify its certificate with the system's CAs, a file of CAs, or False.
            pause: Seconds between two queries for the state of an operation.
            tries: Repetitions of a GET when the connection breaks or a proxy in front of OSM has
                no answer (502 to 504); POST and DELETE have none.
        """
        self.url = url.rstrip("/").removesuffix("/osm") + "/osm"
        self.pause = pause
        self._timeout = timeout
        self._session = requests.Session()
        self._session.trust_env = False  # REQUESTS_CA_BUNDLE would override `verify`
        self._session.verify = verify
        if verify is False:
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        self._headers = {"Accept": "application/json", "Content-Type": "application/yaml"}
        self._tries = tries
        self._credentials: tuple[str, str, str] | None = None

    def log_in(self, user: str, password: str, project: str) -> None:
        """Request a token; later requests use it."""
        self._credentials = user, password, project
        given = {"username": user, "password": password, "project_id": project}
        # The old token stays until there is a new one: other threads send requests meanwhile.
        without = {"Authorization": None}
        token = self._record("POST", "/admin/v1/tokens", json=given, headers=without)
        if "id" not in token:
            raise Unreachable(f"{self.url} answers no token; is that an OSM?")
        self._headers["Authorization"] = f"Bearer {token['id']}"

    def version(self) -> Document:
        """Return OSM's version, with one request that is not repeated."""
        return self._record("GET", "/version")

    def get(self, path: str) -> Any:
        """Return the answer to a GET request.

        Raises:
            Refused: OSM refuses; the status is 404 if the resource does not exist.
            Unreachable: no answer.
        """
        for left in range(self._tries, -1, -1):
            try:
                return self._with_token("GET", path)
            except (Unreachable, Refused) as error:
                # The retries of requests' adapter do not cover a break after the headers.
                if not left or getattr(error, "status", 502) not in (502, 503, 504):
                    raise
                time.sleep(min(self.pause, 2.0))
        raise AssertionError

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Send one request, never again: after Unreachable OSM may have executed it or not."""
        return self._with_token("POST", path, json=dict(body))

    def delete(self, path: str) -> Any:
        """Return the answer to a DELETE request; see :meth:`post`."""
        return self._with_token("DELETE", path)

    @understood("OSM")
    def upload(self, path: str, package: Path) -> str:
        """Onboard a package with one request, see :meth:`post`; return its id."""
        data = package.read_bytes()
        headers = {
            "Content-Type": "application/gzip",
            "Content-Filename": package.name,
            "Content-File-MD5": hashlib.md5(data, usedforsecurity=False).hexdigest(),
        }
        return str(self._with_token("POST", path, data=data, headers=headers)["id"])

    @understood("OSM")
    def find(self, path: str, **fields: str) -> Document | None:
        """Return the first entry of a list that has these values, or None."""
        for entry in self.get(path):
            if all(entry.get(key.replace("_", "-")) == value for key, value in fields.items()):
                record: Document = entry
                return record
        return None

    def _record(self, method: str, path: str, **how: Any) -> Document:
        answer = self._send(method, path, **how)
        if not isinstance(answer, dict):
            raise Unreachable(f"{self.url}{path} answers no record; is that an OSM?")
        return answer

    def _with_token(self, method: str, path: str, **how: Any) -> Any:
        try:
            return self._send(method, path, **how)
        except Refused as refused:
            # A token is valid for one hour, and an operation can take longer.
            if refused.status != requests.codes.unauthorized or self._credentials is None:
                raise
        self.log_in(*self._credentials)
        return self._send(method, path, **how)

    def _send(
        self, method: str, path: str, headers: Mapping[str, str | None] | None = None, **how: Any
    ) -> Any:
        how |= {"headers": {**self._headers, **(headers or {})}}
        try:
            answer = self._whole(method, path, how)
        except requests.exceptions.SSLError as error:
            raise Unreachable(
                f"the certificate of {self.url} is not trusted ({_reason(error)}); give its "
                "authority with --ca FILE, or --insecure"
            ) from None
        except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
            raise Unreachable(f"{self.url} does not answer: {_reason(error)}") from None
        if answer.is_redirect:
            to = re.sub(r"[^!-~]", "?", answer.headers["Location"])[:200]
            raise Unreachable(
                f"{self.url} sends clients on to {to}: give that address if it is OSM"
            )
        if answer.status_code >= 300:
            raise Refused(answer.status_code, _detail(answer))
        try:
            return answer.json() if answer.content else None
        except (ValueError, RecursionError):
            raise Unreachable(f"{self.url}{path} answers no JSON; is that an OSM?") from None

    def _whole(self, method: str, path: str, how: Mapping[str, Any]) -> requests.Response:
        """Return an answer with all of its body, which comes in time and is not too large.

        The timeout of requests is that of one read; an answer may drip for ever.
        """

        def exchange() -> requests.Response:
            answer = self._session.request(
                method,
                self.url + path,
                timeout=self._timeout,
                stream=True,
                # Another host, or plain HTTP, would get the password.
                allow_redirects=False,
                **how,
            )
            body = bytearray()
            for chunk in () if answer.raw is None else answer.iter_content(1 << 16):
                body += chunk
                if len(body) > MOST:
                    answer.close()
                    text = f"{self.url}{path} answers more than {MOST >> 20} MB"
                    raise Unreachable(f"{text}; is that an OSM?")
            if answer.raw is not None:
                answer._content = bytes(body)
            return answer

        limit = READS * self._timeout
        try:
            whole: requests.Response = InBackground(exchange).result(limit)
        except NotEnded:
            raise Unreachable(f"{self.url}{path} did not answer within {limit:.0f} s") from None
        return whole


def _detail(answer: requests.Response) -> str:
    try:
        return str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return f"HTTP status {answer.status_code} {answer.reason}"


def _reason(error: BaseException) -> str:
    """Return the innermost cause of an error of the library requests."""
    inner: BaseException = error
    while inner.args and isinstance(inner.args[0], BaseException):
        inner = inner.args[0]
    reason = getattr(inner, "reason", None)
    if isinstance(reason, BaseException):
        return _reason(reason)
    return " ".join(str(inner).split()).rpartition(": ")[2] or "no reason is known"
