"""One unit of a charm: its files, its login on the VDU, and the actions on both."""

import json
import logging
import os
from typing import Any, Callable, Dict, Mapping, Optional

from vpnaas.actions import Actions, Params, action
from vpnaas.base import fields
from vpnaas.base.errors import (
    InputError,
    NotReadyError,
    StorageError,
    UnreachableError,
    VpnaasError,
)
from vpnaas.environment import Environment
from vpnaas.vdu.ssh import Login, Vdu, address_of, ensure_key, replace_file

# Each log record starts a juju-log process. paramiko logs every packet of a login, and the
# traceback of a failed login line by line. Our own error already says what failed.
logging.getLogger("paramiko").setLevel(logging.CRITICAL)

HOST_KEY = "ssh-host-key"
TRUST_KEY = "ssh-host-key-trust"


class Unit:
    """What a unit has of its own: files, which a later reconcile can do without, and a login."""

    # Why a file could not be kept, "" if it could. The VDU was changed before, so that is no reason
    # to call an action failed.
    unwritten = ""
    # Whether it leaves. The peer relation may be gone before the hook `stop`.
    leaving = False

    def __init__(self, environment: Environment) -> None:
        self.environment = environment

    def path(self, name: str) -> str:
        return os.path.join(self.environment.folder, name)

    def stored(self, name: str) -> Mapping[str, Any]:
        """Return a JSON object of this unit; {} if it has none."""
        try:
            with open(self.path(name), "rb") as stream:
                return fields.json_object(name, stream.read().decode("ascii"))
        except (OSError, ValueError, InputError):
            return {}

    def store(self, name: str, value: Mapping[str, Any], before: Mapping[str, Any]) -> None:
        """Store a JSON object of this unit, unless it is as `before`."""
        text = json.dumps(value, sort_keys=True)
        if json.loads(text) != before:
            self._keep(name, text)

    def _keep(self, name: str, text: str) -> None:
        self.after_work(lambda: replace_file(self.path(name), text.encode()))

    def after_work(self, note: Callable[[], None]) -> None:
        """Write something down after the VDU was changed; note if there is no room for it."""
        try:
            note()
        except StorageError as error:
            self.unwritten = str(error)

    # SSH

    def key_file(self) -> str:
        return self.path("id_ed25519")

    def login(self) -> Optional[Login]:
        host = address_of(self.environment.option("ssh-hostname"))
        user = self.environment.option("ssh-username").strip()
        if not host or not user:
            return None
        return Login(host, user, self.environment.option("ssh-password"), self.key_file())

    def vdu(self) -> Vdu:
        login = self.login()
        if login is None:
            raise UnreachableError("ssh-hostname and ssh-username are not set")
        option = self.environment.option("ssh-host-key-fingerprint")
        fingerprint = fields.host_key_fingerprint("ssh-host-key-fingerprint", option)
        pinned = ""
        if self.environment.is_leader():
            try:
                text = self.environment.stored(HOST_KEY)
                fingerprint = fingerprint or self.environment.stored(TRUST_KEY)
            except NotReadyError:
                text = self._last_pin() if self.leaving else ""
                if not text.startswith(login.host + " "):
                    raise
            host, _, key = text.partition(" ")
            pinned = key if host == login.host else ""
        return Vdu(login, self.path("file-cache.json"), pinned, fingerprint)

    def pin(self, vdu: Vdu) -> None:
        login = self.login()
        if login and vdu.host_key and self.environment.is_leader():
            pin = "{} {}".format(login.host, vdu.host_key)
            self.environment.store(HOST_KEY, pin)
            if self._last_pin() != pin:
                self._keep("host-key", pin)

    def _last_pin(self) -> str:
        """Return the VDU's address and host key as this unit pinned them last, "" without any."""
        try:
            with open(self.path("host-key"), encoding="ascii") as stream:
                return stream.read()
        except (OSError, ValueError):
            return ""


class VduActions(Actions):
    """Commands on the VDU, our SSH key, and the VDU's host key; N2VC runs some by itself."""

    @action("run", leader=False, plain=True)
    def run(self, params: Params) -> Dict[str, Any]:
        with self.charm.vdu() as vdu:
            vdu.require_shell()
            result = vdu.command(str(params["command"]))
        if result.code != 0:
            lines = fields.lines(result.err) or fields.lines(result.out) or ["no message"]
            raise VpnaasError(
                "the command ended with exit code {}: {}".format(result.code, lines[-1][:500])
            )
        # Juju reserves the names `stdout` and `stderr`.
        answer = {"output": result.out, "exit-code": str(result.code)}
        return dict(answer, **{"error-output": result.err} if result.err else {})

    @action("generate-ssh-key", leader=False, plain=True)
    def generate_ssh_key(self, params: Params) -> Dict[str, Any]:
        key = ensure_key(self.charm.unit.key_file())
        # OSM calls this before it puts the key into a VDU that it has just made. The new VDU has a
        # new host key, so the stored one is no longer valid.
        if self.charm.environment.is_leader() and self.charm.environment.has_store():
            self.charm.environment.store(HOST_KEY, "")
        return {"output": key}

    @action("get-ssh-public-key", leader=False, plain=True)
    def get_ssh_public_key(self, params: Params) -> Dict[str, Any]:
        return {"pubkey": ensure_key(self.charm.unit.key_file())}

    # N2VC compares with the text "True".
    @action("verify-ssh-credentials", leader=False, plain=True, failed={"verified": "False"})
    def verify_ssh_credentials(self, params: Params) -> Dict[str, Any]:
        with self.charm.vdu() as vdu:
            vdu.require_shell()
            result = vdu.command("hostname", seconds=20)
            self.charm.unit.pin(vdu)
        return {"verified": "True", "output": result.out.strip()}

    @action("trust-host-key", plain=True)
    def trust_host_key(self, params: Params) -> Dict[str, Any]:
        text = str(params.get("fingerprint", "any"))
        fingerprint = fields.host_key_fingerprint("trust-host-key: fingerprint", text)
        before = self.charm.environment.stored(HOST_KEY)
        self.charm.environment.store(TRUST_KEY, fingerprint)
        self.charm.environment.store(HOST_KEY, "")
        try:
            with self.charm.vdu() as vdu:
                vdu.command("true", seconds=20)
                self.charm.unit.pin(vdu)
        except VpnaasError:
            self.charm.environment.store(HOST_KEY, before)
            self.charm.environment.store(TRUST_KEY, "")
            raise
        self.charm.environment.store(TRUST_KEY, "")
        self.charm.reconcile_and_report()
        return {"output": "pinned {}".format(self.charm.environment.stored(HOST_KEY))}
