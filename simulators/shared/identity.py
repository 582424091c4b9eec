"""PLMN, TAI and other identities and their octets (3GPP TS 23.003, TS 24.301, TS 29.272)."""

import re
from dataclasses import dataclass

from simulators.errors import EpcError, ProtocolError


@dataclass(frozen=True, order=True)
class Plmn:
    """A public land mobile network: MCC of 3 digits, MNC of 2 or 3."""

    mcc: str
    mnc: str

    def __post_init__(self) -> None:
        if not re.fullmatch(r"\d{3}", self.mcc) or not re.fullmatch(r"\d{2,3}", self.mnc):
            raise EpcError(f"PLMN {self.mcc}/{self.mnc}: an MCC has 3 digits, an MNC 2 or 3.")

    def __str__(self) -> str:
        """MCC and MNC with a slash."""
        return f"{self.mcc}/{self.mnc}"

    @property
    def octets(self) -> bytes:
        """The 3 octets of TS 24.301 figure 9.9.3.12.1, the same in S1AP and S6a."""
        third = self.mnc[2] if len(self.mnc) == 3 else "f"
        nibbles = self.mcc[1] + self.mcc[0] + third + self.mcc[2] + self.mnc[1] + self.mnc[0]
        return bytes.fromhex(nibbles)

    @classmethod
    def decode(cls, octets: bytes) -> "Plmn":
        """Read 3 octets."""
        n = octets.hex()
        try:
            return cls(n[1] + n[0] + n[3], n[5] + n[4] + (n[2] if n[2] != "f" else ""))
        except (EpcError, IndexError):
            raise ProtocolError(f"{octets.hex()} is not a PLMN.") from None


@dataclass(frozen=True, order=True)
class Tai:
    """A tracking area identity."""

    plmn: Plmn
    tac: int


@dataclass(frozen=True)
class Gummei:
    """A globally unique MME identity."""

    plmn: Plmn
    group: int
    code: int


def imsi_belongs_to(imsi: str, plmn: Plmn) -> bool:
    """True when the IMSI's home network is this PLMN."""
    return imsi.startswith(plmn.mcc + plmn.mnc)


def check_imsi(text: str) -> str:
    """Return the text if it is an IMSI of 6 to 15 digits."""
    if not re.fullmatch(r"\d{6,15}", text):
        raise ProtocolError(f"'{text[:20]}' is not an IMSI: 6 to 15 digits are.")
    return text


def tbcd(digits: str) -> bytes:
    """Return digits as TBCD (TS 29.002); an odd number of digits is filled up with F."""
    padded = digits + "f" * (len(digits) % 2)
    return bytes.fromhex("".join(padded[i + 1] + padded[i] for i in range(0, len(padded), 2)))


def digits_of(octets: bytes) -> str:
    return "".join(pair[::-1] for pair in map("{:02x}".format, octets)).rstrip("f")
