"""The eNB: S1AP to the MME, GTP-U to the SPGW-U, frames to its UEs."""

from __future__ import annotations

import logging
from typing import Any

from simulators import s1ap, sctp, uu
from simulators.errors import EpcError
from simulators.identity import Tai
from simulators.station import Connection, Station

enb_app = logging.getLogger("ENB_APP")


class Enb(Station):
    """The base station of an EPC."""

    core = "MME"
    log = logging.getLogger("enb")

    async def _associate(self) -> sctp.Association:
        return await sctp.connect(self.config.control, self.config.core, s1ap.PORT)

    async def _set_up(self, association: sctp.Association) -> None:
        config = self.config
        plmns = [plmn.octets for plmn in config.plmns]
        request = s1ap.encode(
            "S1SetupRequest",
            enb_id={
                "pLMNidentity": plmns[0],
                "eNB-ID": ("macroENB-ID", (config.number, 20)),
            },
            enb_name=config.name,
            areas=[{"tAC": config.tac.to_bytes(2, "big"), "broadcastPLMNs": plmns}],
            paging="v128",
        )
        association.send(0, request)
        answer = await self._answered("S1 Setup")
        if answer.name != "S1SetupResponse":
            cause = answer.values.get("cause", ("", "no cause"))[1]
            raise EpcError(f"MME {config.core} refuses S1 Setup: {cause}.")
        enb_app.info("[eNB 0] Received S1AP_REGISTER_ENB_CNF: associated MME 1")

    def _from_core(self, octets: bytes) -> None:
        message = s1ap.decode(octets)
        if message.name.startswith("S1Setup"):
            if self._answer is not None and not self._answer.done():
                self._answer.set_result(message)
            return
        if message.name == "ErrorIndication":
            self.log.error("the MME indicates an error: %s", message.values.get("cause"))
            return
        if message.name == "UEContextReleaseCommand":
            _, ids = message.need("ids")
            ue = self._ues.get(ids["eNB-UE-S1AP-ID"])
            self._tell(
                "UEContextReleaseComplete",
                mme=ids["mME-UE-S1AP-ID"],
                enb=ids["eNB-UE-S1AP-ID"],
            )
            if ue is not None:
                self._drop(ue, tell=True)
            return
        ue = self._ues.get(message.need("enb"))
        if ue is None:  # it left meanwhile: the MME shall forget it too (section 10.6)
            self._tell(
                "ErrorIndication",
                mme=message.need("mme"),
                enb=message.need("enb"),
                cause=("radioNetwork", "unknown-enb-ue-s1ap-id"),
            )
            return
        ue.core = message.need("mme")
        if message.name == "DownlinkNASTransport":
            ue.link.send(uu.NAS, ue.radio, message.need("nas"))
        elif message.name == "InitialContextSetupRequest":
            self._context(ue, message)

    def _context(self, ue: Connection, message: s1ap.Message) -> None:
        identity, address, teid, nas = s1ap.first_bearer(message.need("setup"))
        bearer = self._add_bearer(ue, identity, (teid, address))
        self._tell(
            "InitialContextSetupResponse",
            mme=ue.core,
            enb=ue.number,
            bearers=s1ap.bearer_set_up(identity, self.config.user, bearer.downlink),
        )
        ue.link.send(uu.BEARER, ue.radio, bytes([identity]))
        ue.link.send(uu.NAS, ue.radio, nas)

    def _tell(self, name: str, **values: Any) -> None:
        if self._association is None:
            raise EpcError("There is no association with the MME.")
        stream = 1 + values.get("enb", 0) % (sctp.STREAMS - 1)
        self._association.send(stream, s1ap.encode(name, **values))

    def _place(self) -> dict[str, Any]:
        plmn = self.config.plmns[0]
        return {
            "cell": s1ap.cell(plmn, self.config.number << 8),
            "tai": s1ap.tai(Tai(plmn, self.config.tac)),
        }

    def _first(self, ue: Connection, nas: bytes) -> None:
        why = "mo-Signalling"
        self._tell("InitialUEMessage", enb=ue.number, nas=nas, why=why, **self._place())

    def _next(self, ue: Connection, nas: bytes) -> None:
        self._tell("UplinkNASTransport", mme=ue.core, enb=ue.number, nas=nas, **self._place())

    def _lost(self, ue: Connection) -> None:
        cause = ("radioNetwork", "radio-connection-with-ue-lost")
        self._tell("UEContextReleaseRequest", mme=ue.core, enb=ue.number, cause=cause)
