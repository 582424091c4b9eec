"""Settings of the IKE daemon and systemd units."""

from vpnaas.tunnels.ipsec.configuration import Configuration
from vpnaas.tunnels.ipsec.names import ASKER_PROGRAM_FILE, PROGRAM, PROGRAM_FILE, TUN, USERSPACE
from vpnaas.vdu.installed import filled

ADDRESS = ("127.0.0.1", 9816)
"""Of the program that asks for charon; it has the same constant."""
MARK = "0x6f73"
"""Mark of the packets of IKE and ESP, where they must not take charon's own routes."""
MARKED = """    kernel-netlink {{
      fwmark = !{0}
    }}
    socket-default {{
      fwmark = {0}
    }}
""".format(MARK)
NOT_NEEDED = (
    "attr", "bypass-lan", "connmark", "dhcp", "farp", "forecast", "ha", "led", "resolve", "unity",
    "xauth-eap", "xauth-pam",
)  # fmt: skip
"""Plugins of libcharon-extra-plugins that change the network of a VDU, or serve IKEv1 only."""

# The interface starts before the daemon, which needs addresses inside its selectors.
UNIT = filled("interface.service", __package__)
"""Makes the interface from the first line of `up_file`, unless it exists, and then uses the others.

No stop deletes an XFRM interface. Linux 6.1.192, the kernel of Debian 12, releases a reference of
it for each packet that it decrypts asynchronously (`xfrm_input`, after the change for
CVE-2026-31663), so the deletion would wait for ever. The interface stays, down and without
addresses, for the next start or until the next boot.
"""
KEEPER_UNIT = filled("keeper.service", __package__, program=PROGRAM_FILE)
ASKER_UNIT = filled("revocation.service", __package__, program=ASKER_PROGRAM_FILE)


def daemon_conf(plane: str, same_address: bool = False, given: bool = False) -> str:
    userspace = plane == USERSPACE
    # With `same_address`, kernel-libipsec routes the peer's address into its TUN, except for the
    # packets of IKE and ESP. These have a mark.
    marked = userspace and same_address
    libipsec, more = ("      allow_peer_ts = yes\n", MARKED) if marked else ("", "")
    # The interface of the link already has the given addresses.
    given_line = "  install_virtual_ip = no\n" if given else ""
    off = ["    {} {{\n      load = no\n    }}\n".format(name) for name in NOT_NEEDED]
    return filled(
        "daemon.conf",
        __package__,
        given=given_line,
        userspace="100" if userspace else "no",
        libipsec=libipsec,
        more="".join(off) + more,
    )


def dropin(configuration: Configuration, plane: str) -> str:
    """Return the drop-in file of the daemon's unit.

    swanctl fails if one connection of somebody else cannot be loaded, and loads none if it cannot
    read one file. The daemon starts nevertheless, and ours are loaded by our program.
    charon asks for revocations by the proxy, which answers in time. libipsec takes packets of up to
    1400 bytes from its TUN, which all links of a VDU share.
    """
    text = "[Service]\nEnvironment=http_proxy=http://{}:{}\n".format(*ADDRESS)
    text += "ExecStartPost=\nExecStartPost=-/usr/sbin/swanctl --load-all --noprompt\n"
    text += "ExecStartPost=-{} load\n".format(" ".join(PROGRAM))
    if plane == USERSPACE:
        text += "ExecStartPost=-/bin/ip link set {} mtu {}\n".format(TUN, configuration.tun_mtu)
    return text
