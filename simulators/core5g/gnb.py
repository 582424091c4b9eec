"""The gNB: NGAP to the AMF, GTP-U with QoS flows to UPFs, frames to its UEs."""

import logging
from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import Any

from simulators.core5g import ngap
from simulators.core5g.snssai import Snssai
from simulators.shared import base_station
from simulators.shared.base_station import Connection, Station
from simulators.transport import asn1, radio_link


@dataclass(frozen=True)
class Config(base_station.Config):
    """Configuration of the gNB: a base station with slices, and its cell's identity (36 bits)."""

    slices: tuple[Snssai, ...] = ()
    cell: int = 0


class Gnb(Station):
    """The base station of a 5G core."""

    protocol = ngap.PROTOCOL
    core = "AMF"
    log = logging.getLogger("NGAP")
    accepted = (log, "Received NGSetupResponse from AMF")
    initial = {"RRCEstablishmentCause": "mo-Signalling", "UEContextRequest": "requested"}
    config: Config

    def _identity(self) -> tuple[str, dict[str, Any]]:
        number = {"gNB-ID": ("gNB-ID", (self.config.number, 32))}
        return "globalGNB-ID", {"pLMNIdentity": self.config.plmns[0].octets} | number

    def _setup_request(self) -> dict[str, Any]:
        config = self.config
        slices = [{"s-NSSAI": one.ngap} for one in config.slices]
        self.log.info("Send NGSetupRequest to AMF")
        return {
            "GlobalRANNodeID": self._identity(),
            "RANNodeName": config.name,
            "SupportedTAList": [
                {
                    "tAC": config.tac.to_bytes(3, "big"),
                    "broadcastPLMNList": [
                        {"pLMNIdentity": one.octets, "tAISliceSupportList": slices}
                        for one in config.plmns
                    ],
                }
            ],
            "PagingDRX": "v128",
        }

    def _about(self, ue: Connection, message: asn1.Message) -> None:
        if message.name == "InitialContextSetupRequest":
            self._set_context(ue, message)
        elif message.name == "PDUSessionResourceSetupRequest":
            self._sessions(ue, message.need("PDUSessionResourceSetupListSUReq"))
        elif message.name == "PDUSessionResourceReleaseCommand":
            self._release(ue, message.need("PDUSessionResourceToReleaseListRelCmd"))
        if "NAS-PDU" in message.values:
            ue.link.send(radio_link.NAS, ue.radio, message.values["NAS-PDU"])

    def _set_context(self, ue: Connection, message: asn1.Message) -> None:
        """Handle a UE's security context; the gNB does nothing with it."""
        self._tell("InitialContextSetupResponse", ue, {})

    def _sessions(self, ue: Connection, items: Iterable[dict[str, Any]]) -> None:
        self._set_up_sessions(ue, items)

    def _requested(self, item: dict[str, Any]) -> tuple[str, int, int]:
        """Return address and TEID of the UPF's end for a PDU session, and its first QoS flow."""
        kind = "PDUSessionResourceSetupRequestTransfer"
        asked = ngap.transfer_of(kind, ngap.octets_of(kind, item[f"p{kind[1:]}"]))
        address, teid = ngap.tunnel_of(asked["UPTransportLayerInformation"])
        return address, teid, asked["QosFlowSetupRequestList"][0]["qosFlowIdentifier"]

    def _set_up_sessions(
        self, ue: Connection, items: Iterable[dict[str, Any]], lost: Container[int] = ()
    ) -> None:
        """Create the tunnels of PDU sessions, each with its first QoS flow, except ``lost``."""
        done, failed = [], []
        for item in items:
            number = item["pDUSessionID"]
            reason = "failure-in-radio-interface-procedure" if number in lost else ""
            if Snssai.of_ngap(item["s-NSSAI"]) not in self.config.slices:
                reason = "slice-not-supported"
            if reason:
                kind = "PDUSessionResourceSetupUnsuccessfulTransfer"
                octets = ngap.transfer(kind, {"cause": ("radioNetwork", reason)})
                failed.append({"pDUSessionID": number, f"p{kind[1:]}": octets})
                continue
            address, teid, qfi = self._requested(item)
            self._remove_bearer(ue, number)
            bearer = self._add_bearer(ue, number, (teid, address), qfi)
            kind = "PDUSessionResourceSetupResponseTransfer"
            tunnel = {
                "uPTransportLayerInformation": ngap.tunnel(self.config.user, bearer.downlink),
                "associatedQosFlowList": [{"qosFlowIdentifier": qfi}],
            }
            octets = ngap.transfer(kind, {"dLQosFlowPerTNLInformation": tunnel})
            done.append({"pDUSessionID": number, f"p{kind[1:]}": octets})
            ue.link.send(radio_link.BEARER, ue.radio, bytes([number]))
            if "pDUSessionNAS-PDU" in item:
                ue.link.send(radio_link.NAS, ue.radio, item["pDUSessionNAS-PDU"])
        values = {}
        if done:
            values["PDUSessionResourceSetupListSURes"] = done
        if failed:
            values["PDUSessionResourceFailedToSetupListSURes"] = failed
        self._tell("PDUSessionResourceSetupResponse", ue, values)

    def _release(self, ue: Connection, items: Iterable[dict[str, Any]]) -> None:
        kind = "PDUSessionResourceReleaseResponseTransfer"
        done = []
        for item in items:
            self._remove_bearer(ue, item["pDUSessionID"])
            octets = ngap.transfer(kind, {})
            done.append({"pDUSessionID": item["pDUSessionID"], f"p{kind[1:]}": octets})
        values = {"PDUSessionResourceReleasedListRelRes": done}
        self._tell("PDUSessionResourceReleaseResponse", ue, values)

    def _place(self, ue: Connection) -> dict[str, Any]:
        place = ngap.place(self.config.plmns[0], self.config.cell, self.config.tac)
        return {"UserLocationInformation": place}

    def _bearers_of(self, ue: Connection) -> dict[str, Any]:
        sessions = [{"pDUSessionID": number} for number in ue.bearers]
        return {"PDUSessionResourceListCxtRelReq": sessions} if sessions else {}
