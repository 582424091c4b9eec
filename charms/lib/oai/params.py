"""Typed parameters of each network function, parsed from `configure-nf`.

They are stored without the secrets. The keys of the operator and of the subscribers are in a file
on the VDU (`SECRETS_FILE`) and nowhere else, so the operator must give them again to a rebuilt VDU.
"""

import json
from typing import Any, Callable, Dict, Iterable, Mapping, Optional, Tuple, Type, TypeVar

import attr
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from vpnaas.base import fields
from vpnaas.base.errors import MALFORMED, InputError
from vpnaas.params.intent import AUTO, NOTHING
from vpnaas.vdu.facts import VduFacts

from . import nssai, values
from .images import DEFAULT_PREFIX, Registry
from .values import Plmn


def opc(key: str, operator_key: str) -> str:
    """Return OPc = AES-128 of OP under K, xored with OP; all in hexadecimal."""
    op = bytes.fromhex(operator_key)
    # A single block: ECB is AES itself here.
    encryptor = Cipher(algorithms.AES(bytes.fromhex(key)), modes.ECB()).encryptor()  # noqa: S305
    encrypted = encryptor.update(op) + encryptor.finalize()
    return bytes(a ^ b for a, b in zip(encrypted, op)).hex()


NONE = "none"
SECRET_NAMES = ("operator-key", "subscriber-key")
KEEP = "keep"
"""Value in place of a parameter of `configure-nf` that stays as it is; a number has -1."""
STORE = "store"
"""Value in place of a key: the VDU fetches the key from a secret store."""
_FORM = ("[0-9A-Fa-f]{32}", "32 hexadecimal digits")
KEY_FORMS = {name.replace("-", "_"): (name, *_FORM) for name in SECRET_NAMES}
"""The keys as fields of a secret, see `vpnaas.vdu.secret_store.fetch`."""
MASK = "*" * 8
MAX_SUBSCRIBERS = 100000
VERSION = 1

Given = Mapping[str, Any]


@attr.frozen
class Secrets:
    """Keys of the operator (OP, TS 35.206) and of the subscribers (K, TS 33.401), hexadecimal."""

    operator_key: str = attr.field(default="", repr=False)  # OP.
    subscriber_key: str = attr.field(default="", repr=False)  # K.
    # Password of the database, which has a file of its own.
    database: str = attr.field(default="", repr=False)

    @property
    def opc(self) -> str:
        """Return OPc, derived from both (TS 35.206)."""
        return opc(self.subscriber_key, self.operator_key)

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


TUN = "tun0"
"""Tun device that OAI's SPGW-U and UPF make, with the packets of all UEs."""
At = Callable[[str], str]
"""Place of a parameter for error texts, by the parameter's name."""


def _value(parse: Callable[[str, Any], Any], default: Any = None) -> Any:
    """Return a field that `parse` reads from a parameter; the place is its first argument."""
    return attr.field(default=default, metadata={"parse": parse})


def _text(parse: Callable[[str, str], Any], default: str = "") -> Any:
    """Return a field that is parsed from a text without the spaces around it."""
    return _value(lambda where, text: parse(where, fields.string(where, text).strip(" ")), default)


def _optional(parse: Callable[[str, str], str]) -> Any:
    """Return a field of a parsed text, "" for "none" or "auto"."""
    return _text(lambda where, text: "" if text in AUTO + NOTHING else parse(where, text))


def _number(low: int, high: int, default: Optional[int] = None) -> Any:
    """Return a field of a whole number."""
    return _value(lambda where, value: fields.integer(where, value, low, high), default)


def _choice(options: Iterable[str], default: str) -> Any:
    return _text(lambda where, text: fields.choice(where, text, options), default)


def _pool() -> Any:
    return _text(lambda where, text: str(values.pool(where, text)))


def _sessions(parts: int) -> Any:
    return _text(lambda where, text: nssai.text(nssai.parse(where, text, parts)))


@attr.frozen
class Common:
    """Parameters of every network function; each class says how they are parsed."""

    plmn: Plmn  # Network it belongs to.
    realm: str = ""  # Diameter realm, also the domain of names; "" in 5GS, which has none.
    software: str = _choice(("oai", NONE), "oai")  # "oai", or "none" for a machine with links only.
    # Registry of the container images.
    image_prefix: str = _text(values.image_prefix, DEFAULT_PREFIX)
    # Tags or digests that replace the charm's own, as text.
    image_pins: str = _optional(values.image_pins)
    log_level: str = _choice(("error", "warning", "info", "debug"), "info")

    def check(self, at: At) -> None:
        """Raise InputError if parameters do not fit together."""

    @property
    def registry(self) -> Registry:
        """Return where images come from."""
        return Registry(self.image_prefix, values.pins("image-pins", self.image_pins))


@attr.frozen
class Eps(Common):
    """Parameters of every network function of EPS."""

    realm: str = _text(values.realm)


def _check_range(network: Plmn, first: str, count: int, at: At) -> None:
    """Check first IMSI and number of the first subscribers."""
    values.imsi_of(at("first-imsi"), first, network)
    last = int(first) + max(count - 1, 0)
    if str(last).zfill(15)[: len(str(network))] != str(network):
        raise InputError(
            at("subscribers"), "{} from {} leave the network".format(count, first), "fewer"
        )


def _check_device(device: str, interface: str, at: At) -> None:
    """Check the device of a user plane, whose packets the firewall keeps from all but UEs."""
    if device in (interface, "lo"):
        text = "{} is no device of UEs".format(device)
        raise InputError(at("tun-device"), text, "the device that the image makes")


def _check_servers(servers: Iterable[str], ue_pool: str, at: At) -> None:
    """Check the DNS servers of UEs; packets to an address of the pool go to a UE."""
    pool = values.pool(at("ue-pool"), ue_pool)
    for name, server in zip(("dns", "second-dns"), servers):
        if fields.address(at(name), server) in pool:
            what = "{} is an address of UEs".format(server)
            raise InputError(at(name), what, "one outside ue-pool {}".format(pool))


@attr.frozen
class WithApns(Eps):
    """Access point names, which differ."""

    apn: str = _text(values.apn)
    second_apn: str = _optional(values.apn)

    def check(self, at: At) -> None:
        if self.second_apn == self.apn:
            raise InputError(at("second-apn"), "{} is apn".format(self.apn), "another, or none")


@attr.frozen
class Hss(WithApns):
    """Home Subscriber Server (TS 29.272), with the range of subscribers it starts with."""

    first_imsi: str = _text(values.imsi)
    first_msisdn: str = _text(values.msisdn)
    subscribers: int = _number(0, MAX_SUBSCRIBERS)
    mme_names: str = _text(values.host_names, "mme")

    def check(self, at: At) -> None:
        super().check(at)
        _check_range(self.plmn, self.first_imsi, self.subscribers, at)
        if len(str(int(self.first_msisdn) + max(self.subscribers - 1, 0))) > 15:
            form = "{} from {} have more than 15 digits"
            what = form.format(self.subscribers, self.first_msisdn)
            raise InputError(at("first-msisdn"), what, "a smaller number, or fewer subscribers")


@attr.frozen
class Mme(Eps):
    """Mobility Management Entity; group and code make its GUMMEI (TS 23.003 clause 2.8.1).

    Its name and the realm make its Diameter identity, by which an HSS distinguishes several MMEs.
    """

    tac: int = _value(values.tac)
    mme_group: int = _number(0, 65535)
    mme_code: int = _number(0, 255)
    mme_name: str = _text(values.host_name, "mme")


@attr.frozen
class SpgwC(WithApns):
    """Control plane of SGW and PGW."""

    tac: int = _value(values.tac)
    dns: str = _text(values.ipv4)
    second_dns: str = _text(values.ipv4)
    ue_pool: str = _pool()
    ue_mtu: int = _number(576, 9000)
    gateway_id: int = _number(1, 255, 1)

    def check(self, at: At) -> None:
        super().check(at)
        _check_servers((self.dns, self.second_dns), self.ue_pool, at)


@attr.frozen
class SpgwU(Eps):
    """User plane of SGW and PGW."""

    ue_pool: str = _pool()
    sgi_interface: str = _text(fields.network_interface)
    sgi_nat: bool = _value(fields.boolean, True)
    gateway_id: int = _number(1, 255, 1)
    tun_device: str = _text(fields.network_interface, TUN)

    def check(self, at: At) -> None:
        super().check(at)
        _check_device(self.tun_device, self.sgi_interface, at)


@attr.frozen
class Cell(Eps):
    """One end of a simulated radio."""

    # Band 7, the band OAI's radio simulator is used with (TS 36.101 table 5.5-1).
    downlink_mhz: int = _number(2620, 2690, 2680)
    resource_blocks: int = _value(values.resource_blocks, 25)


@attr.frozen
class Enb(Cell):
    """Base station with a simulated radio; UEs reach it by the network of `uu_interface` only."""

    tac: int = _value(values.tac)
    # A macro eNB has 20 bits (TS 36.413 clause 9.2.1.37).
    enb_id: int = _number(0, 0xFFFFF)
    uu_interface: str = _text(fields.network_interface)


@attr.frozen
class Ue(Cell):
    """User equipment with a simulated radio."""

    imsi: str = _text(values.imsi)
    msisdn: str = _text(values.msisdn)

    def check(self, at: At) -> None:
        values.imsi_of(at("imsi"), self.imsi, self.plmn)


@attr.frozen
class Amf(Common):
    """AMF, NRF, AUSF, UDM, UDR and database, which slices share, with their first subscribers.

    Region, set and pointer make the AMF's GUAMI (TS 23.003 clause 2.10.1). Every subscriber of the
    range may use every slice.
    """

    tac: int = _value(values.tac_5g)
    amf_region: int = _number(0, 255, 1)
    amf_set: int = _number(0, 1023, 1)
    amf_pointer: int = _number(0, 63, 1)
    slices: str = _sessions(3)
    first_imsi: str = _text(values.imsi)
    subscribers: int = _number(0, MAX_SUBSCRIBERS)
    ambr_mbps: int = _number(1, 4000000, 1000)

    def check(self, at: At) -> None:
        _check_range(self.plmn, self.first_imsi, self.subscribers, at)

    @property
    def sessions(self) -> Tuple[nssai.Session, ...]:
        """Return the slices with their data networks and 5QIs."""
        return nssai.parse("slices", self.slices, 3)


@attr.frozen
class SliceOfDnn(Common):
    """A network function of one slice."""

    slice: str = _text(lambda where, text: str(nssai.snssai(where, text)))
    dnn: str = _text(values.apn)
    ue_pool: str = _pool()

    @property
    def snssai(self) -> nssai.Snssai:
        """Return the slice."""
        return nssai.snssai("slice", self.slice)


@attr.frozen
class Smf(SliceOfDnn):
    """Session Management Function of a slice."""

    dns: str = _text(values.ipv4)
    second_dns: str = _text(values.ipv4)
    ue_mtu: int = _number(576, 9000)

    def check(self, at: At) -> None:
        _check_servers((self.dns, self.second_dns), self.ue_pool, at)


@attr.frozen
class Upf(SliceOfDnn):
    """User Plane Function of a slice."""

    n6_interface: str = _text(fields.network_interface)
    n6_nat: bool = _value(fields.boolean, True)
    tun_device: str = _text(fields.network_interface, TUN)

    def check(self, at: At) -> None:
        super().check(at)
        _check_device(self.tun_device, self.n6_interface, at)


@attr.frozen
class AccessNode(Common):
    """A node that gives UEs access to a 5G core by N2 and N3 (TS 23.501 clause 4.2.8.2)."""

    tac: int = _value(values.tac_5g)
    slices: str = _sessions(1)

    @property
    def snssais(self) -> Tuple[nssai.Snssai, ...]:
        """Return the slices it supports."""
        return tuple(one.slice for one in nssai.parse("slices", self.slices, 1))


@attr.frozen
class Gnb(AccessNode):
    """5G base station with a simulated radio; UEs reach it by the network of `uu_interface`."""

    # OAI gives the gNB identity of the NG Setup 28 bits (TS 38.413 clause 9.3.1.6: 22 to 32).
    gnb_id: int = _number(0, 0xFFFFFFF)
    uu_interface: str = _text(fields.network_interface)


@attr.frozen
class Equipment(Common):
    """5G user equipment, with a simulated radio unless a subclass says more."""

    imsi: str = _text(values.imsi)
    sessions: str = _sessions(2)

    def check(self, at: At) -> None:
        values.imsi_of(at("imsi"), self.imsi, self.plmn)

    @property
    def requested(self) -> Tuple[nssai.Session, ...]:
        """Return the PDU sessions that it establishes."""
        return nssai.parse("sessions", self.sessions, 2)


@attr.frozen
class N3iwf(AccessNode):
    """Non-3GPP interworking function; UEs reach it by the network of `nwu_interface`."""

    # TS 38.413 clause 9.3.1.57: 16 bits. free5GC's N3IWF takes zero for a missing number.
    n3iwf_id: int = _number(1, 0xFFFF)
    nwu_interface: str = _text(fields.network_interface)
    # Prefix of inner addresses; the first is the N3IWF's, UEs get the others.
    inner_pool: str = _pool()
    # Seconds between two liveness checks of a UE; 0 for none.
    liveness_seconds: int = _number(0, 3600, 60)

    @property
    def inner(self) -> str:
        """Return its own inner address."""
        return str(values.pool("inner-pool", self.inner_pool)[1])


@attr.frozen
class N3ue(Equipment):
    """5G user equipment in an untrusted Wi-Fi, which is the network of `wifi_interface`."""

    wifi_interface: str = _text(fields.network_interface)

    def check(self, at: At) -> None:
        super().check(at)
        for one in self.requested:
            if one.slice.sst > 15:
                what = "slice {}: the UE's configuration has one digit for SST".format(one.slice)
                raise InputError(at("sessions"), what, "SST 1 to 15")


P = TypeVar("P", bound=Common)

_CLASSES: Dict[str, Type[Common]] = {
    "amf": Amf,
    "smf": Smf,
    "upf": Upf,
    "gnb": Gnb,
    "nr-ue": Equipment,
    "n3iwf": N3iwf,
    "n3ue": N3ue,
    "hss": Hss,
    "mme": Mme,
    "spgwc": SpgwC,
    "spgwu": SpgwU,
    "enb": Enb,
    "ue": Ue,
}
KINDS: Tuple[str, ...] = tuple(_CLASSES)
LEVELLED = ("mme", "spgwu", "enb", "ue", "amf", "smf", "upf", "gnb", "nr-ue", "n3iwf", "n3ue")
"""Network functions whose configuration has a log level; the others of OAI have one level only."""
WITH_SECRETS = ("hss", "ue", "amf", "nr-ue", "n3ue")
"""Network functions that need the keys."""


def parse(kind: str, given: Given, where: str = "configure-nf") -> Common:
    """Parse the parameters of `configure-nf` of one kind of network function, without secrets."""
    named = fields.Parameters(where, given)
    at, text = named.at, named.text
    parsed = {"plmn": values.plmn(at(""), text("mcc"), text("mnc"))}  # type: Dict[str, Any]
    for field in attr.fields(_CLASSES[kind]):
        if "parse" in field.metadata:
            name = field.name.replace("_", "-")
            parsed[field.name] = field.metadata["parse"](at(name), given.get(name, field.default))
    params = _CLASSES[kind](**parsed)
    params.check(at)
    return params


def completed(given: Given, stored: Optional[Common]) -> Dict[str, Any]:
    """Return the parameters of `configure-nf`; one that is not given keeps its value."""
    named = {name: value for name, value in given.items() if value not in (KEEP, -1)}
    return dict(to_given(stored) if stored is not None else {}, **named)


def parse_secrets(kind: str, given: Given) -> Optional[Secrets]:
    """Parse the keys of `configure-nf`.

    Returns:
        None if the VDU keeps those that it has, if a store has them, or if the kind needs none.
    """
    if kind not in WITH_SECRETS:
        return None
    named = fields.Parameters("configure-nf", given)
    keys = {named.at(name): named.text(name, KEEP) for name in SECRET_NAMES}
    for word, other in ((STORE, "comes from a store"), (KEEP, "stays as it is")):
        if word in keys.values():
            for where, key in keys.items():
                if key != word:
                    raise InputError(where, "the other key " + other, word + ", or both keys")
            return None
    return Secrets(*(values.key(where, key) for where, key in keys.items()))


def expect(kind: Type[P], params: Common) -> P:
    """Return the parameters as those of one kind; TypeError for another kind is a defect."""
    if not isinstance(params, kind):
        raise TypeError("{} is not {}".format(type(params).__name__, kind.__name__))
    return params


def resolved(params: P, seen: VduFacts) -> P:
    """Return parameters with the VDU's names of interfaces in place of the VNFD's."""
    names = (field.name for field in attr.fields(type(params)))
    return seen.resolved(params, *(name for name in names if name.endswith("_interface")))


def to_given(params: Common) -> Dict[str, Any]:
    """Return action parameters that `parse` reads back."""
    given: Dict[str, Any] = {}
    for name, value in attr.asdict(params, recurse=False).items():
        if name == "plmn":
            given["mcc"], given["mnc"] = params.plmn.mcc, params.plmn.mnc
        elif value or name != "realm":
            given[name.replace("_", "-")] = "none" if value == "" else value
    return given


def to_json(params: Common) -> str:
    """Return the document for the peer relation, which holds no secret."""
    return json.dumps({"version": VERSION, "nf": to_given(params)}, sort_keys=True)


def from_json(kind: str, text: str) -> Optional[Common]:
    """Read the document back; "" is a network function that is not configured yet."""
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
