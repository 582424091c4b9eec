"""The USIM: answers challenges with the subscriber's key (3GPP TS 33.102 section 6.3)."""

import hmac
from dataclasses import dataclass

from simulators.shared import keys, milenage


class MacFailureError(Exception):
    """The network that sent the challenge does not have the subscriber's key."""


class SynchFailureError(Exception):
    """The challenge's sequence number was used before; ``auts`` has our number for the network."""

    def __init__(self, auts: bytes) -> None:
        super().__init__("the sequence number is out of range")
        self.auts = auts


@dataclass
class Usim:
    """A USIM."""

    imsi: str  # identity.
    # `k`, `opc`: keys.
    k: bytes
    opc: bytes
    sqn: int = 0  # highest sequence number accepted so far.

    def check(self, rand: bytes, autn: bytes) -> milenage.Response:
        """Check a network's challenge; return Milenage's results for it.

        Raises:
            MacFailureError: the challenge is not from our key.
            SynchFailureError: its sequence number is not above ours.
        """
        answer = milenage.f2345(self.k, self.opc, rand)
        sqn = bytes(a ^ b for a, b in zip(autn[:6], answer.ak, strict=True))
        mac, _ = milenage.f1(self.k, self.opc, rand, sqn, autn[6:8])
        if not hmac.compare_digest(mac, autn[8:]):
            raise MacFailureError("the MAC of the challenge is wrong")
        if int.from_bytes(sqn, "big") <= self.sqn:
            own = self.sqn.to_bytes(6, "big")
            hidden = bytes(a ^ b for a, b in zip(own, answer.ak_resync, strict=True))
            _, mac = milenage.f1(self.k, self.opc, rand, own, bytes(2))
            raise SynchFailureError(hidden + mac)
        self.sqn = int.from_bytes(sqn, "big")
        return answer

    def answer(self, rand: bytes, autn: bytes, plmn: bytes) -> tuple[bytes, bytes]:
        """Return RES and KASME for a challenge of a serving network; same errors as `check`."""
        answer = self.check(rand, autn)
        return answer.res, keys.kasme(answer.ck, answer.ik, plmn, autn[:6])
