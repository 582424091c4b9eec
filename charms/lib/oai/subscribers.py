"""Subscribers: rows of a database, and keys on its VDU; those of an HSS are in Cassandra."""

import json
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List, Mapping

import attr
from vpnaas.actions import Params, action
from vpnaas.base import fields
from vpnaas.base.errors import InputError, VpnaasError
from vpnaas.charm import Charm
from vpnaas.features.measure.measure import MeasureActions
from vpnaas.vdu import secret_store
from vpnaas.vdu.ssh import Vdu
from vpnaas.vdu.steps import read, run, which

from . import cql, fill, hss, params, plan, provision, units, values
from .hss import Hss
from .model import SECRETS_FILE, SUBSCRIBER_FILE
from .network_function import FunctionActions, NetworkFunction
from .nf_actions import kind_of
from .params import Secrets

SAME = "same"
"""Value in place of a subscriber's key: the subscriber has that of the range."""


def own_key(given: Params) -> bool:
    """Tell whether add-subscriber gives the subscriber a key of its own."""
    return str(given.get("subscriber-key", SAME)) != SAME


Deletions = Callable[[Vdu, str, Mapping[str, str]], List[str]]
"""Returns the statements that remove a subscriber, by its VDU, IMSI and row."""


class Database:
    """The subscribers of a network function, for the actions on them."""

    _engine = ""

    def __init__(self, function: NetworkFunction, filled: str, data: str, language: Any) -> None:
        self.function = function
        self.filled = filled  # The container before whose start `fill` runs.
        self.data = data  # Folder of the database.
        self.language = language  # Module of the database: `cql` or `sql`.

    @contextmanager
    def changing(self) -> Iterator[Vdu]:
        """Give the VDU to an action that changes subscribers.

        Raises:
            VpnaasError: `fill` runs. It read before what actions changed, and would undo this one.
        """
        words = ("systemctl", "show", "--property=SubState", "--value", units.unit(self.filled))
        with self.function.charm.vdu() as vdu:
            results = vdu.execute([run("filled", *words, any_exit=True)], exclusive=False)
            if results.output("filled").strip() == "start-pre":
                raise VpnaasError(
                    "the database is being filled with subscribers; try again when health says that"
                    " the {} is ready".format(self.function.kind.upper())
                )
            yield vdu

    def keys(self, vdu: Vdu, where: str, imsi: str, given: Params) -> Secrets:
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

    def remove_fetched_key(self, vdu: Vdu, imsi: str) -> None:
        """Remove the key that was fetched for a subscriber; the database has it now."""
        vdu.execute(secret_store.forget(SUBSCRIBER_FILE.format(imsi)), exclusive=False).check()

    def imsi(self, where: str, given: Params) -> str:
        return values.imsi_of(where + ": imsi", given.get("imsi", ""), self.function.params().plmn)

    def changed(self, vdu: Vdu, imsi: str, change: Mapping[str, object]) -> None:
        """Record what an action changes of a subscriber, beside the database; `fill` reads it."""
        line = json.dumps(dict(change, imsi=imsi), sort_keys=True) + "\n"
        step = run("changed", "tee", "-a", "{}/{}".format(self.data, fill.CHANGES), stdin=line)
        vdu.execute([step], exclusive=False).check()

    def rows(self, vdu: Vdu, *statements: str) -> List[Dict[str, str]]:
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

    def remove(self, given: Params, deletions: Deletions) -> Dict[str, Any]:
        """Remove the subscriber that remove-subscriber names; return the answer."""
        where = "remove-subscriber"
        imsi = self.imsi(where, given)
        with self.changing() as vdu:
            rows = self.known(vdu, where, imsi)
            statements = deletions(vdu, imsi, rows[0])
            self.changed(vdu, imsi, {"removed": True})
            self.rows(vdu, *statements)
        return {"removed": imsi}

    def known(self, vdu: Vdu, where: str, imsi: str) -> List[Dict[str, str]]:
        """Return the rows of a subscriber."""
        rows = self.rows(vdu, self.language.select(imsi))
        if not rows:
            what = "{} is no subscriber".format(imsi)
            raise InputError(where + ": imsi", what, "one that list-subscribers shows")
        return rows


class HssSubscribers(FunctionActions):
    """Adds, removes and lists subscribers."""

    def __init__(self, charm: Charm) -> None:
        super().__init__(charm)
        self.database = Database(self.function, "hss", hss.DATA, cql)

    def _hss(self) -> Hss:
        return params.expect(Hss, self.function.params())

    @action("add-subscriber")
    def add_subscriber(self, given: Params) -> Dict[str, Any]:
        nf_params, where = self._hss(), "add-subscriber"
        imsi = self.database.imsi(where, given)
        msisdn = values.msisdn(where + ": msisdn", given.get("msisdn", ""))
        with self.database.changing() as vdu:
            cql.free(self.database.rows(vdu, cql.holder(msisdn)), msisdn, imsi)
            secrets = self.database.keys(vdu, where, imsi, given)
            common = hss.subscription(nf_params, secrets)
            first, second = provision.subscriber(imsi, msisdn, common)
            cql.applied(self.database.rows(vdu, first), imsi)
            change = {"removed": False, "msisdn": msisdn, "own_key": own_key(given)}
            self.database.changed(vdu, imsi, change)
            self.database.rows(vdu, second)
            self.database.remove_fetched_key(vdu, imsi)
        return {"added": imsi, "msisdn": msisdn}

    @action("remove-subscriber")
    def remove_subscriber(self, given: Params) -> Dict[str, Any]:
        return self.database.remove(given, self._deletions)

    def _deletions(self, vdu: Vdu, imsi: str, row: Mapping[str, str]) -> List[str]:
        msisdn = row.get("msisdn", "")
        if fields.is_count(msisdn):
            # The number of a subscriber of the range may be that of one that was added.
            holders = self.database.rows(vdu, cql.holder(msisdn))
            msisdn = msisdn if {"imsi": imsi} in holders else ""
        return cql.deletions(imsi, msisdn)

    @action("list-subscribers")
    def list_subscribers(self, given: Params) -> Dict[str, Any]:
        self._hss()
        limit = fields.integer("list-subscribers: limit", given.get("limit", 100), 1, 1000)
        with self.charm.vdu() as vdu:
            rows = self.database.rows(vdu, cql.select(limit=limit + 1))
        return cql.shown(rows, limit)


HSS = kind_of("hss", MeasureActions, HssSubscribers)
