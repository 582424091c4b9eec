"""The eNB: S1AP to the MME, GTP-U to the SPGW-U, frames to its UEs."""

import logging
from typing import Any

from simulators.epc import s1ap
from simulators.shared.base_station import Connection, Station
from simulators.shared.identity import Tai
from simulators.transport import asn1, radio_link


class Enb(Station):
    """The base station of an EPC."""

    protocol = s1ap.PROTOCOL
    core = "MME"
    log = logging.getLogger("enb")
    accepted = (
        logging.getLogger("ENB_APP"),
        "[eNB 0] Received S1AP_REGISTER_ENB_CNF: associated MME 1",
    )
    initial = {"RRC-Establishment-Cause": "mo-Signalling"}

    def _setup_request(self) -> dict[str, Any]:
        config = self.config
        plmns = [plmn.octets for plmn in config.plmns]
        number = ("macroENB-ID", (config.number, 20))
        return {
            "Global-ENB-ID": {"pLMNidentity": plmns[0], "eNB-ID": number},
            "ENBname": config.name,
            "SupportedTAs": [{"tAC": config.tac.to_bytes(2, "big"), "broadcastPLMNs": plmns}],
            "PagingDRX": "v128",
        }

    def _about(self, ue: Connection, message: asn1.Message) -> None:
        if message.name == "DownlinkNASTransport":
            ue.link.send(radio_link.NAS, ue.radio, message.need("NAS-PDU"))
        elif message.name == "InitialContextSetupRequest":
            bearers = message.need("E-RABToBeSetupListCtxtSUReq")
            identity, address, teid, nas = s1ap.first_bearer(bearers)
            bearer = self._add_bearer(ue, identity, (teid, address))
            done = s1ap.bearer_set_up(identity, self.config.user, bearer.downlink)
            self._tell("InitialContextSetupResponse", ue, {"E-RABSetupListCtxtSURes": done})
            ue.link.send(radio_link.BEARER, ue.radio, bytes([identity]))
            ue.link.send(radio_link.NAS, ue.radio, nas)

    def _place(self, ue: Connection) -> dict[str, Any]:
        plmn = self.config.plmns[0]
        return {
            "EUTRAN-CGI": s1ap.cell(plmn, self.config.number << 8),
            "TAI": s1ap.tai(Tai(plmn, self.config.tac)),
        }
