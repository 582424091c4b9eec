"""The charm class of each network function, with the actions that only it has."""

import json
from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, Mapping, Tuple

import attr
from vpnaas.actions import Params, action
from vpnaas.base import fields
from vpnaas.base.errors import InputError, VpnaasError
from vpnaas.vdu import secret_store
from vpnaas.vdu.ssh import Vdu
from vpnaas.vdu.steps import read, run, which

from oai.model import SUBSCRIBER_FILE

from . import cql, fill, hss, logs, params, pdn, plan, provision, units, values
from .charm import NfCharm
from .hss import Hss
from .model import SECRETS_FILE
from .params import Secrets

SAME = "same"
"""Value in place of a subscriber's key: the subscriber has that of the range."""


def own_key(given: Params) -> bool:
    """Tell whether add-subscriber gives the subscriber a key of its own."""
    return str(given.get("subscriber-key", SAME)) != SAME


class KeyedCharm(NfCharm):
    """A network function with subscribers; their keys are on its VDU."""

    filled = ""  # The container before whose start `fill` runs.
    data = ""  # Folder of the database.
    language: Any = None  # Module of the database: `cql` or `sql`.
    _engine = ""

    @contextmanager
    def _changing(self) -> Iterator[Vdu]:
        """Give the VDU to an action that changes subscribers.

        Raises:
            VpnaasError: `fill` runs. It read before what actions changed, and would undo this one.
        """
        words = ("systemctl", "show", "--property=SubState", "--value", units.unit(self.filled))
        with self._vdu() as vdu:
            results = vdu.execute([run("filled", *words, any_exit=True)], exclusive=False)
            if results.output("filled").strip() == "start-pre":
                raise VpnaasError(
                    "the database is being filled with subscribers; try again when health says that"
                    " the {} is ready".format(self.kind.upper())
                )
            yield vdu

    def _keys(self, vdu: Vdu, where: str, imsi: str, given: Params) -> Secrets:
        """Return the keys of a subscriber: those of the range, or with K from the action."""
        steps = [read("secrets", SECRETS_FILE), read("own", SUBSCRIBER_FILE.format(imsi))]
        kept = vdu.execute(steps, exclusive=False)
        secrets = Secrets.from_json(kept.text("secrets"))
        if not secrets:
            raise VpnaasError("the VDU does not hold the keys; run configure-nf again")
        if not own_key(given):
            return secrets
        at, key = where + ": subscriber-key", str(given["subscriber-key"])
        if key == params.STORE:
            fetched = kept.text("own")
            if not fetched:
                raise InputError(
                    at, "no key of {} was fetched".format(imsi), "run fetch-keys first"
                )
            key = str(fields.json_object("VDU: key", fetched).get("subscriber_key", ""))
        return attr.evolve(secrets, subscriber_key=values.key(at, key))

    def _remove_fetched_key(self, vdu: Vdu, imsi: str) -> None:
        """Remove the key that was fetched for a subscriber; the database has it now."""
        vdu.execute(secret_store.forget(SUBSCRIBER_FILE.format(imsi)), exclusive=False).check()

    def _imsi(self, where: str, given: Params) -> str:
        return values.imsi_of(where + ": imsi", given.get("imsi", ""), self._configured().plmn)

    @action("remove-subscriber")
    def _remove_subscriber(self, given: Params) -> Dict[str, Any]:
        where = "remove-subscriber"
        imsi = self._imsi(where, given)
        with self._changing() as vdu:
            rows = self._known(vdu, where, imsi)
            deletions = self._deletions(vdu, imsi, rows[0])
            self._changed(vdu, imsi, {"removed": True})
            self._rows(vdu, *deletions)
        return {"removed": imsi}

    def _deletions(self, vdu: Vdu, imsi: str, row: Mapping[str, str]) -> List[str]:
        """Return the statements that remove a subscriber with such a row."""
        raise NotImplementedError

    def _changed(self, vdu: Vdu, imsi: str, change: Mapping[str, object]) -> None:
        """Record what an action changes of a subscriber, beside the database; `fill` reads it."""
        line = json.dumps(dict(change, imsi=imsi), sort_keys=True) + "\n"
        step = run("changed", "tee", "-a", "{}/{}".format(self.data, fill.CHANGES), stdin=line)
        vdu.execute([step], exclusive=False).check()

    def _rows(self, vdu: Vdu, *statements: str) -> List[Dict[str, str]]:
        """Send statements to the database, by standard input only; return the rows."""
        if not self._engine:
            observed = vdu.execute([which("nf/engine", plan.ENGINES)], exclusive=False)
            self._engine = plan.engine(observed)
        command = (self._engine, "exec", "--interactive", *self.language.COMMAND)
        lines = "\n".join(statements) + "\n"
        step = run("rows", *command, stdin=lines, any_exit=True, timeout=60)
        results = vdu.execute([step], exclusive=False)
        if results.failed is not None or results.exit_code("rows") != 0:
            form = "{} did not answer: {}; health says more"
            raise VpnaasError(form.format(self.language.DATABASE, results.why("rows")))
        rows: List[Dict[str, str]] = self.language.table(results.output("rows"))
        return rows

    def _known(self, vdu: Vdu, where: str, imsi: str) -> List[Dict[str, str]]:
        """Return the rows of a subscriber."""
        rows = self._rows(vdu, self.language.select(imsi))
        if not rows:
            what = "{} is no subscriber".format(imsi)
            raise InputError(where + ": imsi", what, "one that list-subscribers shows")
        return rows


class HssCharm(KeyedCharm):
    """Home Subscriber Server: its subscribers are rows in Cassandra."""

    kind = "hss"
    filled = "hss"
    data = hss.DATA
    language = cql

    def _hss(self) -> Hss:
        return params.expect(Hss, self._configured())

    @action("add-subscriber")
    def _add_subscriber(self, given: Params) -> Dict[str, Any]:
        nf_params, where = self._hss(), "add-subscriber"
        imsi = self._imsi(where, given)
        msisdn = values.msisdn(where + ": msisdn", given.get("msisdn", ""))
        with self._changing() as vdu:
            cql.free(self._rows(vdu, cql.holder(msisdn)), msisdn, imsi)
            secrets = self._keys(vdu, where, imsi, given)
            common = hss.subscription(nf_params, secrets)
            first, second = provision.subscriber(imsi, msisdn, common)
            cql.applied(self._rows(vdu, first), imsi)
            change = {"removed": False, "msisdn": msisdn, "own_key": own_key(given)}
            self._changed(vdu, imsi, change)
            self._rows(vdu, second)
            self._remove_fetched_key(vdu, imsi)
        return {"added": imsi, "msisdn": msisdn}

    def _deletions(self, vdu: Vdu, imsi: str, row: Mapping[str, str]) -> List[str]:
        msisdn = row.get("msisdn", "")
        if fields.is_count(msisdn):
            # The number of a subscriber of the range may be that of one that was added.
            holders = self._rows(vdu, cql.holder(msisdn))
            msisdn = msisdn if {"imsi": imsi} in holders else ""
        return cql.deletions(imsi, msisdn)

    @action("list-subscribers")
    def _list_subscribers(self, given: Params) -> Dict[str, Any]:
        self._hss()
        limit = fields.integer("list-subscribers: limit", given.get("limit", 100), 1, 1000)
        with self._vdu() as vdu:
            rows = self._rows(vdu, cql.select(limit=limit + 1))
        return cql.shown(rows, limit)


class MmeCharm(NfCharm):
    """Mobility Management Entity."""

    kind = "mme"

    @action("show-connected")
    def _show_connected(self, given: Params) -> Dict[str, Any]:
        return dict(logs.statistics(self._log("mme")))


class SpgwcCharm(NfCharm):
    """Control plane of the serving and PDN gateways."""

    kind = "spgwc"


class UserPlaneCharm(NfCharm):
    """A user plane; it can run a server in the data network for measurements of UEs."""

    side = ""
    """Name of the parameter with the interface towards the data network."""

    @action("serve-throughput")
    def _serve_throughput(self, given: Params) -> Dict[str, Any]:
        where = "serve-throughput: seconds"
        seconds = fields.integer(where, given.get("seconds", 600), 1, 86400)
        configured = self._configured()
        with self._vdu() as vdu:
            interface = getattr(params.resolved(configured, self._facts(vdu)), self.side)
            own = self._address(vdu, interface, "{} has no IPv4 address yet".format(interface))
            results = vdu.execute(pdn.serve_steps(own, seconds), exclusive=False)
        return pdn.served(own, seconds, results)


class SpgwuCharm(UserPlaneCharm):
    """User plane of the serving and PDN gateways."""

    kind = "spgwu"
    side = "sgi_interface"


class EnbCharm(NfCharm):
    """Base station."""

    kind = "enb"


class EquipmentCharm(NfCharm):
    """User equipment; it measures through its PDN connection or PDU session, not through a link."""

    def _connection(self, vdu: Vdu, given: Params) -> Tuple[str, str]:
        """Return device and address of the connection that an action measures."""
        return pdn.DEVICE, self._address(vdu, pdn.DEVICE, pdn.not_attached(pdn.DEVICE))

    @action("measure-throughput")
    def _measure_throughput(self, given: Params) -> Dict[str, Any]:
        test = pdn.Throughput.parse(given)
        self._configured()
        with self._vdu() as vdu:
            device, own = self._connection(vdu, given)
            results = vdu.execute([pdn.throughput_step(test, own)], exclusive=False)
        return dict(pdn.throughput(test, own, results), interface=device)

    @action("measure-latency")
    def _measure_latency(self, given: Params) -> Dict[str, Any]:
        test = pdn.Latency.parse(given)
        self._configured()
        with self._vdu() as vdu:
            device, own = self._connection(vdu, given)
            results = vdu.execute([test.step(test.server, own)], exclusive=False)
        return dict(pdn.latency(test, own, results), interface=device)


class UeCharm(EquipmentCharm):
    """LTE user equipment."""

    kind = "ue"
