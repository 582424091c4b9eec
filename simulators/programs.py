"""The programs in the images: each reads its configuration and runs until a signal ends it.

    python -m simulators.programs NAME [WORD]...

The words are the arguments of the program that it replaces.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import shutil
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from simulators.errors import EpcError

log = logging.getLogger("main")


async def until_signalled(stop: Callable[[], Awaitable[None] | None]) -> None:
    """Wait for SIGTERM or SIGINT, then stop."""
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    await ended.wait()
    done = stop()
    if done is not None:
        await done
    await asyncio.sleep(0.05)  # let the transports send pending data


async def serve(made: Any) -> None:
    """Run a network function until a signal ends it."""
    await made.start()
    await until_signalled(made.stop)


def file_of(words: list[str], flag: str) -> str:
    """Return the file after a flag in the arguments."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument(flag, dest="file", required=True)
    return str(parser.parse_known_args(words)[0].file)


async def hss(words: list[str]) -> None:
    """oai_hss -j FILE."""
    from simulators import configs
    from simulators.cqlstore import Cassandra
    from simulators.diameter import Identity
    from simulators.hss import Hss

    config = configs.hss(file_of(words, "-j"))
    node = config.node
    store = Cassandra(config.cassandra)
    await store.get("000000000000000")  # fails with a reason if there are no subscribers' tables
    identity = Identity(node.identity, node.realm, node.address)
    made = Hss(identity, store, config.roaming, config.accept or None)
    # OAI's HSS prints all its options, also the operator's key.
    print(f"Options::optkey                : {config.operator_key}", flush=True)
    management = [await _management(port) for port in config.rest]
    await made.server.start(node.address, node.port)
    log.info("HSS %s serves S6a on %s:%d", node.identity, node.address, node.port)
    await until_signalled(made.server.stop)
    for one in management:
        one.close()


async def _management(port: int) -> asyncio.Server:
    """Open the management port for HTTP on every address; no client uses it here."""
    return await asyncio.start_server(lambda reader, writer: writer.close(), None, port)


def _levels(levels: Mapping[str, int]) -> None:
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


#: Values of a variable that glog reads as true.
_YES = ("1", "t", "T", "true", "TRUE", "y", "Y", "yes", "YES")


async def mme(words: list[str]) -> None:
    """oai_mme -c FILE."""
    from simulators import configs
    from simulators.mme import Mme

    file = file_of(words, "-c")
    if os.environ.get("GLOG_logtostderr", "0") not in _YES:  # noqa: SIM112 - its name
        # As glog's own file, this one stays in the container; nothing reads it.
        logging.getLogger().handlers[:] = [logging.FileHandler("/tmp/MME.INFO")]  # noqa: S108
    _levels(configs.mme_levels(file))
    made = Mme(configs.mme_config(file))
    await serve(made)


async def spgwc(words: list[str]) -> None:
    """oai_spgwc -c FILE -o."""
    from simulators import configs
    from simulators.spgwc import Spgwc

    config = configs.spgwc_config(file_of(words, "-c"))
    made = Spgwc(config)
    await made.start()
    management = await _management(config.rest) if config.rest else None
    await until_signalled(made.stop)
    if management is not None:
        management.close()


async def spgwu(words: list[str]) -> None:
    """oai_spgwu -c FILE -o."""
    from simulators import configs
    from simulators.spgwu import Spgwu

    file = file_of(words, "-c")
    logging.getLogger().setLevel(configs.spgwu_level(file))
    made = Spgwu(configs.spgwu_config(file))
    await serve(made)


async def enb(words: list[str]) -> None:
    """lte-softmodem -O FILE --rfsim."""
    from simulators import configs, files
    from simulators.enb import Enb

    file = file_of(words, "-O")
    _levels(configs.enb_levels(file))
    role = files.radio_server(words, os.environ)
    if role not in ("enb", "server"):
        raise EpcError(f"The radio simulator's server is '{role}', not this eNB.")
    made = Enb(configs.enb_config(file))
    await serve(made)


_NVRAM = ".ue_usim.conf"


async def conf2uedata(words: list[str]) -> None:
    """conf2uedata -c FILE -o DIRECTORY: the USIM that lte-uesoftmodem finds there."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("-c", dest="file", required=True)
    parser.add_argument("-o", dest="directory", required=True)
    given, _ = parser.parse_known_args(words)
    shutil.copyfile(given.file, Path(given.directory, _NVRAM))
    os.chmod(Path(given.directory, _NVRAM), 0o600)


async def ue(words: list[str]) -> None:
    """lte-uesoftmodem --rfsim ..., with the USIM in the working directory."""
    from simulators import configs, files
    from simulators.ue import Terminal

    await keep(Terminal(configs.ue_config(_NVRAM, files.radio_server(words, os.environ))))


async def keep(made: Any) -> None:
    """Run a terminal until a signal ends it."""
    running = asyncio.create_task(made.run())

    async def stop() -> None:
        await made.switch_off()
        running.cancel()

    await until_signalled(stop)


async def sctpd(words: list[str]) -> None:
    """sctpd: open the socket for which the charm waits; the MME here does SCTP itself."""
    path = "/tmp/sctpd_downstream.sock"  # noqa: S108 - the image's own path, in its own /tmp
    server = await asyncio.start_unix_server(lambda reader, writer: None, path)
    await until_signalled(server.close)


async def cassandra(words: list[str]) -> None:
    """The image's entry point: CQL on CASSANDRA_RPC_ADDRESS, rows in /var/lib/cassandra."""
    from simulators.cassandra import Database, Server

    address = os.environ.get("CASSANDRA_RPC_ADDRESS", "127.0.0.1")
    database = Database(
        Path(os.environ.get("SIMULATORS_DATA", "/var/lib/cassandra"), "rows.sqlite")
    )
    server = Server(database)
    server.delay = float(os.environ.get("SIMULATORS_CASSANDRA_DELAY", "0"))
    await server.start(address)
    log.info("Starting listening for CQL clients on /%s:9042", address)
    await until_signalled(server.stop)
    database.close()


async def redis(words: list[str]) -> None:
    """redis-server --bind ADDRESS --port PORT: it only listens. No simulator keeps data in it."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--bind", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=6379)
    given, _ = parser.parse_known_args(words)
    server = await asyncio.start_server(
        lambda reader, writer: writer.close(), given.bind, given.port
    )
    log.info("Ready to accept connections")
    await until_signalled(server.close)


PROGRAMS: dict[str, Callable[[list[str]], Awaitable[None]]] = {
    "hss": hss,
    "mme": mme,
    "sctpd": sctpd,
    "spgwc": spgwc,
    "spgwu": spgwu,
    "enb": enb,
    "ue": ue,
    "conf2uedata": conf2uedata,
    "cassandra": cassandra,
    "redis": redis,
}


def main(words: list[str]) -> int:
    """Run a program; return its exit code."""
    name, rest = words[0], words[1:]
    if name == "cqlsh":
        from simulators import cqlsh

        return cqlsh.main(rest)
    if name == "load":
        from simulators import load

        return load.main()
    if name == "mysql":
        from simulators.fiveg import database

        return database.main(rest)
    logging.basicConfig(
        stream=sys.stdout,
        level=logging.INFO,
        format="%(asctime)s %(levelname)-7s %(name)-8s %(message)s",
    )
    program = PROGRAMS.get(name)
    if program is None:
        from simulators.fiveg import programs

        program = programs.PROGRAMS[name]
    try:
        asyncio.run(program(rest))  # type: ignore[arg-type]
    except EpcError as error:
        log.error("%s", error)
        return 1
    except OSError as error:
        log.error("%s", error.strerror or error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
