"""LCM's client of an execution environment: gRPC, service FrontendExecutor.

Source: OSM 19, LCM ``lcm_helm_conn``: TLS first, without TLS if the server has none; a refused
connection is tried again; the last reply to a primitive counts.
"""

import asyncio
import ssl
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpclib.client import Channel, UnaryStreamMethod, UnaryUnaryMethod
from grpclib.config import Configuration
from grpclib.exceptions import GRPCError, StreamTerminatedError

from lab.errors import TIMED_OUT, ClusterError

PORT = 50050
SERVICE = "/osm_ee.FrontendExecutor/"
CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20:DHE+AESGCM:DHE+CHACHA20"
PAUSE = 0.5  # Seconds between two tries; OSM waits 10.


def _messages() -> dict[str, Any]:
    string = descriptor_pb2.FieldDescriptorProto.TYPE_STRING
    file = descriptor_pb2.FileDescriptorProto(name="lcm.proto", package="osm_ee", syntax="proto3")
    shapes = {
        "PrimitiveRequest": ("id", "name", "params"),
        "PrimitiveReply": ("status", "detailed_message"),
        "SshKeyRequest": (),
        "SshKeyReply": ("message",),
    }
    for name, names in shapes.items():
        message = file.message_type.add(name=name)
        for number, field in enumerate(names, start=1):
            message.field.add(name=field, number=number, type=string)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"osm_ee.{name}"))
        for name in shapes
    }


MESSAGES = _messages()


@dataclass(frozen=True)
class Frontend:
    """An execution environment, as LCM reaches it."""

    address: str  # Of its pod.
    name: str  # DNS name that its certificate must have, ``<release>.<namespace>.svc``.
    tls: Path | None  # Folder with ca.crt and LCM's tls.crt and tls.key; None for no TLS.
    port: int = PORT

    def ssh_key(self, timeout: float) -> str:
        """Return the public key that RO puts into the VDU."""

        async def ask(channel: Channel) -> str:
            method = UnaryUnaryMethod(
                channel,
                SERVICE + "GetSshKey",
                MESSAGES["SshKeyRequest"],
                MESSAGES["SshKeyReply"],
            )
            reply = await method(MESSAGES["SshKeyRequest"]())
            return str(reply.message)

        return str(self._call(ask, timeout))

    def primitive(
        self, name: str, params: Mapping[str, Any], timeout: float, limit: float | None = None
    ) -> tuple[str, str]:
        """Run a primitive; return status and detailed message of the last reply.

        ``timeout``: seconds until the environment takes the call; ``limit``: until the last reply.
        """

        async def ask(channel: Channel) -> tuple[str, str]:
            method = UnaryStreamMethod(
                channel,
                SERVICE + "RunPrimitive",
                MESSAGES["PrimitiveRequest"],
                MESSAGES["PrimitiveReply"],
            )
            request = MESSAGES["PrimitiveRequest"](
                id=str(uuid.uuid1()), name=name, params=yaml.dump(dict(params))
            )
            last = None
            async with method.open() as stream:
                await stream.send_message(request, end=True)
                async for reply in stream:
                    last = reply
            return (last.status, last.detailed_message) if last else ("ERROR", "No result received")

        try:
            status, message = self._call(ask, timeout, limit)
        except TimeoutError:
            raise ClusterError(TIMED_OUT) from None
        return str(status), str(message)

    def _call(self, ask: Any, timeout: float, limit: float | None = None) -> Any:
        return asyncio.run(asyncio.wait_for(self._retried(ask, timeout), limit))

    async def _retried(self, ask: Any, timeout: float) -> Any:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        context = self._context() if self.tls else None
        while True:
            config = Configuration(ssl_target_name_override=self.name)
            channel = Channel(self.address, self.port, ssl=context, config=config)
            try:
                return await ask(channel)
            except ssl.SSLError as error:
                if error.reason != "WRONG_VERSION_NUMBER":
                    raise ClusterError(f"TLS with {self.name}: {error}") from None
                context = None
            except (ConnectionError, TimeoutError) as error:
                if loop.time() > deadline:
                    raise ClusterError(f"{self.name} does not answer: {error}") from None
                await asyncio.sleep(PAUSE)
            except (GRPCError, StreamTerminatedError) as error:
                raise ClusterError(f"{self.name}: {error}") from None
            finally:
                channel.close()

    def _context(self) -> ssl.SSLContext:
        assert self.tls is not None  # noqa: S101 - the caller checked it
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.tls / "tls.crt", self.tls / "tls.key")
        context.load_verify_locations(self.tls / "ca.crt")
        context.set_ciphers(CIPHERS)
        context.set_alpn_protocols(["h2"])
        return context
