"""The subscribers of the core functions that slices share, which are rows in MySQL."""

import json
from typing import Any, Dict, List

from vpnaas.actions import OUTPUT_LIMIT, Params, action
from vpnaas.base import fields
from vpnaas.base.errors import InputError
from vpnaas.charm import Charm
from vpnaas.features.measure.measure import MeasureActions
from vpnaas.params.qos import TABLE

from . import amf, nssai, params, provision_5g, sql
from .amf import Amf
from .network_function import FunctionActions
from .nf_actions import ConnectedActions, kind_of
from .subscribers import Database, own_key


class AmfSubscribers(FunctionActions):
    """Adds, removes and lists subscribers, and sets their 5QI."""

    def __init__(self, charm: Charm) -> None:
        super().__init__(charm)
        self.database = Database(self.function, "udr", amf.DATA, sql)

    def _amf(self) -> Amf:
        return params.expect(Amf, self.function.params())

    @action("add-subscriber")
    def add_subscriber(self, given: Params) -> Dict[str, Any]:
        nf_params, where = self._amf(), "add-subscriber"
        imsi = self.database.imsi(where, given)
        slices = str(given.get("slices", "all"))
        allowed = _allowed(nf_params, where + ": slices", slices)
        with self.database.changing() as vdu:
            secrets = self.database.keys(vdu, where, imsi, given)
            change = {"removed": False, "own_slices": slices != "all"}
            if not self.database.rows(vdu, sql.select(imsi)):
                change["own_key"] = own_key(given)
            self.database.changed(vdu, imsi, change)
            added = provision_5g.authentication([imsi], secrets.subscriber_key, secrets.opc)
            self.database.rows(vdu, added, *_subscription(nf_params, imsi, allowed))
            self.database.remove_fetched_key(vdu, imsi)
        return {"added": imsi, "slices": sorted({str(one["slice"]) for one in shown(allowed)})}

    @action("remove-subscriber")
    def remove_subscriber(self, given: Params) -> Dict[str, Any]:
        return self.database.remove(given, lambda vdu, imsi, row: sql.removal(imsi))

    @action("list-subscribers")
    def list_subscribers(self, given: Params) -> Dict[str, Any]:
        self._amf()
        limit = fields.integer("list-subscribers: limit", given.get("limit", 100), 1, 1000)
        with self.charm.vdu() as vdu:
            imsis = sql.imsis(self.database.rows(vdu, sql.some(limit + 1)))
            listed, rows = imsis[:limit], []
            if listed:
                rows = self.database.rows(vdu, sql.sessions(listed[0], listed[-1]))
        held = sql.held(rows)
        return fitting(
            [{"imsi": imsi, "sessions": shown(held.get(imsi, []))} for imsi in listed],
            more=len(imsis) > limit,
        )

    @action("set-5qi")
    def set_5qi(self, given: Params) -> Dict[str, Any]:
        nf_params, where = self._amf(), "set-5qi"
        imsi = self.database.imsi(where, given)
        slice = nssai.snssai(where + ": slice", str(given.get("slice", "")))
        five_qi = nssai.five_qi(where + ": five-qi", given.get("five-qi"))
        with self.database.changing() as vdu:
            self.database.known(vdu, where, imsi)
            held = sql.held(self.database.rows(vdu, sql.sessions(imsi, imsi))).get(imsi, [])
            mine = [s for s in held if (s["sst"], s["sd"]) == (slice.sst, slice.differentiator)]
            if not mine:
                what = "{} may not use {}".format(imsi, slice)
                raise InputError(where + ": slice", what, "one that list-subscribers shows of it")
            for session in mine:
                session.update(five_qi=five_qi, priority=TABLE[five_qi].priority)
            self.database.changed(vdu, imsi, {"own_slices": True})
            self.database.rows(vdu, *_subscription(nf_params, imsi, held))
        return {"imsi": imsi, "sessions": shown(held)}


def _allowed(nf_params: Amf, where: str, text: str) -> List[Dict[str, Any]]:
    offered = amf.sessions(nf_params)
    if text == "all":
        return offered
    slices = [one.slice for one in nssai.parse(where, text, 1)]
    known = {one.slice for one in nf_params.sessions}
    for one in slices:
        if one not in known:
            allowed = ", ".join(sorted(str(each) for each in known))
            raise InputError(where, "{} is no slice of the network".format(one), allowed)
    named = {(one.sst, one.differentiator) for one in slices}
    return [session for session in offered if (session["sst"], session["sd"]) in named]


def _subscription(nf_params: Amf, imsi: str, sessions: List[Dict[str, Any]]) -> List[str]:
    return provision_5g.subscription([imsi], str(nf_params.plmn), sessions, nf_params.ambr_mbps)


def shown(sessions: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """Return sessions in the form of action results."""
    return [
        {
            "slice": str(nssai.snssai("row", "{}-{}".format(one["sst"], one["sd"]))),
            "dnn": one["dnn"],
            "five-qi": one["five_qi"],
        }
        for one in sessions
    ]


def fitting(subscribers: List[Dict[str, Any]], more: bool) -> Dict[str, Any]:
    """Return the answer of list-subscribers with as many subscribers as fit."""
    room, count = OUTPUT_LIMIT * 9 // 10, 0
    for subscriber in subscribers:
        room -= len(json.dumps(subscriber)) + 1
        if room < 0:
            break
        count += 1
    return {"subscribers": subscribers[:count], "more": more or count < len(subscribers)}


AMF = kind_of("amf", MeasureActions, ConnectedActions, AmfSubscribers)
