#!/usr/bin/python3
"""A container engine without containers, for tests of charms: what it runs says little and stays.

Only the documented command lines are understood. A network function here listens where its files
say and writes the lines that readiness is known by; it speaks no protocol. Tests of protocols use
the lab's simulators. State, and faults to play, lie in /var/lib/engine.
"""

import json
import os
import re
import signal
import socket
import sys
import time

STATE = "/var/lib/engine"


def fault(name):
    return os.path.exists(f"{STATE}/{name}")


def options(words):
    """Split `run` into single options, mounts by target, image and the words after it."""
    single, mounts, rest = {}, {}, list(words)
    takes = ("--name", "--network", "--env-file", "--volume", "--workdir", "--entrypoint",
             "--log-driver")  # fmt: skip
    while rest[0].startswith("--"):
        word = rest.pop(0)
        if word in takes:
            value = rest.pop(0)
            if word == "--volume":
                source, target = value.split(":")[:2]
                mounts[target] = source
            else:
                single[word] = value
        else:
            assert word in ("--rm", "--privileged"), word
    return single, mounts, rest[0], rest[1:]


def text(mounts, target):
    if target in mounts:
        path = mounts[target]
    else:
        folder, _, name = target.rpartition("/")
        path = mounts[folder] + "/" + name
    with open(path, encoding="utf-8") as stream:
        return stream.read()


def value(configuration, name):
    return re.search(name + r'"?\s*[=:]\s*"([^"]*)"', configuration)[1].split("/")[0]


def listen(kind, address, port):
    stream = kind == "tcp"
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM if stream else socket.SOCK_DGRAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind((address, port))
    if stream:
        made.listen(8)
    return made


def hss(mounts):
    fd = text(mounts, "/openair-hss/etc/hss_rel14_fd.conf")
    yield listen("tcp", value(fd, "ListenOn"), 3868)


def mme(mounts):
    conf = text(mounts, "/magma-mme/etc/mme.conf")
    fd = text(mounts, "/magma-mme/etc/mme_fd.conf")
    yield socket.create_connection((value(fd, "ConnectTo"), 3868), 5, (value(fd, "ListenOn"), 0))
    yield listen("udp", value(conf, "MME_IPV4_ADDRESS_FOR_S11_MME"), 2123)
    print("000310 DEBUG MME-AP MME app initialization complete", flush=True)


def spgwc(mounts):
    conf = json.loads(text(mounts, "/openair-spgwc/etc/spgw_c.json"))
    yield listen("udp", conf["s11"]["ipv4_address"], 2123)
    yield listen("udp", conf["sx"]["ipv4_address"], 8805)


def cqlsh():
    """Rows of one table are all there is."""
    if not fault("running/cassandra"):
        sys.exit("Connection error: Unable to connect to any servers")
    file = STATE + "/rows.json"
    rows = {}
    if os.path.exists(file):
        with open(file, encoding="utf-8") as stream:
            rows = json.load(stream)
    for line in sys.stdin.read().splitlines():
        if line.startswith("INSERT INTO vhss.users_imsi"):
            form = r".*? \(([^)]*)\) VALUES \((.*)\)( IF NOT EXISTS)?;"
            names, values, once = re.fullmatch(form, line).groups()
            cells = re.findall(r"'((?:[^']|'')*)'|([0-9]+)", values)
            row = dict(zip(names.split(", "), [a or b for a, b in cells], strict=True))
            if once:
                print(f"\n [applied]\n-----------\n {row['imsi'] not in rows}\n")
                rows.setdefault(row["imsi"], row)
            else:
                rows.setdefault(row["imsi"], {}).update(row)
        elif line.startswith("SELECT imsi FROM vhss.msisdn_imsi"):
            msisdn = re.search(r"msisdn = (\d+)", line)[1]
            print("\n imsi\n------")
            for row in rows.values():
                if row["msisdn"] == msisdn:
                    print(f" {row['imsi']}")
            print("\n(rows)")
        elif line.startswith("DELETE FROM vhss.users_imsi"):
            rows.pop(re.search(r"'(\d+)'", line)[1], None)
        elif line.startswith("SELECT imsi"):
            imsi = re.search(r"imsi = '(\d+)'", line)
            found = [r for i, r in sorted(rows.items()) if not imsi or i == imsi[1]]
            limit = re.search(r"LIMIT (\d+)", line)
            found = found[: int(limit[1])] if limit else found
            print("\n imsi | msisdn | mmehost\n------+--------+---------")
            for row in found:
                print(f" {row['imsi']} | {row['msisdn']} | {row['mmehost']}")
            print(f"\n({len(found)} rows)")
    with open(file, "w", encoding="utf-8") as stream:
        json.dump(rows, stream)


def run(words):
    single, mounts, image, _ = options(words)
    name = single["--name"].replace("osm-vpnaas-", "")
    while fault("pulling"):
        time.sleep(0.1)
    assert single["--network"] == "host"
    open(single["--env-file"], encoding="utf-8").close()
    mark = f"{STATE}/running/{name}"
    os.makedirs(os.path.dirname(mark), exist_ok=True)
    open(mark, "w", encoding="utf-8").close()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    kept = []
    try:
        if name in ("hss", "mme", "spgwc"):
            kept = list(globals()[name](mounts))
        print(name, "runs", image, len(kept), flush=True)
        while True:
            signal.pause()
    finally:
        os.unlink(mark)


def main(words):
    verb = words.pop(0)
    os.makedirs(STATE, exist_ok=True)
    if verb == "run":
        run(words)
    elif verb == "exec":
        assert words[:3] == ["--interactive", "osm-vpnaas-cassandra", "cqlsh"], words
        cqlsh()
    elif verb == "image":
        sys.exit(1 if fault("pulling") else 0)
    else:
        assert verb in ("rm", "stop"), verb


main(sys.argv[1:])
