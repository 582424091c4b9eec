"""5G NAS (3GPP TS 24.501): messages by pycrate's codecs, and their protection."""

import ipaddress
import logging
import re
from dataclasses import dataclass
from typing import Any

from simulators.core5g import keys
from simulators.errors import ProtocolError
from simulators.shared.identity import Plmn
from simulators.shared.nas_security import Context
from simulators.transport import asn1

logging.getLogger("pycrate_mobile").setLevel(logging.ERROR)  # no warning: CryptoMobile is unused

from pycrate_core.utils import PycrateErr  # noqa: E402
from pycrate_mobile import TS24501_IE  # noqa: E402
from pycrate_mobile.NAS5G import parse_NAS5G  # noqa: E402
from pycrate_mobile.TS24501_FGMM import FGMMTypeClasses  # noqa: E402
from pycrate_mobile.TS24501_FGSM import FGSMTypeClasses  # noqa: E402

_CLASSES = {
    one._name.removeprefix("5GMM").removeprefix("5GSM"): one
    for one in (*FGMMTypeClasses.values(), *FGSMTypeClasses.values())
}
_MM, _SM = 0x7E, 0x2E  # extended protocol discriminators

# 5GMM causes, TS 24.501 section 9.11.3.2.
ILLEGAL_UE, PLMN_NOT_ALLOWED, AREA_NOT_ALLOWED, NETWORK_FAILURE = 3, 11, 12, 15
MAC_FAILURE, SYNCH_FAILURE, SECURITY_MISMATCH, CONGESTION = 20, 21, 23, 22
NO_SLICES, NOT_FORWARDED, DNN_NOT_SUBSCRIBED = 62, 90, 91
MM_CAUSES: dict[int, str] = TS24501_IE._FGMMCause_dict
# 5GSM causes, section 9.11.4.2.
NO_RESOURCES, UNKNOWN_DNN, REGULAR, NETWORK_DOWN, UNKNOWN_DNN_IN_SLICE = 26, 27, 36, 38, 70
SM_CAUSES: dict[int, str] = TS24501_IE._FGSMCause_dict
NOT_IN_PLMN, NOT_IN_AREA = 0, 1  # Causes in a rejected S-NSSAI, section 9.11.3.46.

#: Security capability of our UEs: NEA0, NEA2, NIA2.
CAPABILITY = {"5G-EA0": 1, "5G-EA2_128": 1, "5G-IA2_128": 1}
NEA0, NEA2, NIA2 = 0, 2, 2
N1_SM = 1  # Payload container type of 5GSM messages.


@dataclass(frozen=True)
class Message(asn1.Message):
    """A message: its name and its elements by name, all as in pycrate."""

    session: int = 0
    transaction: int = 0


def encode(name: str, values: dict[str, Any] | None = None) -> bytes:
    return bytes(_CLASSES[name](val=values or {}).to_bytes())


def encode_sm(
    name: str, session: int, transaction: int, values: dict[str, Any] | None = None
) -> bytes:
    header = {
        "PDUSessID": session,
        "PTI": transaction,
        "Type": _CLASSES[name]()[0]["Type"].get_val(),
    }
    return bytes(_CLASSES[name](val={"5GSMHeader": header} | (values or {})).to_bytes())


def decode(octets: bytes) -> Message:
    """Decode a plain message."""
    try:
        parsed, error = parse_NAS5G(octets, inner=False, sec_hdr=False)
        if error:
            raise ProtocolError(f"not 5G NAS: cause {error}")
        header = parsed[0]
        values: dict[str, Any] = {}
        for one in list(parsed)[1:]:
            if one.get_trans():
                continue
            last = list(one)[-1] if hasattr(one, "__iter__") else one
            if getattr(one, "_IE_stat", None) is not None and last._name == "V":
                continue  # pycrate cannot read it: as if it were absent (TS 24.501 section 7.7.1)
            shown = last.get_val_d() if hasattr(last, "get_val_d") else last.get_val()
            values.setdefault(one._name, shown)
    except (PycrateErr, KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
        raise ProtocolError(f"not 5G NAS: {error}") from None
    name = parsed._name.removeprefix("5GMM").removeprefix("5GSM")
    if octets[0] == _SM:
        ids = header["PDUSessID"].get_val(), header["PTI"].get_val()
        return Message(name, values, *ids)
    return Message(name, values)


def is_protected(octets: bytes) -> bool:
    return len(octets) > 7 and octets[0] == _MM and octets[1] in (1, 2, 3, 4)


def inner(octets: bytes) -> bytes:
    """Return the message below a security header, unchecked; only for messages in clear."""
    return octets[7:] if is_protected(octets) else octets


# -- values ---------------------------------------------------------------------------------------


def _swapped(digits: str) -> bytes:
    padded = digits + "f" * (len(digits) % 2)
    return bytes.fromhex("".join(padded[i + 1] + padded[i] for i in range(0, len(padded), 2)))


def suci(imsi: str, plmn: Plmn) -> dict[str, Any]:
    """A SUCI of the null scheme."""
    msin = imsi[len(plmn.mcc + plmn.mnc) :]
    return {
        "Type": 1,
        "Fmt": 0,
        "Value": {
            "PLMN": plmn.octets,
            "RoutingInd": _swapped("0fff"),
            "ProtSchemeID": 0,
            "HNPKID": 0,
            "Output": _swapped(msin),
        },
    }


def imsi_of(identity: dict[str, Any]) -> str:
    """Return the IMSI in a SUCI of the null scheme."""
    value = identity.get("Value")
    if identity.get("Type") != 1 or not isinstance(value, dict):
        raise ProtocolError("The identity is not a SUCI with an IMSI.")
    if value["ProtSchemeID"] != 0:
        raise ProtocolError(f"The SUCI's scheme {value['ProtSchemeID']} is not the null scheme.")
    plmn = Plmn.decode(value["PLMN"])
    output: bytes = value["Output"]
    msin = "".join(f"{octet:02x}"[::-1] for octet in output).rstrip("f")
    if not msin.isdecimal():
        raise ProtocolError("The MSIN in the SUCI contains a character that is not a digit.")
    return plmn.mcc + plmn.mnc + msin


@dataclass(frozen=True)
class Guti:
    """A 5G globally unique temporary identity."""

    plmn: Plmn
    region: int
    set: int
    pointer: int
    tmsi: int

    def __str__(self) -> str:
        """Return the digits in the format of OAI's AMF."""
        amf = f"{self.region:03d}{self.set:03d}{self.pointer:02d}"
        return f"{self.plmn.mcc}{self.plmn.mnc}{amf}{self.tmsi:010d}"

    @property
    def nas(self) -> dict[str, Any]:
        """Return it in the form of pycrate's NAS."""
        return {
            "Type": 2,
            "PLMN": self.plmn.octets,
            "AMFRegionID": self.region,
            "AMFSetID": self.set,
            "AMFPtr": self.pointer,
            "5GTMSI": self.tmsi,
        }

    @classmethod
    def of_nas(cls, value: dict[str, Any]) -> "Guti":
        names = ("AMFRegionID", "AMFSetID", "AMFPtr", "5GTMSI")
        return cls(Plmn.decode(value["PLMN"]), *(value[name] for name in names))


def areas(plmn: Plmn, tac: int) -> list[dict[str, Any]]:
    return [{"Type": 0, "PTAI": {"PLMN": plmn.octets, "TACs": [tac]}}]


def whole(qfi: int) -> list[dict[str, Any]]:
    """Return QoS rules with only the default rule, which matches all packets."""
    everything = {"Dir": 3, "Id": 1, "PktFilter": [{"Type": 1}]}
    return [
        {
            "ID": 1,
            "OpCode": 1,
            "DQR": 1,
            "PktFilterList": [everything],
            "Precedence": 255,
            "Flow": {"Segregation": 0, "QFI": qfi},
        }
    ]


def flow(qfi: int, five_qi: int) -> list[dict[str, Any]]:
    """QoS flow descriptions with one flow of a 5QI."""
    return [{"QFI": qfi, "OpCode": 1, "Params": [{"Type": 1, "Content": five_qi}]}]


def rate(text: str) -> tuple[int, int]:
    """Unit and value of a bit rate such as ``100 Mbps`` (TS 29.571 clause 5.5.2).

    The units are 1, 4, 16, 64 and 256 kbit/s, then as many Mbit/s, and so on (TS 24.501 section
    9.11.4.14).
    """
    match = re.fullmatch(r"([\d.]+) ?([KMGT]?)bps", text.strip())  # OAI's tables have no space
    factor = {"": 0.001, "K": 1, "M": 1000, "G": 1e6, "T": 1e9}
    kilobits = max(1, int(float(match[1]) * factor[match[2]])) if match else 0
    if not kilobits:
        raise ProtocolError(f"'{text}' is not a bit rate.")
    code, unit = 1, 1
    while kilobits // unit > 0xFFFF:
        unit = 1000 ** (code // 5) * 4 ** (code % 5)
        code += 1
    return code, kilobits // unit


def ambr(down: str, up: str) -> dict[str, int]:
    (down_unit, down_value), (up_unit, up_value) = rate(down), rate(up)
    return {"DLUnit": down_unit, "DL": down_value, "ULUnit": up_unit, "UL": up_value}


def address(text: str) -> dict[str, Any]:
    return {"Type": 1, "Addr": ipaddress.IPv4Address(text).packed}


def address_of(value: dict[str, Any]) -> str:
    if value.get("Type") != 1:
        raise ProtocolError("The network gave no IPv4 address.")
    return str(ipaddress.IPv4Address(value["Addr"]))


def dnn(value: list[dict[str, Any]]) -> str:
    return ".".join(one["Value"].decode("ascii", "replace") for one in value)


# -- protection -----------------------------------------------------------------------------------


@dataclass
class Security(Context):
    """A NAS security context of 5G over one access, from KAMF; ``bearer`` is the access."""

    head = 2

    bearer: int = keys.ACCESS_3GPP

    def derive(self, kind: int, algorithm: int) -> bytes:
        return keys.nas_key(self.key, kind, algorithm)

    def header(self, kind: int) -> bytes:
        return bytes([_MM, kind])

    def header_type(self, octets: bytes) -> int:
        return octets[1] if is_protected(octets) else 0
