"""S6a messages (3GPP TS 29.272): requests of the MME and the HSS, and their answers."""

import itertools
import os
from dataclasses import dataclass
from typing import Any

from diameter.message import Message, constants
from diameter.message.avp import grouped
from diameter.message.commands import (
    AuthenticationInformationRequest,
    CancelLocationRequest,
    UpdateLocationRequest,
)

from simulators.epc.diameter import SUCCESS, TGPP, Identity, s6a_application
from simulators.epc.subscribers import Subscriber
from simulators.errors import EpcError, ProtocolError
from simulators.shared.identity import Plmn, digits_of
from simulators.shared.keys import Vector

# Experimental results of TS 29.272 section 7.4.
USER_UNKNOWN = 5001
ROAMING_NOT_ALLOWED = 5004
UNKNOWN_EPS_SUBSCRIPTION = 5420
AUTHENTICATION_DATA_UNAVAILABLE = 4181
NAMES = {
    SUCCESS: "DIAMETER_SUCCESS",
    USER_UNKNOWN: "DIAMETER_ERROR_USER_UNKNOWN",
    ROAMING_NOT_ALLOWED: "DIAMETER_ERROR_ROAMING_NOT_ALLOWED",
    UNKNOWN_EPS_SUBSCRIPTION: "DIAMETER_ERROR_UNKNOWN_EPS_SUBSCRIPTION",
    AUTHENTICATION_DATA_UNAVAILABLE: "DIAMETER_AUTHENTICATION_DATA_UNAVAILABLE",
}

NO_STATE = constants.E_AUTH_SESSION_STATE_NO_STATE_MAINTAINED
EUTRAN = 1004  # RAT-Type, TS 29.212 section 5.3.31
_ULR_FLAGS = 1 << 1 | 1 << 5  # S6a/S6d-Indicator, Initial-AttachIndicator (section 7.3.7)
_ONLY_PACKET = 2  # Network-Access-Mode (section 7.3.21); a function without voice of its own
_ULA_FLAGS = 1  # Separation Indication (section 7.3.8)
_DEFAULT_QCI = 9
MSISDN = 15  # Maximum octets of an MSISDN in Magma's MME.

_session = itertools.count(1)
_boot = int.from_bytes(os.urandom(4), "big")


class RefusedError(EpcError):
    """The HSS answered with an error; ``code`` is its result or experimental result code."""

    def __init__(self, code: int) -> None:
        self.code = code
        super().__init__(f"The HSS answered {NAMES.get(code, code)}.")


@dataclass(frozen=True)
class Subscription:
    """The part of Subscription-Data that an MME keeps."""

    msisdn: str
    apns: tuple[str, ...]
    ambr_up: int
    ambr_down: int


def _request(message: Any, me: Identity, host: str, realm: str, imsi: str) -> Any:
    message.session_id = f"{me.host};{_boot};{next(_session)};s6a"
    message.vendor_specific_application_id = s6a_application()
    message.header.application_id = constants.APP_3GPP_S6A_S6D
    message.auth_session_state = NO_STATE
    message.origin_host = me.host.encode()
    message.origin_realm = me.realm.encode()
    message.destination_host = host.encode()
    message.destination_realm = realm.encode()
    message.user_name = imsi
    return message


def authentication_request(
    me: Identity, host: str, realm: str, imsi: str, plmn: Plmn, resync: bytes = b""
) -> Message:
    """AIR for one vector; ``resync`` is RAND and AUTS from a UE, for resynchronisation."""
    message = _request(AuthenticationInformationRequest(), me, host, realm, imsi)
    message.visited_plmn_id = plmn.octets
    message.requested_eutran_authentication_info = grouped.RequestedEutranAuthenticationInfo(
        number_of_requested_vectors=1, immediate_response_preferred=0
    )
    if resync:
        message.requested_eutran_authentication_info.re_synchronization_info = resync
    return message


def location_request(me: Identity, host: str, realm: str, imsi: str, plmn: Plmn) -> Message:
    """ULR of an initial attach."""
    message = _request(UpdateLocationRequest(), me, host, realm, imsi)
    message.rat_type = EUTRAN
    message.ulr_flags = _ULR_FLAGS
    message.visited_plmn_id = plmn.octets
    return message


def cancel_request(me: Identity, host: str, realm: str, imsi: str) -> Message:
    """CLR: another MME serves the subscriber now (MME_UPDATE_PROCEDURE)."""
    message = _request(CancelLocationRequest(), me, host, realm, imsi)
    message.cancellation_type = 0
    return message


def answer_to(request: Any, me: Identity, code: int = SUCCESS) -> Any:
    """Return an answer with a base result code or, for S6a's own errors, an experimental one."""
    answer = request.to_answer()
    answer.session_id = request.session_id
    answer.origin_host = me.host.encode()
    answer.origin_realm = me.realm.encode()
    answer.auth_session_state = NO_STATE
    if code in (USER_UNKNOWN, ROAMING_NOT_ALLOWED, UNKNOWN_EPS_SUBSCRIPTION) or (
        code == AUTHENTICATION_DATA_UNAVAILABLE
    ):
        answer.experimental_result = grouped.ExperimentalResult(
            vendor_id=TGPP, experimental_result_code=code
        )
    else:
        answer.result_code = code
    return answer


def with_vector(answer: Any, vector: Vector) -> Any:
    eutran = grouped.EUtranVector(
        item_number=1,
        rand=vector.rand,
        xres=vector.xres,
        autn=vector.autn,
        kasme=vector.kasme,
    )
    answer.authentication_info = grouped.AuthenticationInfo(e_utran_vector=[eutran])
    return answer


def with_subscription(answer: Any, one: Subscriber) -> Any:
    """The ULA with the subscription's data."""
    answer.ula_flags = _ULA_FLAGS
    ambr = grouped.Ambr(
        max_requested_bandwidth_ul=one.ambr_up, max_requested_bandwidth_dl=one.ambr_down
    )
    priority = grouped.AllocationRetentionPriority(
        priority_level=15, pre_emption_capability=1, pre_emption_vulnerability=0
    )
    qos = grouped.EpsSubscribedQosProfile(
        qos_class_identifier=_DEFAULT_QCI, allocation_retention_priority=priority
    )
    points = [
        grouped.ApnConfiguration(
            context_identifier=number,
            pdn_type=0,
            service_selection=apn,
            eps_subscribed_qos_profile=qos,
            ambr=ambr,
        )
        for number, apn in enumerate(one.apns, start=1)  # never 0 (TS 29.272 section 7.3.35)
    ]
    profile = grouped.ApnConfigurationProfile(
        context_identifier=1,
        all_apn_configurations_included_indicator=0,
        apn_configuration=points,
    )
    answer.subscription_data = grouped.SubscriptionData(
        subscriber_status=0,
        msisdn=one.msisdn,
        access_restriction_data=0,
        network_access_mode=_ONLY_PACKET,
        ambr=ambr,
        apn_configuration_profile=profile,
    )
    return answer


def check(answer: Any) -> None:
    """Raise RefusedError if the answer does not report success."""
    code = answer.result_code
    experimental = getattr(answer, "experimental_result", None)
    if code is None and experimental is not None:
        code = experimental.experimental_result_code
    if code is None:
        raise ProtocolError("The HSS answered without a result code.")
    if code != SUCCESS:
        raise RefusedError(code)


def vector_of(answer: Any) -> Vector:
    """The vector of an AIA.

    Raises:
        RefusedError: the HSS refused.
    """
    check(answer)
    info = answer.authentication_info
    vectors = info.e_utran_vector if info is not None else []
    if not vectors:
        raise ProtocolError("The HSS answered AIR without a vector.")
    one = vectors[0]
    vector = Vector(one.rand or b"", one.xres or b"", one.autn or b"", one.kasme or b"")
    sizes = (len(vector.rand), len(vector.autn), len(vector.kasme))
    if sizes != (16, 16, 32) or not 4 <= len(vector.xres) <= 16:
        raise ProtocolError("The HSS answered AIR with parts of a vector of a wrong size.")
    return vector


def subscription_of(answer: Any) -> Subscription:
    """The subscription of a ULA.

    Raises:
        RefusedError: the HSS refused.
    """
    check(answer)
    data = answer.subscription_data
    if data is None or data.apn_configuration_profile is None:
        raise ProtocolError("The HSS answered ULR without subscription data.")
    apns = tuple(p.service_selection for p in data.apn_configuration_profile.apn_configuration)
    ambr = data.ambr
    if len(data.msisdn or b"") > MSISDN:
        # Magma's MME fails an assertion here and ends.
        raise ProtocolError(f"The HSS answered with an MSISDN of more than {MSISDN} octets.")
    return Subscription(
        digits_of(data.msisdn or b""),
        apns,
        ambr.max_requested_bandwidth_ul if ambr else 0,
        ambr.max_requested_bandwidth_dl if ambr else 0,
    )
