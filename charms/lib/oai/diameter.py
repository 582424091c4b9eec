"""freeDiameter's configuration, which HSS and MME share (freediameter.net, fd configuration)."""

from typing import Sequence, Tuple

PORT = 3868
"""Port of the HSS (RFC 6733 clause 11.4)."""
MME_PORT = 3870
RECONNECT_SECONDS = 10
"""Interval of attempts to reconnect a lost peer; freeDiameter's default is 30."""

# Dictionaries of the AVPs that S6a commands of the HSS and the MME use; all come with the images.
_DICTIONARIES = (
    *("dict_3gpp2_avps", "dict_draftload_avps", "dict_etsi283034_avps", "dict_rfc4004_avps"),
    *("dict_rfc4006bis_avps", "dict_rfc4072_avps", "dict_rfc4590_avps", "dict_rfc5447_avps"),
    *("dict_rfc5580_avps", "dict_rfc5777_avps", "dict_rfc5778_avps", "dict_rfc6734_avps"),
    *("dict_rfc6942_avps", "dict_rfc7155_avps", "dict_rfc7683_avps", "dict_rfc7944_avps"),
    *("dict_ts29061_avps", "dict_ts29128_avps", "dict_ts29154_avps", "dict_ts29173_avps"),
    *("dict_ts29212_avps", "dict_ts29214_avps", "dict_ts29215_avps", "dict_ts29217_avps"),
    *("dict_ts29229_avps", "dict_ts29272_avps", "dict_ts29273_avps", "dict_ts29329_avps"),
    *("dict_ts29336_avps", "dict_ts29337_avps", "dict_ts29338_avps", "dict_ts29343_avps"),
    *("dict_ts29344_avps", "dict_ts29345_avps", "dict_ts29368_avps", "dict_ts29468_avps"),
    *("dict_ts32299_avps", "dict_S6as6d", "dict_S6t", "dict_S6c"),
)


def configuration(
    identity: str,
    realm: str,
    address: str,
    ports: Tuple[int, int],
    tls: str,
    acl: str = "",
    peers: Sequence[Tuple[str, str]] = (),
) -> str:
    """Return the file.

    Args:
        identity: Own Diameter identity, a full name.
        realm: Own realm.
        address: Own address; the only one it listens on and advertises.
        ports: Ports without and with TLS.
        tls: Folder of the certificate in the container.
        acl: File that lists who may connect, "" if nobody may.
        peers: Identity and address of each peer to connect to, without TLS.
    """
    name = identity.split(".")[0]
    lines = [
        'Identity = "{}";'.format(identity),
        'Realm = "{}";'.format(realm),
        'TLS_Cred = "{0}/{1}.cert.pem", "{0}/{1}.key.pem";'.format(tls, name),
        'TLS_CA = "{}/{}.cert.pem";'.format(tls, name),
        "No_SCTP;",
        "Prefer_TCP;",
        "No_IPv6;",
        "NoRelay;",
        "AppServThreads = 4;",
        "TcTimer = {};".format(RECONNECT_SECONDS),
        'ListenOn = "{}";'.format(address),
        "Port = {};".format(ports[0]),
        "SecPort = {};".format(ports[1]),
    ]
    if acl:
        lines.append('LoadExtension = "acl_wl.fdx" : "{}";'.format(acl))
    lines += [
        'LoadExtension = "/usr/local/lib/freeDiameter/{}.fdx";'.format(name)
        for name in _DICTIONARIES
    ]
    for peer, host in peers:
        lines.append(
            'ConnectPeer = "{}" {{ ConnectTo = "{}"; No_SCTP; No_IPv6; Prefer_TCP; No_TLS; '
            'port = {}; realm = "{}"; }};'.format(peer, host, PORT, realm)
        )
    return "\n".join(lines) + "\n"
