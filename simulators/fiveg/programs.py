"""The programs in the 5G images: ``oai_NF -c FILE -o``, ``nr-softmodem``, ``nr-uesoftmodem``."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from simulators.configs import radio_server
from simulators.errors import EpcError
from simulators.programs import file_of, until_told

log = logging.getLogger("main")

Program = Callable[[list[str]], Awaitable[None]]


async def function(name: str, words: list[str]) -> None:
    """A network function of the core."""
    from simulators.fiveg import amf, configs, home, nrf, smf
    from simulators.spgwu import Spgwu

    file = configs.core(file_of(words, "-c"))
    logging.getLogger().setLevel(configs.level(file, name))
    if name == "upf":
        upf = Spgwu(configs.upf_config(file))
        await upf.start()
        await until_told(upf.stop)
        return
    if name == "amf":
        one: amf.Amf | smf.Smf = amf.Amf(configs.amf_config(file))
        await one.start()
        await until_told(one.stop)
        return
    if name == "smf":
        one = smf.Smf(configs.smf_config(file))
        await one.start()
        await until_told(one.stop)
        return
    service = configs.service(file, name)
    if name == "udr":
        udr = home.Udr(service, configs.database(file))
        await udr.start()
        node = udr.node
    else:
        kinds: dict[str, Any] = {"nrf": nrf.Nrf, "udm": home.Udm, "ausf": home.Ausf}
        node = kinds[name](service).node
        await node.start()
    await until_told(node.stop)


async def gnb(words: list[str]) -> None:
    """nr-softmodem -O FILE --rfsim."""
    from simulators.fiveg import configs
    from simulators.fiveg.gnb import Gnb

    role = radio_server(words, os.environ)
    if role != "server":
        raise EpcError(f"The radio simulator's server is '{role}', not this gNB.")
    made = Gnb(configs.gnb_config(file_of(words, "-O")))
    await made.start()
    await until_told(made.stop)


async def ue(words: list[str]) -> None:
    """nr-uesoftmodem -O FILE --rfsim."""
    from simulators.fiveg import configs
    from simulators.fiveg.ue import Terminal

    config = configs.ue_config(file_of(words, "-O"), radio_server(words, os.environ))
    made = Terminal(config)
    running = asyncio.create_task(made.run())

    async def stop() -> None:
        await made.switch_off()
        running.cancel()

    await until_told(stop)


async def mysqld(words: list[str]) -> None:
    """mysqld --bind-address ADDRESS, rows in /var/lib/mysql."""
    from simulators.fiveg.database import Server

    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--bind-address", dest="address", default="127.0.0.1")
    found, _ = parser.parse_known_args(words)
    directory = Path(os.environ.get("SIMULATORS_DATA", "/var/lib/mysql"))
    server = Server(directory / "rows.sqlite", os.environ)
    await server.start(found.address)
    log.info("ready for connections.")
    await until_told(server.stop)


def _function(name: str) -> Program:
    return lambda words: function(name, words)


PROGRAMS: dict[str, Program] = {
    **{name: _function(name) for name in ("nrf", "udr", "udm", "ausf", "amf", "smf", "upf")},
    "gnb": gnb,
    "nr-ue": ue,
    "mysqld": mysqld,
}
