"""Home Subscriber Server: Cassandra, its rows, and OAI's HSS (release 14)."""

import json
from typing import Any, Dict

import attr
from vpnaas.base.declared import At, number_field, text_field
from vpnaas.base.errors import InputError
from vpnaas.vdu.programs import source

from . import diameter, fill, provision, values
from .function import Function
from .model import (
    FILL,
    LIBRARY,
    TLS,
    Check,
    Container,
    Ends,
    File,
    Software,
    closed_ports,
    conf,
    filled,
)
from .params import MAX_SUBSCRIBERS, Secrets, WithApns, check_range

ETC = "/openair-hss/etc"
STATEMENTS = LIBRARY + "/provision.py"
SCHEMA = LIBRARY + "/" + provision.SCHEMA
PROVISION_FILE = conf("provision.json")
DATA = "/var/lib/osm-vpnaas/cassandra"
MME_ID = 3
REST_PORTS = (9080, 9081, 9082)
"""HTTP management ports that OAI's HSS opens on every address."""


@attr.frozen
class Hss(WithApns):
    """Home Subscriber Server (TS 29.272), with the range of subscribers it starts with."""

    first_imsi: str = text_field(values.imsi)
    first_msisdn: str = text_field(values.msisdn)
    subscribers: int = number_field(0, MAX_SUBSCRIBERS)
    mme_names: str = text_field(values.host_names, "mme")

    def check(self, at: At) -> None:
        super().check(at)
        check_range(self.plmn, self.first_imsi, self.subscribers, at)
        if len(str(int(self.first_msisdn) + max(self.subscribers - 1, 0))) > 15:
            form = "{} from {} have more than 15 digits"
            what = form.format(self.subscribers, self.first_msisdn)
            raise InputError(at("first-msisdn"), what, "a smaller number, or fewer subscribers")


def identity(realm: str) -> str:
    """Return the Diameter identity of the HSS of a realm."""
    return "hss." + realm


def subscription(params: Hss, keys: Secrets) -> Dict[str, Any]:
    """Return the data that all subscribers of this HSS share, in the form of `provision`."""
    return {
        "key": keys.subscriber_key,
        "opc": keys.opc,
        "mmes": ["{}.{}".format(name, params.realm) for name in params.mme_names.split(",")],
        "mme_id": MME_ID,
        "realm": params.realm,
        "apns": [name for name in (params.apn, params.second_apn) if name],
    }


def software(params: Hss, ends: Ends, keys: Secrets, **_: Any) -> Software:
    address = ends["s6a"].ip
    gateway_port, rest_port, oss_port = REST_PORTS
    document = filled(
        "hss_rel14.json",
        gateway_port=gateway_port,
        rest_port=rest_port,
        oss_port=oss_port,
        keys=keys,
    )
    rows = {
        "first_imsi": params.first_imsi,
        "first_msisdn": params.first_msisdn,
        "subscribers": params.subscribers,
        "subscription": subscription(params, keys),
    }
    fd = diameter.configuration(
        identity(params.realm),
        params.realm,
        address,
        (diameter.PORT, 5868),
        ETC + "/tls",
        acl=ETC + "/acl.conf",
    )
    mounted = ("hss_rel14.json", "hss_rel14_fd.conf", "acl.conf")
    return Software(
        containers=(
            Container(
                "cassandra",
                volumes=((DATA, "/var/lib/cassandra"),),
                environment=(
                    ("CASSANDRA_CLUSTER_NAME", "vhss"),
                    ("CASSANDRA_DC", "DC1"),
                    ("CASSANDRA_RACK", "RAC1"),
                    ("CASSANDRA_ENDPOINT_SNITCH", "GossipingPropertyFileSnitch"),
                    ("CASSANDRA_LISTEN_ADDRESS", "127.0.0.1"),
                    ("CASSANDRA_BROADCAST_ADDRESS", "127.0.0.1"),
                    ("CASSANDRA_RPC_ADDRESS", "127.0.0.1"),
                    ("CASSANDRA_SEEDS", "127.0.0.1"),
                    # Else the Java heap takes a quarter of the VDU's memory.
                    ("MAX_HEAP_SIZE", "1G"),
                    ("HEAP_NEWSIZE", "200M"),
                ),
                privileged=False,
            ),
            Container(
                "hss",
                words=("-j", ETC + "/hss_rel14.json"),
                volumes=tuple((conf(name), "{}/{}".format(ETC, name)) for name in mounted)
                + ((TLS, ETC + "/tls"), ("/var/log/osm-vpnaas/hss", "/openair-hss/logs")),
                entrypoint="/openair-hss/bin/oai_hss",
                workdir="/openair-hss",
                after=("cassandra",),
                before_start=(FILL, STATEMENTS, PROVISION_FILE, DATA),
                # Cassandra takes some 30 ms for a subscriber.
                start_seconds=fill.DEADLINE + 60 + params.subscribers // 10,
            ),
        ),
        files=(
            File(conf("hss_rel14.json"), document),
            File(conf("hss_rel14_fd.conf"), fd),
            File(conf("acl.conf"), "ALLOW_OLD_TLS   *.{}\n".format(params.realm)),
            File(PROVISION_FILE, json.dumps(rows, indent=1, sort_keys=True) + "\n"),
            File(FILL, source("fill.py", "oai"), 0o755),
            File(STATEMENTS, source("provision.py", "oai")),
            File(SCHEMA, source(provision.SCHEMA, "oai")),
        ),
        checks=(
            Check(
                "tcp",
                "the HSS does not listen on {} port {} yet".format(address, diameter.PORT),
                address=address,
                port=diameter.PORT,
            ),
        ),
        common_name=identity(params.realm),
        rules=closed_ports(REST_PORTS),
    )


FUNCTION = Function(
    "hss", Hss, software, containers=("cassandra", "hss"), secrets=True, levelled=False
)
