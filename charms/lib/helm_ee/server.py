"""gRPC edge: OSM's LCM calls this server in the pod (service FrontendExecutor)."""

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import ssl
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, Optional

import yaml
from grpclib.const import Cardinality, Handler, Status
from grpclib.exceptions import GRPCError
from grpclib.server import Server, Stream
from vpnaas.base.errors import VpnaasError
from vpnaas.charm import Kind

from . import messages
from .cluster import Cluster, ClusterError
from .execution import Execution

logger = logging.getLogger(__name__)

PORT = 50050
PERIOD = 300.0
"""Seconds between two looks for drift, as between two update-status of Juju."""
CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
FOLDER = "osm-vpnaas-"


class Worker:
    """Runs jobs one after another, in the order of arrival."""

    def __init__(self, execution: Execution) -> None:
        self.execution = execution
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="charm")
        self._waiting = threading.Event()

    async def run(self, work: Callable[..., Any], *words: Any) -> Any:
        """Run a job after all earlier ones, and return its result."""
        return await asyncio.get_event_loop().run_in_executor(self._pool, work, *words)

    def changed(self) -> None:
        """Reconcile soon, as another VNF published a change; several changes lead to one."""
        if not self._waiting.is_set():
            self._waiting.set()
            self._pool.submit(self._after_change)

    def _after_change(self) -> None:
        self._waiting.clear()
        self._reconcile(True)

    def close(self) -> None:
        """Accept no more jobs; accepted jobs still run."""
        self._pool.shutdown(wait=False)

    def tick(self) -> None:
        """Queue a reconcile that looks for drift on the VDU."""
        self._pool.submit(self._reconcile, False)

    def _reconcile(self, unless_settled: bool) -> None:
        try:
            self.execution.reconcile(unless_settled)
        except Exception:
            # A defect must not end the server; the next event tries again.
            logger.exception("the reconcile failed")


class FrontendExecutor:
    """The service, as LCM calls it."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    async def run_primitive(self, stream: "Stream[Any, Any]") -> None:
        """Run a primitive and send one reply."""
        request = await stream.recv_message()
        if request is None:
            raise GRPCError(Status.INVALID_ARGUMENT, "there is no request")
        work = self._worker.execution.primitive
        status, message = await self._worker.run(work, request.name, request.params)
        await stream.send_message(messages.PrimitiveReply(status=status, detailed_message=message))

    async def get_ssh_key(self, stream: "Stream[Any, Any]") -> None:
        """Send the public key that RO puts into the VDU."""
        await stream.recv_message()
        try:
            key = await self._worker.run(self._worker.execution.ssh_key)
        except (VpnaasError, ClusterError) as error:
            raise GRPCError(Status.UNAVAILABLE, str(error))
        await stream.send_message(messages.SshKeyReply(message=key))

    def __mapping__(self) -> Dict[str, Handler]:
        """Return the methods by path, as grpclib asks for them."""
        return {
            messages.SERVICE + "RunPrimitive": Handler(
                self.run_primitive,
                Cardinality.UNARY_STREAM,
                messages.PrimitiveRequest,
                messages.PrimitiveReply,
            ),
            messages.SERVICE + "GetSshKey": Handler(
                self.get_ssh_key,
                Cardinality.UNARY_UNARY,
                messages.SshKeyRequest,
                messages.SshKeyReply,
            ),
        }


class Tls:
    """Certificates from the volumes of the pod.

    Clients need a certificate of OSM's authority that may be used by a client. The execution
    environments have certificates for servers only, so they cannot call each other.
    """

    def __init__(self, certificate: str, authority: str) -> None:
        self._files = (os.path.join(certificate, "tls.crt"), os.path.join(certificate, "tls.key"))
        self._authority = os.path.join(authority, "ca.crt")
        self.context = self._current = self._load()
        # Called for each connection, also for one that names no server.
        self.context.set_servername_callback(self._choose)

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # These cipher suites need TLS 1.2 or newer.
        context.set_ciphers(CIPHERS)
        context.set_alpn_protocols(["h2"])
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(self._authority)
        context.load_cert_chain(*self._files)
        return context

    def _choose(self, connection: Any, name: Optional[str], context: Any) -> None:
        connection.context = self._current

    def reload(self) -> None:
        """Load a renewed certificate and a renewed authority, for new connections.

        Raises:
            OSError: The files do not fit together, or cannot be read; the old ones stay.
        """
        self._current = self._load()


async def serve(
    execution: Execution, cluster: Cluster, host: str, port: int, tls: Optional[Tls]
) -> None:
    """Serve until SIGTERM."""
    worker = Worker(execution)
    server = Server([FrontendExecutor(worker)])
    stopped = threading.Event()
    watcher = threading.Thread(target=cluster.watch, args=(worker.changed, stopped), daemon=True)
    await server.start(host, port, ssl=tls.context if tls else None)
    logger.info("serving on port %d%s", port, "" if tls else ", in clear")
    watcher.start()
    ended = asyncio.Event()
    # A signal without a handler does not end the first process of a container.
    with contextlib.suppress(ValueError, RuntimeError):  # Only the main thread has signals.
        asyncio.get_event_loop().add_signal_handler(signal.SIGTERM, ended.set)
    worker.tick()
    try:
        while not ended.is_set():
            try:
                await asyncio.wait_for(ended.wait(), PERIOD)
            except asyncio.TimeoutError:
                if tls is not None:
                    try:
                        tls.reload()
                    except OSError as error:
                        logger.warning("the certificate cannot be renewed: %s", error)
                worker.tick()
    finally:
        stopped.set()
        server.close()
        worker.close()


def _declared(folder: str) -> Dict[str, Any]:
    declared = {}
    for name in ("metadata", "actions", "config"):
        declared[name] = _yaml(folder, name)
    beside = os.path.dirname(folder)
    charts = sorted(os.listdir(beside))
    declared["charts"] = {name: _yaml(os.path.join(beside, name), "metadata") for name in charts}
    return declared


def _yaml(folder: str, name: str) -> Any:
    with open(os.path.join(folder, name + ".yaml"), encoding="utf-8") as stream:
        return yaml.safe_load(stream)


def make_folder(place: str) -> str:
    """Make the folder of this process on a volume of the pod, "" for none.

    The volume outlives a container that died, whose folder with its SSH key goes.
    """
    if place:
        for name in os.listdir(place):
            if name.startswith(FOLDER):
                shutil.rmtree(os.path.join(place, name), ignore_errors=True)
    return tempfile.mkdtemp(prefix=FOLDER, dir=place or None)


def run(kind: Kind) -> None:
    """Serve the charm whose src/charm.py this process runs, as the pod's environment says."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    environ = os.environ
    charm = os.path.dirname(os.path.dirname(os.path.abspath(sys.argv[0])))
    cluster = Cluster(environ["VPNAAS_RELEASE"])
    folder = make_folder(environ.get("VPNAAS_RUN", ""))
    while True:
        try:
            cluster.load()
            execution = Execution(kind, cluster, folder, _declared(charm))
            break
        except ClusterError as error:
            logger.warning("%s", error)
            time.sleep(2)
    certificate = environ.get("VPNAAS_TLS", "")
    tls = Tls(certificate, environ["VPNAAS_CA"]) if certificate else None
    host, port = environ.get("VPNAAS_HOST", ""), int(environ.get("VPNAAS_PORT") or PORT)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    loop.run_until_complete(serve(execution, cluster, host, port, tls))
