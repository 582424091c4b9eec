"""The gNB: NGAP to the AMF, GTP-U with QoS flows to UPFs, frames to its UEs."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from simulators import sctp, station, uu
from simulators.errors import EpcError
from simulators.fiveg import ngap
from simulators.fiveg.slices import Snssai
from simulators.station import Connection, Station


@dataclass(frozen=True)
class Config(station.Config):
    """How the gNB is set up: a base station with slices, and its cell's identity (36 bits)."""

    slices: tuple[Snssai, ...] = ()
    cell: int = 0


class Gnb(Station):
    """The base station of a 5G core."""

    core = "AMF"
    log = logging.getLogger("NGAP")
    config: Config

    async def _associate(self) -> sctp.Association:
        config = self.config
        return await sctp.connect(config.control, config.core, ngap.PORT, ppid=ngap.PPID)

    async def _set_up(self, association: sctp.Association) -> None:
        config = self.config
        slices = [{"s-NSSAI": one.ngap} for one in config.slices]
        request = {
            "GlobalRANNodeID": (
                "globalGNB-ID",
                {
                    "pLMNIdentity": config.plmns[0].octets,
                    "gNB-ID": ("gNB-ID", (config.number, 32)),
                },
            ),
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
        association.send(0, ngap.encode("NGSetupRequest", request))
        self.log.info("Send NGSetupRequest to AMF")
        answer = await self._answered("NG Setup")
        if answer.name != "NGSetupResponse":
            cause = answer.values.get("Cause", ("", "no cause"))[1]
            raise EpcError(f"AMF {config.core} refuses NG Setup: {cause}.")
        self.log.info("Received NGSetupResponse from AMF")

    def _from_core(self, octets: bytes) -> None:
        message = ngap.decode(octets)
        if message.name.startswith("NGSetup"):
            if self._answer is not None and not self._answer.done():
                self._answer.set_result(message)
            return
        if message.name == "ErrorIndication":
            self.log.error("the AMF indicates an error: %s", message.values.get("Cause"))
            return
        if message.name == "UEContextReleaseCommand":
            _, ids = message.need("UE-NGAP-IDs")
            ue = self._ues.get(ids["rAN-UE-NGAP-ID"])
            gone = Connection(ids["rAN-UE-NGAP-ID"], None, 0, ids["aMF-UE-NGAP-ID"])  # type: ignore[arg-type]
            self._tell("UEContextReleaseComplete", ue or gone)
            if ue is not None:
                self._drop(ue, tell=True)
            return
        ue = self._ues.get(message.need("RAN-UE-NGAP-ID"))
        if ue is None:  # it left meanwhile: the AMF shall forget it too (section 10.6)
            ids = {name: message.need(name) for name in ("AMF-UE-NGAP-ID", "RAN-UE-NGAP-ID")}
            cause = ("radioNetwork", "unknown-local-UE-NGAP-ID")
            self._send(1, "ErrorIndication", ids | {"Cause": cause})
            return
        ue.core = message.need("AMF-UE-NGAP-ID")
        if message.name == "InitialContextSetupRequest":
            self._tell("InitialContextSetupResponse", ue)
        elif message.name == "PDUSessionResourceSetupRequest":
            self._sessions(ue, message.need("PDUSessionResourceSetupListSUReq"))
        elif message.name == "PDUSessionResourceReleaseCommand":
            self._release(ue, message.need("PDUSessionResourceToReleaseListRelCmd"))
        if "NAS-PDU" in message.values:
            ue.link.send(uu.NAS, ue.radio, message.values["NAS-PDU"])

    def _sessions(self, ue: Connection, items: Iterable[dict[str, Any]]) -> None:
        """Set up PDU sessions, each with its first QoS flow."""
        done, failed = [], []
        for item in items:
            number = item["pDUSessionID"]
            kind = "PDUSessionResourceSetupRequestTransfer"
            asked = ngap.transfer_of(kind, ngap.octets_of(kind, item[f"p{kind[1:]}"]))
            if Snssai.of_ngap(item["s-NSSAI"]) not in self.config.slices:
                cause = {"cause": ("radioNetwork", "slice-not-supported")}
                kind = "PDUSessionResourceSetupUnsuccessfulTransfer"
                octets = ngap.transfer(kind, cause)
                failed.append({"pDUSessionID": number, f"p{kind[1:]}": octets})
                continue
            address, teid = ngap.tunnel_of(asked["UPTransportLayerInformation"])
            qfi = asked["QosFlowSetupRequestList"][0]["qosFlowIdentifier"]
            self._remove_bearer(ue, number)
            bearer = self._add_bearer(ue, number, (teid, address), qfi)
            kind = "PDUSessionResourceSetupResponseTransfer"
            tunnel = {
                "uPTransportLayerInformation": ngap.tunnel(self.config.user, bearer.downlink),
                "associatedQosFlowList": [{"qosFlowIdentifier": qfi}],
            }
            octets = ngap.transfer(kind, {"dLQosFlowPerTNLInformation": tunnel})
            done.append({"pDUSessionID": number, f"p{kind[1:]}": octets})
            ue.link.send(uu.BEARER, ue.radio, bytes([number]))
            if "pDUSessionNAS-PDU" in item:
                ue.link.send(uu.NAS, ue.radio, item["pDUSessionNAS-PDU"])
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

    def _send(self, stream: int, name: str, values: dict[str, Any]) -> None:
        if self._association is None:
            raise EpcError("There is no association with the AMF.")
        self._association.send(stream, ngap.encode(name, values))

    def _tell(self, name: str, ue: Connection, values: dict[str, Any] | None = None) -> None:
        ids = {"RAN-UE-NGAP-ID": ue.number}
        if ue.core is not None:
            ids["AMF-UE-NGAP-ID"] = ue.core
        self._send(1 + ue.number % (sctp.STREAMS - 1), name, ids | (values or {}))

    def _place(self) -> tuple[str, dict[str, Any]]:
        return ngap.place(self.config.plmns[0], self.config.cell, self.config.tac)

    def _first(self, ue: Connection, nas: bytes) -> None:
        values = {
            "NAS-PDU": nas,
            "UserLocationInformation": self._place(),
            "RRCEstablishmentCause": "mo-Signalling",
            "UEContextRequest": "requested",
        }
        self._tell("InitialUEMessage", ue, values)

    def _next(self, ue: Connection, nas: bytes) -> None:
        values = {"NAS-PDU": nas, "UserLocationInformation": self._place()}
        self._tell("UplinkNASTransport", ue, values)

    def _lost(self, ue: Connection) -> None:
        cause = ("radioNetwork", "radio-connection-with-ue-lost")
        sessions = [{"pDUSessionID": number} for number in ue.bearers]
        values: dict[str, Any] = {"Cause": cause}
        if sessions:
            values["PDUSessionResourceListCxtRelReq"] = sessions
        self._tell("UEContextReleaseRequest", ue, values)
