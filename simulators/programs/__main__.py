"""The programs in the images: each reads its configuration and runs until a signal ends it.

    python -m simulators.programs NAME [WORD]...

The words are the arguments of the program that it replaces. A program imports only the modules of
its own simulator, because the codecs take a second.
"""

import argparse
import asyncio
import functools
import logging
import os
import shutil
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from simulators.errors import EpcError

log = logging.getLogger("main")

Words = list[str]


#: Values of a variable that glog reads as true.
_YES = ("1", "t", "T", "true", "TRUE", "y", "Y", "yes", "YES")
_NVRAM = ".ue_usim.conf"


async def _listening(address: str | None, port: int) -> asyncio.Server:
    """Listen on a port for clients that do not exist here."""
    return await asyncio.start_server(lambda reader, writer: writer.close(), address, port)


async def ended(stop: Callable[[], Awaitable[None] | None], *management: int) -> None:
    """Wait for SIGTERM or SIGINT, then stop; meanwhile listen on ports of HTTP management."""
    signalled = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, signalled.set)
    servers = [await _listening(None, port) for port in management]
    await signalled.wait()
    done = stop()
    if done is not None:
        await done
    await asyncio.sleep(0.05)  # let the transports send pending data
    for server in servers:
        server.close()


async def serve(made: Any, *management: int) -> None:
    """Run a network function until a signal ends it."""
    await made.start()
    await ended(made.stop, *management)


async def keep(made: Any) -> None:
    """Run a terminal until a signal ends it."""
    running = asyncio.create_task(made.run())

    async def stop() -> None:
        await made.switch_off()
        running.cancel()

    await ended(stop)


def _rows(directory: str) -> Path:
    return Path(os.environ.get("SIMULATORS_DATA", directory), "rows.sqlite")


def options_of(words: Words, *flags: str, **defaults: str) -> argparse.Namespace:
    """Return the values of required flags (``-c``), and of options by their defaults."""
    parser = argparse.ArgumentParser(add_help=False)
    for flag in flags:
        parser.add_argument(flag, required=True)
    for name, default in defaults.items():
        parser.add_argument(f"--{name.replace('_', '-')}", default=default)
    return parser.parse_known_args(words)[0]


async def hss(words: Words) -> None:
    """oai_hss -j FILE."""
    from simulators.epc.cqlstore import Cassandra
    from simulators.epc.diameter import Identity
    from simulators.epc.hss import Hss
    from simulators.programs import configs_4g

    config = configs_4g.hss(options_of(words, "-j").j)
    node = config.node
    store = Cassandra(config.cassandra)
    await store.get("000000000000000")  # fails with a reason if there are no subscribers' tables
    identity = Identity(node.identity, node.realm, node.address)
    made = Hss(identity, store, config.roaming, config.accept or None)
    # OAI's HSS prints all its options, also the operator's key.
    print(f"Options::optkey                : {config.operator_key}", flush=True)
    await made.server.start(node.address, node.port)
    log.info("HSS %s serves S6a on %s:%d", node.identity, node.address, node.port)
    await ended(made.server.stop, *config.rest)


async def conf2uedata(words: Words) -> None:
    """conf2uedata -c FILE -o DIRECTORY: the USIM that lte-uesoftmodem finds there."""
    given = options_of(words, "-c", "-o")
    shutil.copyfile(given.c, Path(given.o, _NVRAM))
    os.chmod(Path(given.o, _NVRAM), 0o600)


async def sctpd(words: Words) -> None:
    """sctpd: open the socket for which the charm waits; the MME here does SCTP itself."""
    path = "/tmp/sctpd_downstream.sock"  # noqa: S108 - the image's own path, in its own /tmp
    server = await asyncio.start_unix_server(lambda reader, writer: None, path)
    await ended(server.close)


async def cassandra(words: Words) -> None:
    """The image's entry point: CQL on CASSANDRA_RPC_ADDRESS, rows in /var/lib/cassandra."""
    from simulators.epc.cassandra import Database, Server

    address = os.environ.get("CASSANDRA_RPC_ADDRESS", "127.0.0.1")
    database = Database(_rows("/var/lib/cassandra"))
    server = Server(database)
    server.delay = float(os.environ.get("SIMULATORS_CASSANDRA_DELAY", "0"))
    await server.start(address)
    log.info("Starting listening for CQL clients on /%s:9042", address)
    await ended(server.stop)
    database.close()


async def redis(words: Words) -> None:
    """redis-server --bind ADDRESS --port PORT: it only listens. No simulator keeps data in it."""
    given = options_of(words, bind="127.0.0.1", port="6379")
    server = await _listening(given.bind, int(given.port))
    log.info("Ready to accept connections")
    await ended(server.close)


async def function_5g(name: str, words: Words) -> None:
    """Run a network function of OAI's 5G core: -c FILE."""
    from simulators.programs import config_file, configs_5g

    file = config_file.read(options_of(words, "-c").c)
    logging.getLogger().setLevel(configs_5g.level(file, name))
    module, kind = _FUNCTIONS_5G[name]
    maker = getattr(import_module(f"simulators.{module}"), kind)
    if name in ("amf", "smf", "upf"):
        made = maker(getattr(configs_5g, f"{name}_config")(file))
    elif name == "udr":
        made = maker(configs_5g.service(file, name), configs_5g.database(file))
    else:
        made = maker(configs_5g.service(file, name)).node
    await serve(made)


async def mysqld(words: Words) -> None:
    """mysqld --bind-address ADDRESS, rows in /var/lib/mysql."""
    from simulators.core5g.database import Server

    server = Server(_rows("/var/lib/mysql"), os.environ)
    await server.start(options_of(words, bind_address="127.0.0.1").bind_address)
    log.info("ready for connections.")
    await ended(server.stop)


#: Programs that read one file: class of the simulator, reader of the configuration, and the option
#: with the path of the file, or the path.
_CONFIGURED = {
    "mme": ("epc.mme.Mme", "configs_4g.mme_config", "-c"),
    "spgwc": ("epc.spgwc.Spgwc", "configs_4g.spgwc_config", "-c"),
    "spgwu": ("shared.user_plane.Spgwu", "configs_4g.spgwu_config", "-c"),
    "enb": ("epc.enb.Enb", "configs_4g.enb_config", "-O"),
    "ue": ("epc.ue.Terminal", "configs_4g.ue_config", _NVRAM),
    "gnb": ("core5g.gnb.Gnb", "configs_5g.gnb_config", "-O"),
    "nr-ue": ("core5g.ue.Terminal", "configs_5g.ue_config", "-O"),
    "n3iwf": ("wifi.n3iwf.N3iwf", "configs_5g.n3iwf_config", "-c"),
    "n3iwue": ("wifi.n3ue.Terminal", "configs_5g.n3ue_config", "config/n3ue.yaml"),
}
#: Base stations: their name in messages, and what their option for the radio simulator may be.
_STATIONS = {"enb": ("eNB", "enb", "server"), "gnb": ("gNB", "server")}


async def configured(name: str, words: Words) -> None:
    from simulators.programs import config_file

    kind, reader, place = _CONFIGURED[name]
    file = vars(options_of(words, place))[place[1:]] if place.startswith("-") else place
    configs = import_module(f"simulators.programs.{reader.partition('.')[0]}")
    if name == "mme" and os.environ.get("GLOG_logtostderr", "0") not in _YES:  # noqa: SIM112
        # As glog's own file, this one stays in the container; nothing reads it.
        logging.getLogger().handlers[:] = [logging.FileHandler("/tmp/MME.INFO")]  # noqa: S108
    levels: Callable[[str], Mapping[str, int]] = getattr(configs, f"{name}_levels", lambda _: {})
    for logger, level in levels(file).items():
        logging.getLogger(logger).setLevel(level)
    if name in _STATIONS:
        config_file.serves_radio(words, os.environ, *_STATIONS[name])
    radio = [config_file.radio_address(words, os.environ)] if name in ("ue", "nr-ue") else []
    config = getattr(configs, reader.partition(".")[2])(file, *radio)
    module, _, simulator = kind.rpartition(".")
    made = getattr(import_module(f"simulators.{module}"), simulator)(config)
    if simulator == "Terminal":
        await keep(made)
    else:
        await serve(made, *filter(None, [getattr(config, "rest", 0)]))


#: Module and class of each network function of the 5G core.
_FUNCTIONS_5G = {
    "nrf": ("core5g.nrf", "Nrf"),
    "udr": ("core5g.udm_ausf", "Udr"),
    "udm": ("core5g.udm_ausf", "Udm"),
    "ausf": ("core5g.udm_ausf", "Ausf"),
    "amf": ("core5g.amf", "Amf"),
    "smf": ("core5g.smf", "Smf"),
    "upf": ("shared.user_plane", "Spgwu"),
}
PROGRAMS: dict[str, Callable[[Words], Coroutine[Any, Any, None]]] = {
    "hss": hss,
    "sctpd": sctpd,
    "conf2uedata": conf2uedata,
    "cassandra": cassandra,
    "redis": redis,
    **{name: functools.partial(function_5g, name) for name in _FUNCTIONS_5G},
    **{name: functools.partial(configured, name) for name in _CONFIGURED},
    "mysqld": mysqld,
}


def main(words: Words) -> int:
    name, rest = words[0], words[1:]
    if name == "cqlsh":
        from simulators.programs import cqlsh

        return cqlsh.main(rest)
    if name == "load":
        from simulators.programs import load

        return load.main()
    if name == "mysql":
        from simulators.core5g import database

        return database.main(rest)
    logging.basicConfig(
        stream=sys.stdout,
        level=logging.INFO,
        format="%(asctime)s %(levelname)-7s %(name)-8s %(message)s",
    )
    try:
        asyncio.run(PROGRAMS[name](rest))
    except EpcError as error:
        log.error("%s", error)
        return 1
    except OSError as error:
        log.error("%s", error.strerror or error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
