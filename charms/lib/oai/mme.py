"""Mobility Management Entity: Magma's MME with its SCTP process and Redis, as OAI runs it."""

from typing import Any

import attr
from vpnaas.base.declared import number_field, text_field, value_field
from vpnaas.vdu.programs import source

from . import diameter, hss, values
from .function import Function
from .logs import SILENCE
from .model import TLS, Check, Container, Ends, File, Software, conf, filled
from .params import Eps

ETC = "/magma-mme/etc"
START = "/magma-mme/scripts/start-mme.sh"
STARTED = "MME app initialization complete"
"""Log line of Magma's MME when all its tasks run, at level DEBUG of MME_APP."""


@attr.frozen
class Mme(Eps):
    """Mobility Management Entity; group and code make its GUMMEI (TS 23.003 clause 2.8.1).

    Its name and the realm make its Diameter identity, by which an HSS distinguishes several MMEs.
    """

    tac: int = value_field(values.tac)
    mme_group: int = number_field(0, 65535)
    mme_code: int = number_field(0, 255)
    mme_name: str = text_field(values.host_name, "mme")


def identity(params: Mme) -> str:
    """Return the Diameter identity of an MME."""
    return "{}.{}".format(params.mme_name, params.realm)


def configuration(params: Mme, ends: Ends) -> str:
    return filled(
        "mme.conf",
        params=params,
        ends=ends,
        hss=hss.identity(params.realm),
        level=params.log_level.upper(),
    )


def software(params: Mme, ends: Ends, **_: Any) -> Software:
    server = ends["s6a"].peer
    fd = diameter.configuration(
        identity(params),
        params.realm,
        ends["s6a"].ip,
        (diameter.MME_PORT, 5870),
        ETC + "/tls",
        peers=[(hss.identity(params.realm), server)],
    )
    return Software(
        containers=(
            Container(
                "redis",
                words=("redis-server", "--bind", "127.0.0.1", "--port", "6380"),
                privileged=False,
            ),
            Container(
                "mme",
                words=(START,),
                volumes=(
                    (conf("mme.conf"), ETC + "/mme.conf"),
                    (conf("mme_fd.conf"), ETC + "/mme_fd.conf"),
                    (TLS, ETC + "/tls"),
                    (conf("start-mme.sh"), START),
                ),
                # Else glog writes to a file in the container.
                environment=(("FEATURES", "mme_oai"), ("GLOG_logtostderr", "1")),
                entrypoint="/bin/bash",
                after=("redis",),
            ),
        ),
        files=(
            File(conf("mme.conf"), configuration(params, ends)),
            File(conf("mme_fd.conf"), fd),
            File(conf("start-mme.sh"), source("start_mme.sh", "oai"), 0o755),
        ),
        checks=(
            Check(
                "connected",
                "no S6a connection to the HSS at {}".format(server),
                address=server,
                port=diameter.PORT,
            ),
            Check("udp", "the MME does not listen on S11 yet", address=ends["s11"].ip, port=2123),
            Check(
                "log",
                "the MME's tasks do not run yet, or hang",
                unit="mme",
                pattern=STARTED,
                silence=SILENCE,
            ),
        ),
        common_name=identity(params),
    )


FUNCTION = Function("mme", Mme, software, containers=("redis", "mme"))
