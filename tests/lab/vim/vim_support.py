"""What the tests of the VIM share."""

from collections.abc import Callable

from lab.vim.model import BUILD, Network, Port, Server, ServerSpec

#: The fixture ``boot``: specs and a tag to booted servers.
Boot = Callable[..., list[Server]]

#: Sends ICMP echo requests (RFC 792) until one is answered; exit code 1 when none is. The
#: arguments are the target, the number of requests and, if not "-", the source address.
PING = """
import os, socket, struct, sys
target, count, source = sys.argv[1], int(sys.argv[2]), sys.argv[3]
sock = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
sock.settimeout(0.5)
if source != "-":
    sock.bind((source, 0))
answered = 0
for number in range(count):
    rest = struct.pack("!HH", os.getpid() & 0xFFFF, number) + b"12345678"
    words = struct.unpack(f"!{len(rest) // 2}H", rest)
    total = 0x0800 + sum(words)
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    try:
        sock.sendto(struct.pack("!BBH", 8, 0, total ^ 0xFFFF) + rest, (target, 0))
        while True:
            packet, sender = sock.recvfrom(2048)
            if packet[20] == 0 and sender[0] == target and packet[24:] == rest:
                answered += 1
                break
    except OSError:
        pass
print(answered)
sys.exit(0 if answered else 1)
"""


def ping_command(target: str, count: int = 2, source: str = "-") -> list[str]:
    """A ping that needs no ping program, which a minimal machine may lack."""
    return ["/usr/bin/python3", "-c", PING, target, str(count), source]


NETWORKS = {
    "m": Network("m", "mgmt", "", "10.250.1.0/24", "10.250.1.1", 1500, True, "nm"),
    "d": Network(
        *("d", "data", "", "10.77.0.0/24", "10.77.0.254", 1400, False, "nd"),
        host_routes=("10.99.0.0/16",),
    ),
    "s": Network("s", "six", "", "2001:db8:7::/64", None, 1500, False, "ns"),
}


SPEC = ServerSpec("vnf", "vnf", "ubuntu22.04", 1, 512, 2, (), "#cloud-config\n{}\n", ("ssh-x y",))


def port(network: str, ip: str) -> Port:
    return Port(f"id-{network}", network, "ens3", f"p{network}", ip, "02:00:00:00:00:01", True)


PORTS = (port("m", "10.250.1.2"), port("d", "10.77.0.2"), port("s", "2001:db8:7::2"))


SERVER = Server("uuid", "vnf", "vnf", "tag", "ubuntu22.04", BUILD, PORTS)
