"""The S6a meter on a real interface: known delays, and no processor for it meanwhile."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from support.functions import SUCCESS, message
from vpnaas.vdu.programs import source

pytestmark = pytest.mark.lab

#: Seconds the HSS takes, request by request.
DELAYS = (0.02, 0.05, 0.1)
NAMESPACE = f"s6ameter{os.getpid()}"
INSIDE = ("ip", "netns", "exec", NAMESPACE)

HSS = """
import json, socket, sys, time
answers = [bytes.fromhex(text) for text in sys.argv[2].split(",")]
with socket.create_server(("127.0.0.1", 3868)) as listener:
    print("listening", flush=True)
    connection, _ = listener.accept()
    with connection:
        for delay, answer in zip(json.loads(sys.argv[1]), answers):
            connection.recv(65535)
            time.sleep(delay)
            connection.sendall(answer)
        connection.recv(1)
"""
MME = """
import socket, sys
with socket.create_connection(("127.0.0.1", 3868)) as connection:
    for text in sys.argv[1].split(","):
        connection.sendall(bytes.fromhex(text))
        connection.recv(65535)
"""


@pytest.fixture
def netns() -> Iterator[None]:
    subprocess.run(["ip", "netns", "add", NAMESPACE], check=True)
    try:
        subprocess.run([*INSIDE, "ip", "link", "set", "lo", "up"], check=True)
        yield
    finally:
        subprocess.run(["ip", "netns", "delete", NAMESPACE], check=True)


def program(text: str, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*INSIDE, sys.executable, "-I", "-c", text, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.usefixtures("netns")
def test_times_are_those_of_the_packets_not_of_the_reading() -> None:
    """The meter sleeps while all requests and answers pass, and reads them in one go."""
    requests = ",".join(message(318, hop, True).hex() for hop in range(len(DELAYS)))
    answers = ",".join(message(318, h, False, SUCCESS).hex() for h in range(len(DELAYS)))
    with (
        program(HSS, json.dumps(DELAYS), answers) as hss,
        program(source("signalling_meter.py", "experiments.vdu")) as meter,
    ):
        assert meter.stdin and meter.stdout and meter.stderr and hss.stdout
        try:
            request = {
                "link": "s6a",
                "interface": "lo",
                "seconds": 60,
                "count": len(DELAYS),
                "idle": 0,
            }
            meter.stdin.write(json.dumps(request))
            meter.stdin.close()
            assert meter.stderr.readline() == "listening\n"
            assert hss.stdout.readline() == "listening\n"
            meter.send_signal(signal.SIGSTOP)
            done = program(MME, requests)
            assert done.wait(60) == 0
            meter.send_signal(signal.SIGCONT)
            result = json.loads(meter.stdout.read())
        finally:
            meter.kill()
            hss.kill()
    air = result["AIR"]
    assert (air["count"], air["unanswered"], air["results"]) == (len(DELAYS), 0, {"2001": 3})
    assert result["packets-lost-by-the-meter"] == 0
    # An answer takes what the HSS waits and a little; never less.
    assert air["min-ms"] >= DELAYS[0] * 1000
    assert air["median-ms"] >= DELAYS[1] * 1000
    assert air["max-ms"] >= DELAYS[2] * 1000
