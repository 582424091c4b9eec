"""The messages of `frontend.proto`, made by protobuf at run time instead of generated code."""

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

SERVICE = "/osm_ee.FrontendExecutor/"


def _pool() -> descriptor_pool.DescriptorPool:
    file = descriptor_pb2.FileDescriptorProto(
        name="frontend.proto", package="osm_ee", syntax="proto3"
    )
    for name, fields in (
        ("PrimitiveRequest", ("id", "name", "params")),
        ("PrimitiveReply", ("status", "detailed_message")),
        ("SshKeyRequest", ()),
        ("SshKeyReply", ("message",)),
    ):
        message = file.message_type.add(name=name)
        for number, field in enumerate(fields, start=1):
            message.field.add(
                name=field,
                number=number,
                type=descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
                label=descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL,
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


_POOL = _pool()


def _class(name: str) -> type:
    kind: type = message_factory.GetMessageClass(_POOL.FindMessageTypeByName("osm_ee." + name))
    return kind


PrimitiveRequest = _class("PrimitiveRequest")
PrimitiveReply = _class("PrimitiveReply")
SshKeyRequest = _class("SshKeyRequest")
SshKeyReply = _class("SshKeyReply")
