"""Subscribers of the HSS, and where it keeps them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


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
        mme: DiameterIdentity of the MME that serves the subscriber now, or empty.
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


class Store(Protocol):
    """Where subscribers are kept. Every method may raise EpcError when the store is away."""

    async def get(self, imsi: str) -> Subscriber | None:
        """The subscriber, or None."""

    async def set_sqn(self, imsi: str, sqn: int) -> None:
        """Note the sequence number used last."""

    async def set_mme(self, imsi: str, mme: str) -> None:
        """Note which MME serves the subscriber."""
