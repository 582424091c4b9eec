"""freeDiameter's configuration, which HSS and MME share (freediameter.net, fd configuration)."""

from typing import Sequence, Tuple

from vpnaas.vdu.installed import filled

PORT = 3868
"""Port of the HSS (RFC 6733 clause 11.4)."""
MME_PORT = 3870
RECONNECT_SECONDS = 10
"""Interval of attempts to reconnect a lost peer; freeDiameter's default is 30."""


def configuration(
    identity: str,
    realm: str,
    address: str,
    ports: Tuple[int, int],
    tls: str,
    acl: str = "",
    peers: Sequence[Tuple[str, str]] = (),
) -> str:
    """Return the file of a function with a full Diameter identity.

    `ports` are those without and with TLS, `tls` is the folder of the certificate in the
    container, `acl` a file that lists who may connect ("" for nobody). `peers` are identity and
    address of each peer to connect to, without TLS.
    """
    peer_line = (
        'ConnectPeer = "{}" {{ ConnectTo = "{}"; No_SCTP; No_IPv6; Prefer_TCP; No_TLS; '
        'port = {}; realm = "{}"; }};\n'
    )
    return filled(
        "templates/freediameter.conf",
        "oai",
        identity=identity,
        realm=realm,
        tls=tls,
        name=identity.split(".")[0],
        reconnect=RECONNECT_SECONDS,
        address=address,
        port=ports[0],
        tls_port=ports[1],
        acl='LoadExtension = "acl_wl.fdx" : "{}";\n'.format(acl) if acl else "",
        peers="".join(peer_line.format(peer, host, PORT, realm) for peer, host in peers),
    )
