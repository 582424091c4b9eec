"""Subscribers of the HSS."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Subscriber:
    """One subscriber."""

    imsi: str  # identity, digits.
    k: bytes  # permanent key.
    opc: bytes  # the operator's variant key, derived for this subscriber.
    sqn: int = 0  # last sequence number used.
    msisdn: bytes = b""  # telephone number, octets as S6a carries them.
    apns: tuple[str, ...] = ("internet",)  # access points; the first is the default one.
    # `ambr_up`, `ambr_down`: aggregate maximum bit rates, bit/s.
    ambr_up: int = 50_000_000
    ambr_down: int = 100_000_000
    mme: str = ""  # DiameterIdentity of the MME that serves the subscriber now, "" for none.
