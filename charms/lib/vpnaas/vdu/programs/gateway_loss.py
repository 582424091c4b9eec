#!/usr/bin/python3
"""Tell keepalived whether the paths of a gateway to its peers lose too many packets.

keepalived runs it again and again. It pings the outer addresses of peers with a tunnel for ten
seconds. The loss of the gateway is the lower median of the peers' losses, so a peer with a bad path
of its own changes nothing. Peers that answer no ping at all do not count.

The gateway is degraded when the loss reaches PERCENT. It is good again when the loss was at most
half of that for a hold time. The hold time doubles each time the gateway degrades again soon, so
that the service does not move to and fro.

Usage: gateway-loss PERCENT FILE [VICI-URI]
FILE keeps "LOSS DEGRADED CHANGED LAST HOLD": per cent (-1 for none known), 0 or 1, seconds since
boot of the last change and of the last bad look, and the hold time in seconds.
Exits with 1 while the gateway is degraded.
"""

import os
import re
import subprocess
import sys
import time
from typing import List, NamedTuple, Optional, Sequence, Tuple

MOST = 32
"""Most peers that are pinged; of more, every n-th."""
PINGS = 50
PAUSE = "0.2"
HOLD, LONGEST = 60, 3600
RELAPSE = 10
"""A gateway that degrades again within so many hold times doubles its hold time."""


class State(NamedTuple):
    """The last result; see FILE above."""

    loss: int = -1
    degraded: bool = False
    changed: int = 0
    last: int = 0
    hold: int = HOLD


def decide(before: State, losses: Sequence[int], percent: int, now: int) -> State:
    """Return the new state for the losses of the peers, each in per cent."""
    answered = sorted(loss for loss in losses if loss < 100)
    if not answered:
        return before._replace(loss=-1)
    loss = answered[(len(answered) - 1) // 2]
    state = before._replace(loss=loss)
    if loss >= percent:
        if not before.degraded:
            lasted = before.changed == 0 or now - before.changed > RELAPSE * before.hold
            hold = HOLD if lasted else min(2 * before.hold, LONGEST)
            state = state._replace(degraded=True, changed=now, hold=hold)
        return state._replace(last=now)
    if before.degraded and 2 * loss > percent:
        return state._replace(last=now)
    if before.degraded and now - before.last >= before.hold:
        return state._replace(degraded=False, changed=now)
    return state


def read(path: str) -> State:
    """Return the stored state, a fresh one if it cannot be read."""
    try:
        with open(path) as stream:
            loss, degraded, changed, last, hold = (int(word) for word in stream.read().split())
        return State(loss, bool(degraded), changed, last, hold)
    except (OSError, ValueError):
        return State()


def write(path: str, state: State) -> None:
    """Store a state atomically."""
    with open(path + ".new", "w") as stream:
        stream.write(" ".join(str(int(value)) for value in state) + "\n")
    os.rename(path + ".new", path)


def paths(*uri: str) -> List[Tuple[str, str]]:
    """Return our outer address and the peer's, of at most MOST established IKE_SAs."""
    listed = subprocess.run(
        ("swanctl", "--list-sas", "--raw") + uri,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
    ).stdout.decode("utf-8", "replace")
    pairs = set()
    for line in listed.splitlines():
        head = line.partition("child-sas {")[0]
        ends = [re.search(side + r"-host=(\S+)", head) for side in ("local", "remote")]
        if "state=ESTABLISHED" in head and ends[0] and ends[1]:
            pairs.add((ends[0].group(1), ends[1].group(1)))
    every = max(1, -(-len(pairs) // MOST))
    return sorted(pairs)[::every]


def losses(pairs: Sequence[Tuple[str, str]]) -> List[int]:
    """Ping from our addresses to the peers', all at once; return the losses in per cent."""
    words = ("ping", "-n", "-q", "-c", str(PINGS), "-i", PAUSE, "-W", "1")
    running = [
        subprocess.Popen(
            words + ("-I", ours, theirs), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        for ours, theirs in pairs
    ]
    measured = [lost(each.communicate()[0].decode()) for each in running]
    return [loss for loss in measured if loss is not None]


def lost(text: str) -> Optional[int]:
    """Return the loss in per cent from the output of ping(8), None if it has none."""
    counts = re.search(r"(\d+) packets transmitted, (\d+) received", text)
    sent, received = (int(counts.group(1)), int(counts.group(2))) if counts else (0, 0)
    return 100 * (sent - min(sent, received)) // sent if sent else None


def main(percent: str, path: str, *vici: str) -> int:
    """Look once; return the exit code."""
    uri = ("--uri",) + vici if vici else ()
    state = decide(read(path), losses(paths(*uri)), int(percent), int(time.monotonic()))
    write(path, state)
    return int(state.degraded)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
