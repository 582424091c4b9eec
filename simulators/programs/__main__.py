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
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from simulators.errors import EpcError
from simulators.programs.serving import file_of, keep, serve, until_signalled

log = logging.getLogger("main")


async def hss(words: list[str]) -> None:
    """oai_hss -j FILE."""
    from simulators.epc.cqlstore import Cassandra
    from simulators.epc.diameter import Identity
    from simulators.epc.hss import Hss
    from simulators.programs import configs_4g

    config = configs_4g.hss(file_of(words, "-j"))
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
    from simulators.epc.mme import Mme
    from simulators.programs import configs_4g

    file = file_of(words, "-c")
    if os.environ.get("GLOG_logtostderr", "0") not in _YES:  # noqa: SIM112 - its name
        # As glog's own file, this one stays in the container; nothing reads it.
        logging.getLogger().handlers[:] = [logging.FileHandler("/tmp/MME.INFO")]  # noqa: S108
    _levels(configs_4g.mme_levels(file))
    made = Mme(configs_4g.mme_config(file))
    await serve(made)


async def spgwc(words: list[str]) -> None:
    """oai_spgwc -c FILE -o."""
    from simulators.epc.spgwc import Spgwc
    from simulators.programs import configs_4g

    config = configs_4g.spgwc_config(file_of(words, "-c"))
    made = Spgwc(config)
    await made.start()
    management = await _management(config.rest) if config.rest else None
    await until_signalled(made.stop)
    if management is not None:
        management.close()


async def spgwu(words: list[str]) -> None:
    """oai_spgwu -c FILE -o."""
    from simulators.programs import configs_4g
    from simulators.shared.user_plane import Spgwu

    file = file_of(words, "-c")
    logging.getLogger().setLevel(configs_4g.spgwu_level(file))
    made = Spgwu(configs_4g.spgwu_config(file))
    await serve(made)


async def enb(words: list[str]) -> None:
    """lte-softmodem -O FILE --rfsim."""
    from simulators.epc.enb import Enb
    from simulators.programs import config_file, configs_4g

    file = file_of(words, "-O")
    _levels(configs_4g.enb_levels(file))
    role = config_file.radio_server(words, os.environ)
    if role not in ("enb", "server"):
        raise EpcError(f"The radio simulator's server is '{role}', not this eNB.")
    made = Enb(configs_4g.enb_config(file))
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
    from simulators.epc.ue import Terminal
    from simulators.programs import config_file, configs_4g

    await keep(Terminal(configs_4g.ue_config(_NVRAM, config_file.radio_server(words, os.environ))))


async def sctpd(words: list[str]) -> None:
    """sctpd: open the socket for which the charm waits; the MME here does SCTP itself."""
    path = "/tmp/sctpd_downstream.sock"  # noqa: S108 - the image's own path, in its own /tmp
    server = await asyncio.start_unix_server(lambda reader, writer: None, path)
    await until_signalled(server.close)


async def cassandra(words: list[str]) -> None:
    """The image's entry point: CQL on CASSANDRA_RPC_ADDRESS, rows in /var/lib/cassandra."""
    from simulators.epc.cassandra import Database, Server

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
    program = PROGRAMS.get(name)
    if program is None:
        from simulators.programs import fiveg

        program = fiveg.PROGRAMS[name]
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
