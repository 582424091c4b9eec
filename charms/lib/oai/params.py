"""Typed parameters of each network function, parsed from `configure-nf`.

They are stored without the secrets. The keys of the operator and of the subscribers are in a file
on the VDU (`SECRETS_FILE`) and nowhere else, so the operator must give them again to a rebuilt VDU.
"""

import json
from typing import Any, Callable, Dict, Iterable, Mapping, Optional, Tuple, Type, TypeVar

import attr
from vpnaas.base import fields
from vpnaas.base.errors import MALFORMED, InputError
from vpnaas.params.intent import AUTO, NOTHING

from . import nssai, values
from .images import DEFAULT_PREFIX, Registry
from .values import Plmn

OAI = "oai"
NONE = "none"
SOFTWARE = (OAI, NONE)
SECRET_NAMES = ("operator-key", "subscriber-key")
STORE = "store"
"""Value in place of a key: the VDU fetches the key from a secret store."""
_FORM = ("[0-9A-Fa-f]{32}", "32 hexadecimal digits")
KEY_FORMS = {name.replace("-", "_"): (name, *_FORM) for name in SECRET_NAMES}
"""The keys as fields of a secret, see `vpnaas.vdu.secret_store.fetch`."""
MASK = "*" * 8
LOG_LEVELS = ("error", "warning", "info", "debug")
MAX_SUBSCRIBERS = 100000
VERSION = 1

Given = Mapping[str, Any]


@attr.frozen
class Secrets:
    """Keys of the operator (OP, TS 35.206) and of the subscribers (K, TS 33.401), hexadecimal.

    Attributes:
        operator_key: OP.
        subscriber_key: K.
        database: Password of the database, which has a file of its own.
    """

    operator_key: str = attr.field(default="", repr=False)
    subscriber_key: str = attr.field(default="", repr=False)
    database: str = attr.field(default="", repr=False)

    def to_json(self) -> str:
        """Return the text of the key file on the VDU."""
        keys = {"operator_key": self.operator_key, "subscriber_key": self.subscriber_key}
        return json.dumps(keys, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: Optional[str]) -> "Secrets":
        """Read it back; a missing or invalid file gives no keys."""
        try:
            document = json.loads(text or "{}")
            return cls(
                values.key("secrets", str(document["operator_key"])),
                values.key("secrets", str(document["subscriber_key"])),
            )
        except (InputError, *MALFORMED):
            return cls()

    def __bool__(self) -> bool:
        """Tell whether both keys are known."""
        return bool(self.operator_key and self.subscriber_key)


def masked(text: str, hidden: Iterable[str]) -> str:
    """Return a text without any of the keys, in lower or upper case."""
    for secret in hidden:
        if secret:
            text = text.replace(secret, MASK).replace(secret.upper(), MASK)
    return text


@attr.frozen
class Common:
    """Parameters of every network function.

    Attributes:
        plmn: Network it belongs to.
        realm: Diameter realm, also the domain of names; "" in 5GS, which has none.
        software: "oai", or "none" for a machine with links only.
        image_prefix: Registry of the container images.
        image_pins: Tags or digests that replace the charm's own, as text.
        log_level: One of `LOG_LEVELS`.
    """

    plmn: Plmn
    realm: str = ""
    software: str = OAI
    image_prefix: str = DEFAULT_PREFIX
    image_pins: str = ""
    log_level: str = "info"

    @property
    def registry(self) -> Registry:
        """Return where images come from."""
        return Registry(self.image_prefix, values.pins("image-pins", self.image_pins))


@attr.frozen
class Hss(Common):
    """Home Subscriber Server (TS 29.272), with the range of subscribers it starts with."""

    first_imsi: str = ""
    first_msisdn: str = ""
    subscribers: int = 0
    apn: str = ""
    second_apn: str = ""
    mme_names: str = "mme"


@attr.frozen
class Mme(Common):
    """Mobility Management Entity; group and code make its GUMMEI (TS 23.003 clause 2.8.1).

    Its name and the realm make its Diameter identity, by which an HSS distinguishes several MMEs.
    """

    tac: int = 0
    mme_group: int = 0
    mme_code: int = 0
    mme_name: str = "mme"


@attr.frozen
class SpgwC(Common):
    """Control plane of SGW and PGW."""

    tac: int = 0
    apn: str = ""
    second_apn: str = ""
    dns: str = ""
    second_dns: str = ""
    ue_pool: str = ""
    ue_mtu: int = 0
    gateway_id: int = 1


@attr.frozen
class SpgwU(Common):
    """User plane of SGW and PGW."""

    ue_pool: str = ""
    sgi_interface: str = ""
    sgi_nat: bool = True
    gateway_id: int = 1


@attr.frozen
class Enb(Common):
    """Base station with a simulated radio; UEs reach it by the network of `uu_interface` only."""

    tac: int = 0
    enb_id: int = 0
    uu_interface: str = ""
    downlink_mhz: int = 2680
    resource_blocks: int = 25


@attr.frozen
class Ue(Common):
    """User equipment with a simulated radio."""

    imsi: str = ""
    msisdn: str = ""
    downlink_mhz: int = 2680
    resource_blocks: int = 25


@attr.frozen
class Amf(Common):
    """AMF, NRF, AUSF, UDM, UDR and database, which slices share, with their first subscribers.

    Region, set and pointer make the AMF's GUAMI (TS 23.003 clause 2.10.1). Every subscriber of the
    range may use every slice.
    """

    tac: int = 0
    amf_region: int = 1
    amf_set: int = 1
    amf_pointer: int = 1
    slices: str = ""
    first_imsi: str = ""
    subscribers: int = 0
    ambr_mbps: int = 1000

    @property
    def sessions(self) -> Tuple[nssai.Session, ...]:
        """Return the slices with their data networks and 5QIs."""
        return nssai.parse("slices", self.slices, 3)


@attr.frozen
class SliceOfDnn(Common):
    """A network function of one slice."""

    slice: str = ""
    dnn: str = ""
    ue_pool: str = ""

    @property
    def snssai(self) -> nssai.Snssai:
        """Return the slice."""
        return nssai.snssai("slice", self.slice)


@attr.frozen
class Smf(SliceOfDnn):
    """Session Management Function of a slice."""

    dns: str = ""
    second_dns: str = ""
    ue_mtu: int = 0


@attr.frozen
class Upf(SliceOfDnn):
    """User Plane Function of a slice."""

    n6_interface: str = ""
    n6_nat: bool = True


@attr.frozen
class AccessNode(Common):
    """A node that gives UEs access to a 5G core by N2 and N3 (TS 23.501 clause 4.2.8.2)."""

    tac: int = 0
    slices: str = ""

    @property
    def snssais(self) -> Tuple[nssai.Snssai, ...]:
        """Return the slices it supports."""
        return tuple(one.slice for one in nssai.parse("slices", self.slices, 1))


@attr.frozen
class Gnb(AccessNode):
    """5G base station with a simulated radio; UEs reach it by the network of `uu_interface`."""

    gnb_id: int = 0
    uu_interface: str = ""


@attr.frozen
class Equipment(Common):
    """5G user equipment."""

    imsi: str = ""
    sessions: str = ""

    @property
    def requested(self) -> Tuple[nssai.Session, ...]:
        """Return the PDU sessions that it establishes."""
        return nssai.parse("sessions", self.sessions, 2)


@attr.frozen
class NrUe(Equipment):
    """5G user equipment with a simulated radio."""


@attr.frozen
class N3iwf(AccessNode):
    """Non-3GPP interworking function; UEs reach it by the network of `nwu_interface`.

    Attributes:
        inner_pool: Prefix of inner addresses; the first is the N3IWF's, UEs get the others.
        liveness_seconds: Seconds between two liveness checks of a UE; 0 for none.
    """

    n3iwf_id: int = 0
    nwu_interface: str = ""
    inner_pool: str = ""
    liveness_seconds: int = 60

    @property
    def inner_pool_network(self) -> fields.IPNetwork:
        """Return the prefix of inner addresses."""
        return values.pool("inner-pool", self.inner_pool)


@attr.frozen
class N3ue(Equipment):
    """5G user equipment in an untrusted Wi-Fi, which is the network of `wifi_interface`."""

    wifi_interface: str = ""


P = TypeVar("P", bound=Common)


class _Reader:
    """Strict parser for the values of one action call."""

    def __init__(self, given: Given, where: str) -> None:
        self.given = given
        self.where = where

    def at(self, name: str) -> str:
        """Return the place of a value for error texts."""
        return "{}: {}".format(self.where, name)

    def text(self, name: str, default: str = "") -> str:
        """Return a text."""
        return fields.string(self.at(name), self.given.get(name, default)).strip(" ")

    def optional(self, name: str, parse: Callable[[str, str], str]) -> str:
        """Return a parsed text, "" for "none" or "auto"."""
        text = self.text(name, "none")
        return "" if text in AUTO or text in NOTHING else parse(self.at(name), text)

    def number(self, name: str, low: int, high: int, default: Optional[int] = None) -> int:
        """Return a whole number."""
        return fields.integer(self.at(name), self.given.get(name, default), low, high)


def _common(reader: _Reader) -> Dict[str, Any]:
    """Return the parameters common to network functions of EPS."""
    realm = values.realm(reader.at("realm"), reader.text("realm"))
    return dict(_common_5g(reader), realm=realm)


def _common_5g(reader: _Reader) -> Dict[str, Any]:
    """Return the parameters common to all network functions."""
    at = reader.at
    return {
        "plmn": values.plmn(at(""), reader.text("mcc"), reader.text("mnc")),
        "software": fields.choice(at("software"), reader.text("software", OAI), SOFTWARE),
        "image_prefix": values.image_prefix(
            at("image-prefix"), reader.text("image-prefix", DEFAULT_PREFIX)
        ),
        "image_pins": reader.optional("image-pins", values.image_pins),
        "log_level": fields.choice(at("log-level"), reader.text("log-level", "info"), LOG_LEVELS),
    }


def _range(reader: _Reader, network: Plmn) -> Tuple[str, int]:
    """Return first IMSI and number of the first subscribers."""
    first = values.imsi_of(reader.at("first-imsi"), reader.text("first-imsi"), network)
    count = reader.number("subscribers", 0, MAX_SUBSCRIBERS)
    last = int(first) + max(count - 1, 0)
    if str(last).zfill(15)[: len(str(network))] != str(network):
        raise InputError(
            reader.at("subscribers"), "{} from {} leave the network".format(count, first), "fewer"
        )
    return first, count


def _apns(reader: _Reader) -> Dict[str, Any]:
    """Return the access point names; the second one is another one."""
    first = values.apn(reader.at("apn"), reader.text("apn"))
    second = reader.optional("second-apn", values.apn)
    if second == first:
        raise InputError(reader.at("second-apn"), "{} is apn".format(second), "another, or none")
    return {"apn": first, "second_apn": second}


def _hss(reader: _Reader) -> Hss:
    at, common = reader.at, _common(reader)
    first, count = _range(reader, common["plmn"])
    msisdn = values.msisdn(at("first-msisdn"), reader.text("first-msisdn"))
    last = str(int(msisdn) + max(count - 1, 0))
    if len(last) > 15:
        what = "{} from {} have more than 15 digits".format(count, msisdn)
        raise InputError(at("first-msisdn"), what, "a smaller number, or fewer subscribers")
    return Hss(
        first_imsi=first,
        first_msisdn=msisdn,
        subscribers=count,
        **_apns(reader),
        mme_names=values.host_names(at("mme-names"), reader.text("mme-names", "mme")),
        **common,
    )


def _mme(reader: _Reader) -> Mme:
    return Mme(
        tac=values.tac(reader.at("tac"), reader.given.get("tac")),
        mme_group=reader.number("mme-group", 0, 65535),
        mme_code=reader.number("mme-code", 0, 255),
        mme_name=values.host_name(reader.at("mme-name"), reader.text("mme-name", "mme")),
        **_common(reader),
    )


def _name_servers(reader: _Reader, pool: fields.IPNetwork) -> Dict[str, Any]:
    """Return the DNS servers of UEs; packets to an address of the pool go to a UE."""
    result = {}
    for name in ("dns", "second-dns"):
        server = values.ipv4(reader.at(name), reader.text(name))
        if fields.address(reader.at(name), server) in pool:
            what = "{} is an address of UEs".format(server)
            raise InputError(reader.at(name), what, "one outside ue-pool {}".format(pool))
        result[name.replace("-", "_")] = server
    return result


def _spgwc(reader: _Reader) -> SpgwC:
    at = reader.at
    pool = values.pool(at("ue-pool"), reader.text("ue-pool"))
    return SpgwC(
        tac=values.tac(at("tac"), reader.given.get("tac")),
        **_apns(reader),
        **_name_servers(reader, pool),
        ue_pool=str(pool),
        ue_mtu=reader.number("ue-mtu", 576, 9000),
        gateway_id=reader.number("gateway-id", 1, 255, 1),
        **_common(reader),
    )


def _spgwu(reader: _Reader) -> SpgwU:
    at = reader.at
    return SpgwU(
        ue_pool=str(values.pool(at("ue-pool"), reader.text("ue-pool"))),
        sgi_interface=fields.network_interface(at("sgi-interface"), reader.text("sgi-interface")),
        sgi_nat=fields.boolean(at("sgi-nat"), reader.given.get("sgi-nat", True)),
        gateway_id=reader.number("gateway-id", 1, 255, 1),
        **_common(reader),
    )


def _cell(reader: _Reader) -> Dict[str, int]:
    return {
        # Band 7, the band OAI's radio simulator is used with (TS 36.101 table 5.5-1).
        "downlink_mhz": reader.number("downlink-mhz", 2620, 2690, 2680),
        "resource_blocks": values.resource_blocks(
            reader.at("resource-blocks"), reader.given.get("resource-blocks", 25)
        ),
    }


def _enb(reader: _Reader) -> Enb:
    at = reader.at
    return Enb(
        tac=values.tac(at("tac"), reader.given.get("tac")),
        # A macro eNB has 20 bits (TS 36.413 clause 9.2.1.37).
        enb_id=reader.number("enb-id", 0, 0xFFFFF),
        uu_interface=fields.network_interface(at("uu-interface"), reader.text("uu-interface")),
        **dict(_common(reader), **_cell(reader)),
    )


def _ue(reader: _Reader) -> Ue:
    at, common = reader.at, _common(reader)
    return Ue(
        imsi=values.imsi_of(at("imsi"), reader.text("imsi"), common["plmn"]),
        msisdn=values.msisdn(at("msisdn"), reader.text("msisdn")),
        **dict(common, **_cell(reader)),
    )


def _amf(reader: _Reader) -> Amf:
    common = _common_5g(reader)
    first, count = _range(reader, common["plmn"])
    return Amf(
        tac=values.tac_5g(reader.at("tac"), reader.given.get("tac")),
        amf_region=reader.number("amf-region", 0, 255, 1),
        amf_set=reader.number("amf-set", 0, 1023, 1),
        amf_pointer=reader.number("amf-pointer", 0, 63, 1),
        slices=nssai.canonical(reader.at("slices"), reader.text("slices"), 3),
        first_imsi=first,
        subscribers=count,
        ambr_mbps=reader.number("ambr-mbps", 1, 4000000, 1000),
        **common,
    )


def _of_slice(reader: _Reader) -> Dict[str, Any]:
    at = reader.at
    return dict(
        _common_5g(reader),
        slice=str(nssai.snssai(at("slice"), reader.text("slice"))),
        dnn=values.apn(at("dnn"), reader.text("dnn")),
        ue_pool=str(values.pool(at("ue-pool"), reader.text("ue-pool"))),
    )


def _smf(reader: _Reader) -> Smf:
    served = _of_slice(reader)
    pool = values.pool(reader.at("ue-pool"), served["ue_pool"])
    return Smf(
        ue_mtu=reader.number("ue-mtu", 576, 9000),
        **_name_servers(reader, pool),
        **served,
    )


def _upf(reader: _Reader) -> Upf:
    at = reader.at
    return Upf(
        n6_interface=fields.network_interface(at("n6-interface"), reader.text("n6-interface")),
        n6_nat=fields.boolean(at("n6-nat"), reader.given.get("n6-nat", True)),
        **_of_slice(reader),
    )


def _gnb(reader: _Reader) -> Gnb:
    at = reader.at
    return Gnb(
        tac=values.tac_5g(at("tac"), reader.given.get("tac")),
        # OAI gives the gNB identity of the NG Setup 28 bits (TS 38.413 clause 9.3.1.6: 22 to 32).
        gnb_id=reader.number("gnb-id", 0, 0xFFFFFFF),
        uu_interface=fields.network_interface(at("uu-interface"), reader.text("uu-interface")),
        slices=nssai.canonical(at("slices"), reader.text("slices"), 1),
        **_common_5g(reader),
    )


def _nr_ue(reader: _Reader) -> NrUe:
    at, common = reader.at, _common_5g(reader)
    return NrUe(
        imsi=values.imsi_of(at("imsi"), reader.text("imsi"), common["plmn"]),
        sessions=nssai.canonical(at("sessions"), reader.text("sessions"), 2),
        **common,
    )


def _n3iwf(reader: _Reader) -> N3iwf:
    at = reader.at
    return N3iwf(
        tac=values.tac_5g(at("tac"), reader.given.get("tac")),
        # TS 38.413 clause 9.3.1.57: 16 bits. free5GC's N3IWF takes zero for a missing number.
        n3iwf_id=reader.number("n3iwf-id", 1, 0xFFFF),
        nwu_interface=fields.network_interface(at("nwu-interface"), reader.text("nwu-interface")),
        slices=nssai.canonical(at("slices"), reader.text("slices"), 1),
        inner_pool=str(values.pool(at("inner-pool"), reader.text("inner-pool"))),
        liveness_seconds=reader.number("liveness-seconds", 0, 3600, 60),
        **_common_5g(reader),
    )


def _n3ue(reader: _Reader) -> N3ue:
    at, common = reader.at, _common_5g(reader)
    wifi = fields.network_interface(at("wifi-interface"), reader.text("wifi-interface"))
    sessions = nssai.parse(at("sessions"), reader.text("sessions"), 2)
    for one in sessions:
        if one.slice.sst > 15:
            what = "slice {}: the UE's configuration has one digit for SST".format(one.slice)
            raise InputError(at("sessions"), what, "SST 1 to 15")
    return N3ue(
        imsi=values.imsi_of(at("imsi"), reader.text("imsi"), common["plmn"]),
        sessions=nssai.text(sessions),
        wifi_interface=wifi,
        **common,
    )


_PARSERS: Dict[str, Callable[[_Reader], Common]] = {
    "amf": _amf,
    "smf": _smf,
    "upf": _upf,
    "gnb": _gnb,
    "nr-ue": _nr_ue,
    "n3iwf": _n3iwf,
    "n3ue": _n3ue,
    "hss": _hss,
    "mme": _mme,
    "spgwc": _spgwc,
    "spgwu": _spgwu,
    "enb": _enb,
    "ue": _ue,
}
KINDS: Tuple[str, ...] = tuple(_PARSERS)
LEVELLED = ("mme", "spgwu", "enb", "ue", "amf", "smf", "upf", "gnb", "nr-ue", "n3iwf", "n3ue")
"""Network functions whose configuration has a log level; the others of OAI have one level only."""
WITH_SECRETS = ("hss", "ue", "amf", "nr-ue", "n3ue")
"""Network functions that need the keys."""


def parse(kind: str, given: Given, where: str = "configure-nf") -> Common:
    """Parse the parameters of `configure-nf` of one kind of network function, without secrets.

    Raises:
        InputError: A value is not allowed.
    """
    return _PARSERS[kind](_Reader(given, where))


def parse_secrets(kind: str, given: Given) -> Optional[Secrets]:
    """Parse the keys of `configure-nf`; None if a store has them or the kind needs none."""
    if kind not in WITH_SECRETS:
        return None
    reader = _Reader(given, "configure-nf")
    if any(reader.text(name) == STORE for name in SECRET_NAMES):
        for name in SECRET_NAMES:
            if reader.text(name) != STORE:
                raise InputError(reader.at(name), "the other key comes from a store", STORE)
        return None
    return Secrets(*(values.key(reader.at(n), reader.text(n)) for n in SECRET_NAMES))


def fetched_key(text: Optional[str]) -> str:
    """Return K from the text of a fetched file, "" without a file."""
    keys = fields.json_object("VDU: key", text) if text else {}
    return str(keys.get("subscriber_key", ""))


def with_key(secrets: Secrets, where: str, key: str) -> Secrets:
    """Return the keys with another subscriber's key."""
    return attr.evolve(secrets, subscriber_key=values.key(where, key))


def expect(kind: Type[P], params: Common) -> P:
    """Return the parameters as those of one kind; TypeError for another kind is a defect."""
    if not isinstance(params, kind):
        raise TypeError("{} is not {}".format(type(params).__name__, kind.__name__))
    return params


def to_given(params: Common) -> Dict[str, Any]:
    """Return action parameters that `parse` reads back."""
    given: Dict[str, Any] = {}
    for name, value in attr.asdict(params, recurse=False).items():
        if name == "plmn":
            given["mcc"], given["mnc"] = params.plmn.mcc, params.plmn.mnc
        elif value or name != "realm":
            given[name.replace("_", "-")] = "none" if value == "" else value
    return given


def to_json(params: Optional[Common]) -> str:
    """Return the document for the peer relation, which holds no secret."""
    if params is None:
        return ""
    return json.dumps({"version": VERSION, "nf": to_given(params)}, sort_keys=True)


def from_json(kind: str, text: str) -> Optional[Common]:
    """Read the document back; "" is a network function that is not configured yet.

    Raises:
        InputError: The version or the form is unknown.
    """
    if not text:
        return None
    where = "peer relation: nf"
    document = fields.json_object(where, text)
    version, given = document.get("version"), document.get("nf")
    if version != VERSION or not isinstance(given, dict):
        raise InputError(where, "version {}".format(fields.shown(version)), str(VERSION))
    return parse(kind, given, where)


def changed(kind: str, params: Common, given: Given, where: str) -> Common:
    """Return the parameters with those replaced that a day-2 primitive gives."""
    merged = dict(to_given(params), **dict(given))
    return parse(kind, merged, where)
