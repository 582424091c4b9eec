"""The programs in the 5G images: OAI's network functions, gNB and UE, and free5GC's programs."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from simulators.errors import EpcError
from simulators.programs.config_file import radio_server
from simulators.programs.serving import file_of, keep, serve, until_signalled

log = logging.getLogger("main")

Program = Callable[[list[str]], Awaitable[None]]


async def function(name: str, words: list[str]) -> None:
    """Run a network function of the core."""
    from simulators.programs import configs_5g

    file = configs_5g.core(file_of(words, "-c"))
    logging.getLogger().setLevel(configs_5g.level(file, name))
    made: Any
    if name == "upf":
        from simulators.shared.user_plane import Spgwu

        made = Spgwu(configs_5g.upf_config(file))
    elif name == "amf":
        from simulators.core5g.amf import Amf

        made = Amf(configs_5g.amf_config(file))
    elif name == "smf":
        from simulators.core5g.smf import Smf

        made = Smf(configs_5g.smf_config(file))
    elif name == "nrf":
        from simulators.core5g.nrf import Nrf

        made = Nrf(configs_5g.service(file, name)).node
    else:
        from simulators.core5g.udm_ausf import Ausf, Udm, Udr

        service = configs_5g.service(file, name)
        if name == "udr":
            made = Udr(service, configs_5g.database(file))
        else:
            made = Udm(service).node if name == "udm" else Ausf(service).node
    await serve(made)


async def gnb(words: list[str]) -> None:
    """nr-softmodem -O FILE --rfsim."""
    from simulators.core5g.gnb import Gnb
    from simulators.programs import configs_5g

    role = radio_server(words, os.environ)
    if role != "server":
        raise EpcError(f"The radio simulator's server is '{role}', not this gNB.")
    made = Gnb(configs_5g.gnb_config(file_of(words, "-O")))
    await serve(made)


async def ue(words: list[str]) -> None:
    """nr-uesoftmodem -O FILE --rfsim."""
    from simulators.core5g.ue import Terminal
    from simulators.programs import configs_5g

    await keep(
        Terminal(configs_5g.ue_config(file_of(words, "-O"), radio_server(words, os.environ)))
    )


async def n3iwf(words: list[str]) -> None:
    """n3iwf -c FILE."""
    from simulators.programs import configs_5g
    from simulators.wifi.n3iwf import N3iwf

    made = N3iwf(configs_5g.n3iwf_config(file_of(words, "-c")))
    await serve(made)


async def n3iwue(words: list[str]) -> None:
    """n3iwue, with the file config/n3ue.yaml."""
    from simulators.programs import configs_5g
    from simulators.wifi.n3ue import Terminal

    await keep(Terminal(configs_5g.n3ue_config("config/n3ue.yaml")))


async def mysqld(words: list[str]) -> None:
    """mysqld --bind-address ADDRESS, rows in /var/lib/mysql."""
    from simulators.core5g.database import Server

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
