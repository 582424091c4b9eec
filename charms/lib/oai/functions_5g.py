"""The charm class of each network function of 5GS, with the actions that only it has."""

import json
from typing import Any, Dict, List, Mapping, Tuple

from vpnaas.actions import OUTPUT_LIMIT, Params, action
from vpnaas.base import fields
from vpnaas.base.errors import InputError, VpnaasError
from vpnaas.params.qos import TABLE
from vpnaas.vdu.ssh import Vdu

from . import amf, kinds, logs, n3iwf, n3ue, nr_ue, nssai, params, pdn, provision_5g, sql, values
from .amf import Amf
from .charm import NfCharm
from .functions import EquipmentCharm, KeyedCharm, UserPlaneCharm, own_key
from .n3iwf import N3iwf
from .params import Equipment


class AmfCharm(KeyedCharm):
    """Core functions that slices share; the subscribers are rows in MySQL."""

    kind = "amf"
    filled = "udr"
    data = amf.DATA
    language = sql

    def _amf(self) -> Amf:
        return params.expect(Amf, self._configured())

    @action("add-subscriber")
    def _add_subscriber(self, given: Params) -> Dict[str, Any]:
        nf_params, where = self._amf(), "add-subscriber"
        imsi = self._imsi(where, given)
        slices = str(given.get("slices", "all"))
        allowed = _allowed(nf_params, where + ": slices", slices)
        with self._changing() as vdu:
            secrets = self._keys(vdu, where, imsi, given)
            change = {"removed": False, "own_slices": slices != "all"}
            if not self._rows(vdu, sql.select(imsi)):
                change["own_key"] = own_key(given)
            self._changed(vdu, imsi, change)
            added = provision_5g.authentication([imsi], secrets.subscriber_key, secrets.opc)
            self._rows(vdu, added, *_subscription(nf_params, imsi, allowed))
            self._remove_fetched_key(vdu, imsi)
        return {"added": imsi, "slices": sorted({str(one["slice"]) for one in shown(allowed)})}

    def _deletions(self, vdu: Vdu, imsi: str, row: Mapping[str, str]) -> List[str]:
        return sql.removal(imsi)

    @action("list-subscribers")
    def _list_subscribers(self, given: Params) -> Dict[str, Any]:
        self._amf()
        limit = fields.integer("list-subscribers: limit", given.get("limit", 100), 1, 1000)
        with self._vdu() as vdu:
            imsis = sql.imsis(self._rows(vdu, sql.some(limit + 1)))
            listed, rows = imsis[:limit], []
            if listed:
                rows = self._rows(vdu, sql.sessions(listed[0], listed[-1]))
        held = sql.held(rows)
        return fitting(
            [{"imsi": imsi, "sessions": shown(held.get(imsi, []))} for imsi in listed],
            more=len(imsis) > limit,
        )

    @action("set-5qi")
    def _set_5qi(self, given: Params) -> Dict[str, Any]:
        nf_params, where = self._amf(), "set-5qi"
        imsi = self._imsi(where, given)
        slice = nssai.snssai(where + ": slice", str(given.get("slice", "")))
        five_qi = nssai.five_qi(where + ": five-qi", given.get("five-qi"))
        with self._changing() as vdu:
            self._known(vdu, where, imsi)
            held = sql.held(self._rows(vdu, sql.sessions(imsi, imsi))).get(imsi, [])
            mine = [s for s in held if (s["sst"], s["sd"]) == (slice.sst, slice.differentiator)]
            if not mine:
                what = "{} may not use {}".format(imsi, slice)
                raise InputError(where + ": slice", what, "one that list-subscribers shows of it")
            for session in mine:
                session.update(five_qi=five_qi, priority=TABLE[five_qi].priority)
            self._changed(vdu, imsi, {"own_slices": True})
            self._rows(vdu, *_subscription(nf_params, imsi, held))
        return {"imsi": imsi, "sessions": shown(held)}

    @action("show-connected")
    def _show_connected(self, given: Params) -> Dict[str, Any]:
        return dict(logs.connected(self._log("amf")))


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


class SmfCharm(NfCharm):
    """Session Management Function of a slice."""

    kind = "smf"

    @action("show-connected")
    def _show_connected(self, given: Params) -> Dict[str, Any]:
        return {"sessions": logs.sessions(self._log("smf"))}


class UpfCharm(UserPlaneCharm):
    """User Plane Function of a slice."""

    kind = "upf"
    side = "n6_interface"


class GnbCharm(NfCharm):
    """5G base station."""

    kind = "gnb"


class SessionsCharm(EquipmentCharm):
    """5G user equipment with PDU sessions in slices."""

    def _ue(self) -> Equipment:
        return params.expect(Equipment, self._configured())

    def _devices(self, vdu: Vdu) -> Dict[int, Tuple[str, str]]:
        """Return name and address of the device of each PDU session, by session number from 1."""
        raise NotImplementedError

    @action("establish-session")
    def _establish_session(self, given: Params) -> Mapping[str, Any]:
        nf_params, where = self._ue(), "establish-session"
        slice = nssai.snssai(where + ": slice", str(given.get("slice", "")))
        dnn = values.apn(where + ": dnn", str(given.get("dnn", "")))
        sessions = nf_params.requested + (nssai.Session(slice, dnn),)
        return self._with_sessions(nf_params, where, sessions)

    @action("release-session")
    def _release_session(self, given: Params) -> Mapping[str, Any]:
        nf_params, where = self._ue(), "release-session: slice"
        slice = nssai.snssai(where, str(given.get("slice", "")))
        left = tuple(one for one in nf_params.requested if one.slice != slice)
        if left == nf_params.requested:
            raise InputError(where, "no session in {}".format(slice), nf_params.sessions)
        if not left:
            what = "{} is the only slice of the UE".format(slice)
            raise InputError(where, what, "a slice while there is a session in another")
        return self._with_sessions(nf_params, where, left)

    def _with_sessions(
        self, nf_params: Equipment, where: str, sessions: Tuple[nssai.Session, ...]
    ) -> Mapping[str, Any]:
        # What the parser refuses could be stored, but not read back.
        named = {"sessions": nssai.text(sessions)}
        return self._change(kinds.changed(self.kind, nf_params, named, where))

    @action("show-sessions")
    def _show_sessions(self, given: Params) -> Dict[str, Any]:
        nf_params = self._ue()
        with self._vdu() as vdu:
            devices = self._devices(vdu)
        listed = []
        for number, one in enumerate(nf_params.requested, start=1):
            device, address = devices.get(number, ("", ""))
            shown = {"interface": device or None, "address": address or None}
            listed.append(dict(shown, slice=str(one.slice), dnn=one.dnn))
        return {"sessions": listed}

    def _connection(self, vdu: Vdu, given: Params) -> Tuple[str, str]:
        nf_params, text = self._ue(), str(given.get("slice", "first"))
        slice = nf_params.requested[0].slice if text == "first" else nssai.snssai("slice", text)
        devices = self._devices(vdu)
        for number, one in enumerate(nf_params.requested, start=1):
            if one.slice == slice:
                device, address = devices.get(number, ("", ""))
                if not device:
                    raise VpnaasError("no PDU session in slice {} yet".format(slice))
                if not address:
                    raise VpnaasError(pdn.not_attached(device))
                return device, address
        raise InputError("slice", "no session in {}".format(slice), nf_params.sessions)


class NrUeCharm(SessionsCharm):
    """5G user equipment with a simulated radio."""

    kind = "nr-ue"

    def _devices(self, vdu: Vdu) -> Dict[int, Tuple[str, str]]:
        numbers = range(1, len(self._ue().requested) + 1)
        steps = [pdn.address_step(nr_ue.device(n), nr_ue.device(n)) for n in numbers]
        results = vdu.execute(steps, exclusive=False)
        return {n: (nr_ue.device(n), pdn.address(results, nr_ue.device(n))) for n in numbers}


class N3iwfCharm(NfCharm):
    """Non-3GPP interworking function."""

    kind = "n3iwf"

    def _n3iwf(self) -> N3iwf:
        return params.expect(N3iwf, self._configured())

    @action("show-connected")
    def _show_connected(self, given: Params) -> Dict[str, Any]:
        self._n3iwf()
        with self._vdu() as vdu:
            results = vdu.execute([n3iwf.connected_step()], exclusive=False)
        return {"ues": n3iwf.connected(results)}

    @action("show-nwu")
    def _show_nwu(self, given: Params) -> Dict[str, Any]:
        nf_params = self._n3iwf()
        with self._vdu() as vdu:
            name = self._facts(vdu).tagged(nf_params.nwu_interface)
            steps = n3iwf.shown_steps(nf_params) + [pdn.address_step(name)]
            results = vdu.execute(steps, exclusive=False)
        return dict(n3iwf.shown(nf_params, results), address=pdn.address(results) or None)

    @action("set-nwu-certificate")
    def _set_nwu_certificate(self, given: Params) -> Mapping[str, Any]:
        nf_params = self._n3iwf()
        with self._vdu() as vdu:
            results = vdu.execute(n3iwf.request_steps(nf_params)).check()
            brought = n3iwf.given_certificate(nf_params, given, results)
            checked = vdu.execute(n3iwf.verify_steps(brought)).check()
            vdu.execute(n3iwf.install_steps(nf_params, brought, checked)).check()
        return self._restart_containers()


class N3ueCharm(SessionsCharm):
    """5G user equipment in an untrusted Wi-Fi."""

    kind = "n3ue"

    def _devices(self, vdu: Vdu) -> Dict[int, Tuple[str, str]]:
        return n3ue.devices(vdu.execute([n3ue.devices_step()], exclusive=False))
