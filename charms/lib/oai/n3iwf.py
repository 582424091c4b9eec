"""Non-3GPP access: free5GC's N3IWF (TS 23.501 clause 6.2.9), for UEs in an untrusted Wi-Fi.

Its certificate is of an authority that the VDU makes. UEs of the same service learn that authority
by the relation, those outside get it from `show-config`.
"""

import ipaddress
import json
from typing import Any, Dict, List, Optional, Tuple

from vpnaas.base import x509
from vpnaas.base.errors import InputError
from vpnaas.base.fields import IPNetwork
from vpnaas.vdu.steps import Results, Step, directory, read, run

from .model import TLS, Check, Container, Ends, File, Software, conf, first_peer
from .params import N3iwf
from .sbi import LOGGED
from .values import Plmn

VERSION = "1.0.5"
"""Of the configuration file; the image ends with another one."""
HOME = "/free5gc"
LEVELS = {"error": "error", "warning": "warn", "info": "info", "debug": "debug"}
NAS_PORT = 20000
DEVICE = "nwu"
"""How the names of the interfaces for decrypted packets begin."""
DEVICE_ID = 7
TABLE = "osm_vpnaas_nf"
AUTHORITY = TLS + "/n3iwf-ca.cert.pem"
_AUTHORITY_KEY = TLS + "/n3iwf-ca.key.pem"
_DAYS, _AUTHORITY_DAYS = "825", "3650"

RULES = """table inet {table}
delete table inet {table}
table inet {table} {{
    chain input {{
        type filter hook input priority filter; policy accept;
        # The Wi-Fi may be anybody's: IKE, ESP, ICMP, and answers.
        iifname "{interface}" udp dport {{ 500, 4500 }} counter accept comment "nwu-ike"
        iifname "{interface}" meta l4proto 50 counter accept comment "nwu-esp"
        iifname "{interface}" meta l4proto 1 accept
        iifname "{interface}" udp sport 67 udp dport 68 accept
        iifname "{interface}" ct state established,related accept
        iifname "{interface}" counter drop comment "nwu-dropped"
        # What UEs send inside: NAS, and GRE that the N3IWF takes itself.
        iifname "{device}-*" tcp dport {nas} accept
        iifname "{device}-*" meta l4proto 47 accept
        iifname "{device}-*" counter drop comment "nwu-dropped"
    }}
    chain forward {{
        type filter hook forward priority filter; policy accept;
        iifname "{interface}" counter drop
        iifname "{device}-*" counter drop
        oifname "{interface}" counter drop
        oifname "{device}-*" counter drop
    }}
}}
"""


def fqdn(plmn: Plmn) -> str:
    """Return the name that UEs of a network look for (TS 23.003 clause 28.3.2.2.2)."""
    form = "n3iwf.5gc.mnc{}.mcc{}.pub.3gppnetwork.org"
    return form.format(plmn.mnc.zfill(3), plmn.mcc)


def inner(pool: IPNetwork) -> str:
    """Return our address in the prefix that UEs get inner addresses of."""
    return str(pool[1])


def certificate_steps(params: N3iwf) -> List[Step]:
    """Return the steps that make authority and certificate, once, and read the former.

    The key is RSA: the image signs with no other in IKE_AUTH. With 2048 bits the answer with the
    certificate fits in one packet of 1500 octets; many a Wi-Fi drops fragments.
    """
    name = fqdn(params.plmn)
    certificate, key = _files(name)
    begin = ["openssl", "req", "-config", "/dev/null", "-x509", "-nodes"]
    root = begin + [
        "-newkey",
        "rsa:3072",
        "-keyout",
        _AUTHORITY_KEY,
        "-out",
        AUTHORITY,
        "-days",
        _AUTHORITY_DAYS,
    ]
    root += ["-subj", "/CN=ca." + name, "-addext", "basicConstraints=critical,CA:TRUE,pathlen:0"]
    root += ["-addext", "keyUsage=critical,keyCertSign,cRLSign"]
    leaf = begin + [
        "-newkey",
        "rsa:2048",
        "-CA",
        AUTHORITY,
        "-CAkey",
        _AUTHORITY_KEY,
        "-keyout",
        key,
    ]
    leaf += ["-out", certificate, "-days", _DAYS, "-subj", "/CN=" + name]
    leaf += ["-addext", "basicConstraints=critical,CA:FALSE"]
    leaf += ["-addext", "keyUsage=critical,digitalSignature"]
    leaf += ["-addext", "subjectAltName=DNS:" + name]
    return [
        directory("nf/tls", TLS, 0o700),
        run("nf/authority/make", *root, unless=AUTHORITY, timeout=120),
        run("nf/certificate/make", *leaf, unless=certificate, timeout=120),
        read("nf/authority", AUTHORITY),
    ]


def _files(name: str) -> Tuple[str, str]:
    return "{}/{}.cert.pem".format(TLS, name), "{}/{}.key.pem".format(TLS, name)


def authority(results: Results) -> str:
    """Return the authority's certificate as relations tell it, "" where it cannot be read."""
    text: Optional[str] = results.text("nf/authority")
    try:
        return x509.certificate("VDU", text).text if text else ""
    except InputError:
        return ""


def configuration(params: N3iwf, ends: Ends, amf: str, nwu: str) -> str:
    """Return n3iwfcfg.yaml; JSON is YAML. `nwu` is our address towards the Wi-Fi."""
    plmn = {"mcc": params.plmn.mcc, "mnc": params.plmn.mnc}
    slices = [{"snssai": {"sst": s.sst, "sd": s.differentiator}} for s in params.snssais]
    area = {
        "tac": "{:06x}".format(params.tac),
        "broadcastPlmnList": [{"plmnID": plmn, "taiSliceSupportList": slices}],
    }
    content = {
        "info": {"version": VERSION},
        "configuration": {
            "n3iwfInformation": {
                "globalN3IWFID": {"plmnID": plmn, "n3iwfID": params.n3iwf_id},
                "name": "osm-vpnaas",
                "supportedTAList": [area],
            },
            "localSctpAddr": ends["n2"].ip,
            "amfSCTPAddresses": [{"ip": [amf], "port": 38412}],
            "nasTcpPort": NAS_PORT,
            "ikeBindAddress": nwu,
            "ipSecTunnelAddress": inner(params.inner_pool_network),
            "ueIpAddressRange": params.inner_pool,
            "xfrmInterfaceName": DEVICE,
            "xfrmInterfaceID": DEVICE_ID,
            "n3iwfGtpBindAddress": ends["n3"].ip,
            "fqdn": fqdn(params.plmn),
            "privateKey": "cert/n3iwf.key",
            "certificateAuthority": "cert/ca.pem",
            "certificate": "cert/n3iwf.pem",
            "livenessCheck": {
                "enable": params.liveness_seconds > 0,
                "transFreq": "{}s".format(params.liveness_seconds or 60),
                "maxRetryTimes": 4,
            },
        },
        # The line by which readiness is known is INFO.
        "logger": {"enable": True, "level": LOGGED[params.log_level], "reportCaller": False},
    }
    return json.dumps(content, indent=1) + "\n"


def software(params: N3iwf, ends: Ends, nwu: str) -> Software:
    """Render everything; the address of the AMF is that of the related one."""
    amf = first_peer(ends, "n2")
    assert amf is not None  # noqa: S101 - the plan looks before
    certificate, key = _files(fqdn(params.plmn))
    return Software(
        containers=(
            Container(
                "n3iwf",
                words=("-c", "./config/n3iwfcfg.yaml"),
                volumes=(
                    (conf("n3iwfcfg.yaml"), HOME + "/config/n3iwfcfg.yaml"),
                    (key, HOME + "/cert/n3iwf.key"),
                    (certificate, HOME + "/cert/n3iwf.pem"),
                    (AUTHORITY, HOME + "/cert/ca.pem"),
                ),
                entrypoint="./n3iwf",
                workdir=HOME,
            ),
        ),
        files=(File(conf("n3iwfcfg.yaml"), configuration(params, ends, amf, nwu)),),
        checks=(
            Check(
                "log",
                "the AMF at {} has not accepted the N3IWF yet".format(amf),
                unit="n3iwf",
                pattern="Handle NG Setup Response",
            ),
            Check("udp", "no IKE on NWu yet", address=nwu, port=500),
            Check("udp", "no GTP-U on N3 yet", address=ends["n3"].ip, port=2152),
        ),
        rules=RULES.format(
            table=TABLE,
            interface=params.nwu_interface,
            device=DEVICE,
            nas=NAS_PORT,
        ),
    )


# -- what actions tell ----------------------------------------------------------------------------


def connected_step() -> Step:
    """Return the step that looks for connections of NAS, one for each registered UE."""
    words = ("ss", "-Htn", "state", "established", "sport", "=", ":{}".format(NAS_PORT))
    return run("nf/nas", *words)


def connected(results: Results) -> List[Dict[str, str]]:
    """Return the inner addresses of registered UEs."""
    rows = [row.split() for row in results.output("nf/nas").splitlines()]
    found = {row[3].rpartition(":")[0] for row in rows if len(row) >= 4}
    return [{"inner-address": one} for one in sorted(found, key=ipaddress.ip_address)]


def shown_steps(params: N3iwf) -> List[Step]:
    """Return the steps that read what UEs outside have to know, and the firewall's counters."""
    return [
        read("nf/authority", AUTHORITY),
        run("nf/counters", "nft", "-j", "list", "table", "inet", TABLE, any_exit=True),
    ]


def shown(params: N3iwf, results: Results) -> Dict[str, Any]:
    """Return it."""
    return {
        "name": fqdn(params.plmn),
        "ca-certificate": authority(results),
        "packets": _packets(results.output("nf/counters")),
    }


def _packets(text: str) -> Dict[str, int]:
    """Return the firewall's counters on NWu: of IKE, ESP, and what else it dropped."""
    counted = dict.fromkeys(("ike", "esp", "dropped"), 0)
    try:
        rules = [one["rule"] for one in json.loads(text)["nftables"] if "rule" in one]
    except (ValueError, KeyError, TypeError):
        return counted
    for rule in rules:
        name = rule.get("comment", "").replace("nwu-", "")
        if name in counted:
            counted[name] += sum(p["counter"]["packets"] for p in rule["expr"] if "counter" in p)
    return counted
