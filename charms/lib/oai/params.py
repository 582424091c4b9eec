"""Typed parameters of each network function, parsed from `configure-nf`.

They are stored without the secrets. The keys of the operator and of the subscribers are in a file
on the VDU (`SECRETS_FILE`) and nowhere else, so the operator must give them again to a rebuilt VDU.
"""

import json
from typing import Any, Iterable, Mapping, Optional, Tuple, Type, TypeVar

import attr
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from vpnaas.base import fields
from vpnaas.base.declared import (
    At,
    Declared,
    choice_field,
    number_field,
    optional_field,
    text_field,
    value_field,
)
from vpnaas.base.errors import MALFORMED, InputError
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


def pool_field() -> Any:
    return text_field(lambda where, text: str(values.pool(where, text)))


def sessions_field(parts: int) -> Any:
    """Return a field of slices, each of so many parts (`nssai.parse`)."""
    return text_field(lambda where, text: nssai.text(nssai.parse(where, text, parts)))


@attr.frozen
class Common(Declared):
    """Parameters of every network function."""

    action = "configure-nf"
    plmn: Plmn  # Network it belongs to.
    realm: str = ""  # Diameter realm, also the domain of names; "" in 5GS, which has none.
    # "oai", or "none" for a machine with links only.
    software: str = choice_field(("oai", NONE))
    # Registry of the container images.
    image_prefix: str = text_field(values.image_prefix, DEFAULT_PREFIX)
    # Tags or digests that replace the charm's own, as text.
    image_pins: str = optional_field(values.image_pins, words=fields.AUTO + fields.NOTHING)
    log_level: str = choice_field(("error", "warning", "info", "debug"), "info")

    @property
    def served(self) -> Tuple[nssai.Session, ...]:
        """Return the slices that it has, with their DNNs if it knows them; none in EPS."""
        return ()

    @property
    def registry(self) -> Registry:
        return Registry(self.image_prefix, values.pins("image-pins", self.image_pins))


@attr.frozen
class Eps(Common):
    """Parameters of every network function of EPS."""

    realm: str = text_field(values.realm)

    def gateway_name(self, number: int) -> str:
        """Return the name of a user plane, by which the control plane chooses it (TS 29.303)."""
        form = "gw{}.spgw.node.epc.mnc{}.mcc{}.{}"
        return form.format(number, self.plmn.mnc3, self.plmn.mcc, self.realm)


def check_range(network: Plmn, first: str, count: int, at: At) -> None:
    values.imsi_of(at("first-imsi"), first, network)
    last = int(first) + max(count - 1, 0)
    if str(last).zfill(15)[: len(str(network))] != str(network):
        raise InputError(
            at("subscribers"), "{} from {} leave the network".format(count, first), "fewer"
        )


def check_device(device: str, interface: str, at: At) -> None:
    """Check the device of a user plane, whose packets the firewall keeps from all but UEs."""
    if device in (interface, "lo"):
        text = "{} is no device of UEs".format(device)
        raise InputError(at("tun-device"), text, "the device that the image makes")


def check_servers(servers: Iterable[str], ue_pool: str, at: At) -> None:
    """Check the DNS servers of UEs; packets to an address of the pool go to a UE."""
    pool = values.pool(at("ue-pool"), ue_pool)
    for name, server in zip(("dns", "second-dns"), servers):
        if fields.address(at(name), server) in pool:
            what = "{} is an address of UEs".format(server)
            raise InputError(at(name), what, "one outside ue-pool {}".format(pool))


@attr.frozen
class WithApns(Eps):
    """Access point names, which differ."""

    apn: str = text_field(values.apn)
    second_apn: str = optional_field(values.apn, words=fields.AUTO + fields.NOTHING)

    def check(self, at: At) -> None:
        if self.second_apn == self.apn:
            raise InputError(at("second-apn"), "{} is apn".format(self.apn), "another, or none")


@attr.frozen
class Cell(Eps):
    """One end of a simulated radio."""

    # Band 7, the band OAI's radio simulator is used with (TS 36.101 table 5.5-1).
    downlink_mhz: int = number_field(2620, 2690, 2680)
    resource_blocks: int = value_field(values.resource_blocks, 25)


@attr.frozen
class SliceOfDnn(Common):
    """A network function of one slice."""

    slice: str = text_field(lambda where, text: str(nssai.snssai(where, text)))
    dnn: str = text_field(values.apn)
    ue_pool: str = pool_field()

    @property
    def snssai(self) -> nssai.Snssai:
        return nssai.snssai("slice", self.slice)

    @property
    def served(self) -> Tuple[nssai.Session, ...]:
        return (nssai.Session(self.snssai, self.dnn),)


@attr.frozen
class AccessNode(Common):
    """A node that gives UEs access to a 5G core by N2 and N3 (TS 23.501 clause 4.2.8.2)."""

    tac: int = value_field(values.tac_5g)
    slices: str = sessions_field(1)

    @property
    def snssais(self) -> Tuple[nssai.Snssai, ...]:
        return tuple(one.slice for one in self.served)

    @property
    def served(self) -> Tuple[nssai.Session, ...]:
        return nssai.parse("slices", self.slices, 1)


@attr.frozen
class Equipment(Common):
    """5G user equipment, with a simulated radio unless a subclass says more."""

    imsi: str = text_field(values.imsi)
    sessions: str = sessions_field(2)

    def check(self, at: At) -> None:
        values.imsi_of(at("imsi"), self.imsi, self.plmn)

    @property
    def requested(self) -> Tuple[nssai.Session, ...]:
        """Return the PDU sessions that it establishes."""
        return nssai.parse("sessions", self.sessions, 2)

    @property
    def served(self) -> Tuple[nssai.Session, ...]:
        return self.requested


P = TypeVar("P", bound=Common)


def expect(kind: Type[P], params: Common) -> P:
    """Return the parameters as those of one kind; TypeError for another kind is a defect."""
    if not isinstance(params, kind):
        raise TypeError("{} is not {}".format(type(params).__name__, kind.__name__))
    return params


def resolved(params: P, seen: VduFacts) -> P:
    """Return parameters with the VDU's names of interfaces in place of the VNFD's."""
    names = (field.name for field in attr.fields(type(params)))
    return seen.resolved(params, *(name for name in names if name.endswith("_interface")))
