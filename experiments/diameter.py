"""One Diameter request with an IMSI, to see whether a wire shows it (RFC 6733, TS 29.272).

An Update-Location-Request as an MME sends it over S6a, with only the AVPs that a dissector needs
to find the subscriber.
"""

import struct

PORT = 3868
S6A = 16777251  # Diameter application of S6a (TS 29.272 clause 7.1.8).
TEST_IMSI = "001010000000001"  # An IMSI of the test network 001-01 (ITU-T E.212).
_UPDATE_LOCATION = 316
_REQUEST = 0x80 | 0x40  # request, proxiable
_MANDATORY = 0x40


def _avp(code: int, data: bytes, vendor: int = 0) -> bytes:
    """Return an AVP (RFC 6733 section 4.1), padded to four bytes."""
    flags = _MANDATORY | (0x80 if vendor else 0)
    length = (12 if vendor else 8) + len(data)
    head = struct.pack("!II", code, flags << 24 | length)
    if vendor:
        head += struct.pack("!I", vendor)
    return head + data + b"\0" * (-length % 4)


def update_location(imsi: str) -> bytes:
    body = (
        _avp(263, b"mme.test;1;1")  # Session-Id
        + _avp(264, b"mme.test")  # Origin-Host
        + _avp(296, b"test")  # Origin-Realm
        + _avp(283, b"test")  # Destination-Realm
        + _avp(1, imsi.encode("ascii"))  # User-Name holds the IMSI
        + _avp(1407, bytes.fromhex("00f110"), vendor=10415)  # Visited-PLMN-Id 001-01
    )
    length = 20 + len(body)
    head = struct.pack("!II", 1 << 24 | length, _REQUEST << 24 | _UPDATE_LOCATION)
    return head + struct.pack("!III", S6A, 1, 1) + body
