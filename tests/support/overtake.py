"""A router on the way of one tunnel, in which small packets overtake large ones.

Usage: overtake IN OUT RATE QUEUE
It carries frames between two devices. From IN to OUT it lets RATE frames a second pass, small ones
first; at most QUEUE large ones wait, what is more is dropped. It ends with its standard input and
prints how many large frames it dropped.
"""

import collections
import select
import socket
import sys
import time

SMALL = 300
ETH_P_ALL = 3


def frames_of(device: str) -> socket.socket:
    frames = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    frames.bind((device, 0))
    frames.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)
    return frames


def main(inside: str, outside: str, rate: str, queue: str) -> None:
    """Carry frames until standard input ends."""
    near, far = frames_of(inside), frames_of(outside)
    first: collections.deque[bytes] = collections.deque()
    later: collections.deque[bytes] = collections.deque()
    dropped, step = 0, 1 / float(rate)
    due = time.monotonic()
    while True:
        waiting = max(0.0, due - time.monotonic()) if first or later else 0.2
        ready = select.select([near, far, sys.stdin], [], [], waiting)[0]
        if sys.stdin in ready:
            break
        for each in (each for each in ready if isinstance(each, socket.socket)):
            frame, address = each.recvfrom(65536)
            if address[2] == socket.PACKET_OUTGOING:
                continue
            if each is far:
                near.send(frame)
            elif len(frame) < SMALL:
                first.append(frame)
            elif len(later) < int(queue):
                later.append(frame)
            else:
                dropped += 1
        now = time.monotonic()
        # What the machine was late for is caught up in part only.
        due = max(due, now - 0.05)
        while due <= now and (first or later):
            far.send(first.popleft() if first else later.popleft())
            due += step
    print(dropped)


if __name__ == "__main__":
    main(*sys.argv[1:])
