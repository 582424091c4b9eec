"""Non-3GPP access: free5GC's N3IWF (TS 23.501 clause 6.2.9), for UEs in an untrusted Wi-Fi.

Its certificate comes from an authority that the VDU makes, or from the operator's. UEs of the same
service get the authority's certificate by the relation; for other UEs `show-nwu` shows it.
"""

import ipaddress
import json
from typing import Any, Dict, List, Mapping, Tuple

import attr
from vpnaas.base import fields, x509
from vpnaas.base.declared import number_field, text_field
from vpnaas.base.errors import MALFORMED, InputError, VduError
from vpnaas.peers.inputs import Given
from vpnaas.vdu import openssl
from vpnaas.vdu.steps import Results, Step, directory, read, run, write

from . import values
from .function import Function
from .model import TABLE, TLS, Check, Container, Ends, File, Software, conf, filled
from .params import AccessNode, pool_field
from .sbi import LOGGED
from .values import Plmn

HOME = "/free5gc"
NAS_PORT = 20000
DEVICE = "nwu"
"""Prefix of the names of the interfaces for decrypted packets."""
AUTHORITY = TLS + "/n3iwf-ca.cert.pem"
_AUTHORITY_KEY = TLS + "/n3iwf-ca.key.pem"
_DAYS, _AUTHORITY_DAYS = "825", "3650"
_CHECK = TLS + "/n3iwf-check"
_BEGIN = ["openssl", "req", "-config", "/dev/null", "-x509", "-nodes"]


@attr.frozen
class N3iwf(AccessNode):
    """Non-3GPP interworking function; UEs reach it by the network of `nwu_interface`."""

    # TS 38.413 clause 9.3.1.57: 16 bits. free5GC's N3IWF takes zero for a missing number.
    n3iwf_id: int = number_field(1, 0xFFFF)
    nwu_interface: str = text_field(fields.network_interface)
    # Prefix of inner addresses; the first is the N3IWF's, UEs get the others.
    inner_pool: str = pool_field()
    # Seconds between two liveness checks of a UE; 0 for none.
    liveness_seconds: int = number_field(0, 3600, 60)

    @property
    def inner(self) -> str:
        return str(values.pool("inner-pool", self.inner_pool)[1])


def fqdn(plmn: Plmn) -> str:
    """Return the FQDN that UEs of a network look up (TS 23.003 clause 28.3.2.2.2)."""
    return "n3iwf.5gc.mnc{}.mcc{}.pub.3gppnetwork.org".format(plmn.mnc3, plmn.mcc)


def certificate_steps(params: N3iwf) -> List[Step]:
    """Return the steps that make authority and certificate once, and read what is in use.

    The key is RSA, the only kind that the image signs with in IKE_AUTH. With 2048 bits the answer
    with the certificate fits in one packet of 1500 octets; many Wi-Fi networks drop fragments.
    """
    name = fqdn(params.plmn)
    certificate, _, trust = files(params)
    root = _BEGIN + ["-newkey", "rsa:3072", "-keyout", _AUTHORITY_KEY, "-out", AUTHORITY]
    root += ["-days", _AUTHORITY_DAYS, "-subj", "/CN=ca." + name]
    root += ["-addext", "basicConstraints=critical,CA:TRUE,pathlen:0"]
    root += ["-addext", "keyUsage=critical,keyCertSign,cRLSign"]
    return [
        directory("nf/tls", TLS, 0o700),
        run("nf/authority/make", *root, unless=AUTHORITY, timeout=120),
        run("nf/certificate/make", *_leaf(params), unless=certificate, timeout=120),
        run("nf/trust/make", "cp", AUTHORITY, trust, unless=trust),
        read("nf/authority", trust),
        read("nf/certificate/own", certificate),
        read("nf/authority/own", AUTHORITY),
        run("nf/now", "date", "+%s"),
    ]


def _leaf(params: N3iwf) -> List[str]:
    """Return the command that makes key and certificate."""
    name, (certificate, key, _) = fqdn(params.plmn), files(params)
    leaf = _BEGIN + ["-newkey", "rsa:2048", "-keyout", key, "-out", certificate]
    leaf += ["-CA", AUTHORITY, "-CAkey", _AUTHORITY_KEY, "-days", _DAYS, "-subj", "/CN=" + name]
    leaf += ["-addext", "basicConstraints=critical,CA:FALSE"]
    leaf += ["-addext", "keyUsage=critical,digitalSignature"]
    return leaf + ["-addext", "subjectAltName=DNS:" + name]


def _now(results: Results) -> int:
    return fields.integer("VDU: time", results.output("nf/now").strip(), 0, 9999999999)


def renewal_steps(params: N3iwf, results: Results) -> List[Step]:
    """Return the steps that renew the certificate after two thirds of its validity.

    A certificate that an operator's authority signed stays.
    """
    own = x509.stored(results.text("nf/certificate/own"))
    root = x509.stored(results.text("nf/authority/own"))
    if own is None or root is None:
        return []
    if not own.issued_by(root) or _now(results) < own.renewal:
        return []
    return [run("nf/certificate/renew", *_leaf(params), timeout=120)]


def files(params: N3iwf) -> Tuple[str, str, str]:
    """Return the files of certificate and key, and of the authority that UEs have to trust.

    Their names contain the FQDN, so another network has other files.
    """
    name = fqdn(params.plmn)
    return tuple("{}/{}.{}.pem".format(TLS, name, kind) for kind in ("cert", "key", "ca"))  # type: ignore[return-value]


def authority(results: Results) -> str:
    """Return the authority's certificate in the form of a relation, "" if it cannot be read."""
    own = x509.stored(results.text("nf/authority"))
    return own.text if own is not None else ""


def request_steps(params: N3iwf) -> List[Step]:
    """Return the steps that make the request for a certificate of another authority."""
    name, (_, key, _) = fqdn(params.plmn), files(params)
    command = ("openssl", "req", "-new", "-config", "/dev/null", "-key", key)
    subject = ("-subj", "/CN=" + name, "-addext", "subjectAltName=DNS:" + name)
    return [run("nf/request", *(command + subject)), run("nf/now", "date", "+%s")]


def given_certificate(params: N3iwf, given: Mapping[str, Any], results: Results) -> Given:
    """Return the operator's certificate and authority; check all except the signature."""
    where = "set-nwu-certificate: "
    leaf = x509.certificate(where + "certificate", str(given.get("certificate", "")))
    root = x509.authority(where + "ca-certificate", str(given.get("ca-certificate", "")))
    own = x509.request("VDU", results.output("nf/request"))
    x509.matching(where + "certificate", leaf, own.key, fqdn(params.plmn))
    x509.in_force(where + "certificate", leaf, _now(results))
    return Given(leaf, root)


def verify_steps(brought: Given) -> List[Step]:
    """Return the steps that let openssl check the signature."""
    return openssl.verify("nf/check", _CHECK, brought.certificate.pem, brought.root)


def install_steps(params: N3iwf, brought: Given, results: Results) -> List[Step]:
    """Return the steps that install them; the N3IWF reads them when it starts."""
    if results.exit_code("nf/check") != 0:
        where = "set-nwu-certificate: certificate"
        raise InputError(where, "openssl does not verify it", "one that ca-certificate signed")
    certificate, _, trust = files(params)
    return [
        write("nf/certificate/brought", certificate, brought.certificate.pem, 0o600),
        write("nf/trust/brought", trust, brought.root.pem, 0o600),
    ]


def configuration(params: N3iwf, ends: Ends, nwu: str) -> str:
    """Return n3iwfcfg.yaml; JSON is YAML. `nwu` is our address towards the Wi-Fi."""
    return filled(
        "n3iwfcfg.yaml",
        params=params,
        ends=ends,
        tac="{:06x}".format(params.tac),
        slices=[{"snssai": {"sst": s.sst, "sd": s.differentiator}} for s in params.snssais],
        nwu=nwu,
        nas_port=NAS_PORT,
        device=DEVICE,
        fqdn=fqdn(params.plmn),
        liveness=params.liveness_seconds > 0,
        liveness_seconds=params.liveness_seconds or 60,
        # The readiness check needs a line of level info.
        level=LOGGED[params.log_level],
    )


def software(params: N3iwf, ends: Ends, own: str, **_: Any) -> Software:
    certificate, key, trust = files(params)
    return Software(
        containers=(
            Container(
                "n3iwf",
                words=("-c", "./config/n3iwfcfg.yaml"),
                volumes=(
                    (conf("n3iwfcfg.yaml"), HOME + "/config/n3iwfcfg.yaml"),
                    (key, HOME + "/cert/n3iwf.key"),
                    (certificate, HOME + "/cert/n3iwf.pem"),
                    (trust, HOME + "/cert/ca.pem"),
                ),
                entrypoint="./n3iwf",
                workdir=HOME,
                devices=(DEVICE + "-",),
            ),
        ),
        files=(File(conf("n3iwfcfg.yaml"), configuration(params, ends, own)),),
        checks=(
            Check(
                "log",
                "the AMF at {} has not accepted the N3IWF yet".format(ends["n2"].peer),
                unit="n3iwf",
                pattern="Handle NG Setup Response",
                # It does not set up a lost association again.
                lost=r"\[SCTP\] (Close connection|Read from SCTP connection failed)",
            ),
            Check("udp", "no IKE on NWu yet", address=own, port=500),
            Check("udp", "no GTP-U on N3 yet", address=ends["n3"].ip, port=2152),
        ),
        rules=filled(
            "n3iwf.nft",
            table=TABLE,
            interface=params.nwu_interface,
            device=DEVICE,
            nas=NAS_PORT,
        ),
    )


FUNCTION = Function(
    "n3iwf",
    N3iwf,
    software,
    kernel=("xfrm_interface", "ip_gre", "sctp"),
    devices=(DEVICE + "-",),
    # The firewall of NWu would shut out management or the peers of a link.
    for_ues=("nwu-interface", ""),
)


# -- answers of actions ---------------------------------------------------------------------------


def connected_step() -> Step:
    """Return the step that lists the NAS connections, one for each registered UE."""
    words = ("ss", "-Htn", "state", "established", "sport", "=", ":{}".format(NAS_PORT))
    return run("nf/nas", *words)


def connected(results: Results) -> List[Dict[str, str]]:
    """Return the inner addresses of registered UEs."""
    rows = [row.split() for row in results.output("nf/nas").splitlines()]
    try:
        addresses = {
            ipaddress.IPv4Address(row[3].rpartition(":")[0]) for row in rows if len(row) >= 4
        }
    except ValueError:
        raise VduError("the VDU listed NAS connections without their IPv4 addresses")
    return [{"inner-address": str(one)} for one in sorted(addresses)]


def shown_steps(params: N3iwf) -> List[Step]:
    """Return the steps that read what UEs of other services need, and the firewall's counters."""
    return request_steps(params) + [
        read("nf/authority", files(params)[2]),
        run("nf/counters", "nft", "-j", "list", "table", "inet", TABLE, any_exit=True),
    ]


def shown(params: N3iwf, results: Results) -> Dict[str, Any]:
    """Return the answer of `show-nwu`, without our address."""
    return {
        "name": fqdn(params.plmn),
        "ca-certificate": authority(results),
        "request": results.output("nf/request"),
        "packets": _packets(results.output("nf/counters")),
    }


def _packets(text: str) -> Dict[str, int]:
    """Return the firewall's packet counters on NWu: IKE, ESP and dropped."""
    counted = dict.fromkeys(("ike", "esp", "dropped"), 0)
    try:
        for rule in [one["rule"] for one in json.loads(text)["nftables"] if "rule" in one]:
            name = rule.get("comment", "").replace("nwu-", "")
            if name in counted:
                packets = [p["counter"]["packets"] for p in rule["expr"] if "counter" in p]
                counted[name] += sum(packets)
    except MALFORMED:
        pass
    return counted
