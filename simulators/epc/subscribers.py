"""Subscribers of the HSS."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Subscriber:
    """One subscriber.

    Attributes:
        imsi: identity, digits.
        k: permanent key.
        opc: the operator's variant key, derived for this subscriber.
        sqn: last sequence number used.
        msisdn: telephone number, octets as S6a carries them.
        apns: access points; the first is the default one.
        ambr_up, ambr_down: aggregate maximum bit rates, bit/s.
        mme: DiameterIdentity of the MME that serves the subscriber now, "" for none.
    """

    imsi: str
    k: bytes
    opc: bytes
    sqn: int = 0
    msisdn: bytes = b""
    apns: tuple[str, ...] = ("internet",)
    ambr_up: int = 50_000_000
    ambr_down: int = 100_000_000
    mme: str = ""
