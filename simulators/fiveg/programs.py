"""The programs in the 5G images: OAI's network functions, gNB and UE, and free5GC's programs."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from simulators.errors import EpcError
from simulators.files import radio_server
from simulators.programs import file_of, keep, serve, until_signalled

log = logging.getLogger("main")

Program = Callable[[list[str]], Awaitable[None]]


async def function(name: str, words: list[str]) -> None:
    """Run a network function of the core."""
    from simulators.fiveg import configs

    file = configs.core(file_of(words, "-c"))
    logging.getLogger().setLevel(configs.level(file, name))
    made: Any
    if name == "upf":
        from simulators.spgwu import Spgwu

        made = Spgwu(configs.upf_config(file))
    elif name == "amf":
        from simulators.fiveg.amf import Amf

        made = Amf(configs.amf_config(file))
    elif name == "smf":
        from simulators.fiveg.smf import Smf

        made = Smf(configs.smf_config(file))
    elif name == "nrf":
        from simulators.fiveg.nrf import Nrf

        made = Nrf(configs.service(file, name)).node
    else:
        from simulators.fiveg.home import Ausf, Udm, Udr

        service = configs.service(file, name)
        if name == "udr":
            made = Udr(service, configs.database(file))
        else:
            made = Udm(service).node if name == "udm" else Ausf(service).node
    await serve(made)


async def gnb(words: list[str]) -> None:
    """nr-softmodem -O FILE --rfsim."""
    from simulators.fiveg import configs
    from simulators.fiveg.gnb import Gnb

    role = radio_server(words, os.environ)
    if role != "server":
        raise EpcError(f"The radio simulator's server is '{role}', not this gNB.")
    made = Gnb(configs.gnb_config(file_of(words, "-O")))
    await serve(made)


async def ue(words: list[str]) -> None:
    """nr-uesoftmodem -O FILE --rfsim."""
    from simulators.fiveg import configs
    from simulators.fiveg.ue import Terminal

    await keep(Terminal(configs.ue_config(file_of(words, "-O"), radio_server(words, os.environ))))


async def n3iwf(words: list[str]) -> None:
    """n3iwf -c FILE."""
    from simulators.fiveg import configs
    from simulators.fiveg.n3iwf import N3iwf

    made = N3iwf(configs.n3iwf_config(file_of(words, "-c")))
    await serve(made)


async def n3iwue(words: list[str]) -> None:
    """n3iwue, with the file config/n3ue.yaml."""
    from simulators.fiveg import configs
    from simulators.fiveg.n3ue import Terminal

    await keep(Terminal(configs.n3ue_config("config/n3ue.yaml")))


async def mysqld(words: list[str]) -> None:
    """mysqld --bind-address ADDRESS, rows in /var/lib/mysql."""
    from simulators.fiveg.database import Server

    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--bind-address", dest="address", default="127.0.0.1")
    options, _ = parser.parse_known_args(words)
    directory = Path(os.environ.get("SIMULATORS_DATA", "/var/lib/mysql"))
    server = Server(directory / "rows.sqlite", os.environ)
    await server.start(options.address)
    log.info("ready for connections.")
    await until_signalled(server.stop)


def _function(name: str) -> Program:
    return lambda words: function(name, words)


PROGRAMS: dict[str, Program] = {
    **{name: _function(name) for name in ("nrf", "udr", "udm", "ausf", "amf", "smf", "upf")},
    "gnb": gnb,
    "nr-ue": ue,
    "n3iwf": n3iwf,
    "n3iwue": n3iwue,
    "mysqld": mysqld,
}
