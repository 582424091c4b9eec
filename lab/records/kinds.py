"""The fields that a record of each kind always has, as `lab.nbi` writes it.

A record may have more fields. If one of these is missing, the file was cut, edited by hand, or
written by another version of the lab.
"""

from collections.abc import Mapping

from pydantic_core import CoreConfig, CoreSchema, SchemaValidator, core_schema

_TEXT = core_schema.str_schema()
_NUMBER = core_schema.float_schema()
_INTEGER = core_schema.int_schema()
_TRUTH = core_schema.bool_schema()
_OBJECT = core_schema.dict_schema()
_OBJECTS = core_schema.list_schema(_OBJECT)
_TEXTS = core_schema.list_schema(_TEXT)


def _part(
    texts: str,
    others: Mapping[str, CoreSchema] | None = None,
    nullable: str = "",
    optional: Mapping[str, CoreSchema] | None = None,
) -> CoreSchema:
    """Return the schema of a mapping.

    Args:
        texts: names of fields with a text, separated by spaces.
        others: further fields that must be there.
        nullable: names of fields with a text or null, separated by spaces.
        optional: fields that may be there.
    """
    required = {
        **dict.fromkeys(texts.split(), _TEXT),
        **dict.fromkeys(nullable.split(), core_schema.nullable_schema(_TEXT)),
        **(others or {}),
    }
    fields = {name: core_schema.typed_dict_field(kind) for name, kind in required.items()}
    for name, kind in (optional or {}).items():
        fields[name] = core_schema.typed_dict_field(kind, required=False)
    return core_schema.typed_dict_schema(fields)


def _parts(
    texts: str, others: Mapping[str, CoreSchema] | None = None, nullable: str = ""
) -> CoreSchema:
    """Return the schema of a list of such mappings."""
    return core_schema.list_schema(_part(texts, others, nullable))


def _record(
    texts: str,
    others: Mapping[str, CoreSchema] | None = None,
    nullable: str = "",
    admin: CoreSchema | None = None,
) -> SchemaValidator:
    """Return the schema of a record; ``admin`` is that of its ``_admin``."""
    fields = {"_admin": admin or _admin(""), **(others or {})}
    return SchemaValidator(_part(f"_id {texts}", fields, nullable), CoreConfig(strict=True))


def _admin(
    texts: str,
    others: Mapping[str, CoreSchema] | None = None,
    optional: Mapping[str, CoreSchema] | None = None,
) -> CoreSchema:
    return _part(texts, {"created": _NUMBER, **(others or {})}, optional=optional)


_DESCRIPTOR = _part("id")
_FLAVOURED = _part("id", {"df": core_schema.list_schema(_OBJECT, min_length=1)})

VIM = _record("name")
VCA = _record("name")
CREATED = _record("", admin=_admin("kind onboardingState operationalState usageState"))
NST = _record("id folder", {"descriptor": _DESCRIPTOR}, "name")
NSD = _record("id folder", {"descriptor": _FLAVOURED}, "name")
VNFD = _record(
    "id folder",
    {"descriptor": _FLAVOURED},
    "name",
    _admin(
        "",
        {
            "revision": _INTEGER,
            "revisions": core_schema.dict_schema(_TEXT, _part("folder software-version")),
        },
    ),
)
NSR = _record(
    "id name nsd-id nsd-ref nsState currentOperation operational-status config-status "
    "detailed-status",
    {
        "nsd": _FLAVOURED,
        "instantiate_params": _part("vimAccountId"),
        "create-time": _NUMBER,
        "configurationStatus": _OBJECTS,
        "constituent-vnfr-ref": _TEXTS,
        "lab": _OBJECT,
    },
    "currentOperationID errorDescription errorDetail",
    _admin(
        "nsState",
        {
            "deployed": _part(
                "",
                {
                    "VCA": _parts(
                        "application charm_name status",
                        {"vdu_count_index": core_schema.nullable_schema(_INTEGER)},
                        nullable="ee_id member-vnf-index vdu_id",
                    )
                },
            )
        },
        {"scaling-group": _parts("name vnf_index", {"nb-scale-op": _INTEGER})},
    ),
)
_INTERFACES = _parts(
    "name", {"mgmt-interface": _TRUTH, "mgmt-vnf": _TRUTH}, nullable="ns-vld-id ip-address"
)
VNFR = _record(
    "nsr-id-ref member-vnf-index-ref vnfd-id vnfd-ref vim-account-id",
    {
        "revision": _INTEGER,
        "additionalParamsForVnf": _OBJECT,
        "vdur": _parts(
            "vdu-id-ref name status",
            {
                "count-index": _INTEGER,
                "additionalParams": core_schema.nullable_schema(_OBJECT),
                "interfaces": _INTERFACES,
            },
            nullable="vim-id ip-address",
        ),
    },
    "ip-address",
    _admin("nsState"),
)


def _operation(owner: str, params: CoreSchema) -> SchemaValidator:
    worker = core_schema.nullable_schema(_part("", {"pid": _INTEGER, "start": _INTEGER}))
    return _record(
        f"lcmOperationType operationState {owner}",
        {
            "startTime": _NUMBER,
            "statusEnteredTime": _NUMBER,
            "detailed-status": core_schema.any_schema(),  # of an action: its output
            "operationParams": params,
            "lab": _part("", optional={"worker": worker}),
        },
        "errorMessage",
    )


NS_OPERATION = _operation("nsInstanceId", _OBJECT)
NSI_OPERATION = _operation("netsliceInstanceId", _part("", {"nslcmops_ids": _TEXTS}))
NSI = _record(
    "id name nst-ref operational-status config-status detailed-status",
    {
        "network-slice-template": _DESCRIPTOR,
        "instantiation_parameters": _OBJECT,
        "nsr-ref-list": _OBJECTS,
    },
    admin=_admin(
        "nsiState nst-id",
        {
            "deployed": _part("", {"RO": _parts("vld_id netslice_scenario_id")}),
            "netslice-vld": _parts("id name", {"shared-nsrs-list": _TEXTS}),
            "nsrs-detailed-list": _parts(
                "nsrId nsd-id nss-id", {"shared": _TRUTH}, nullable="nslcmop_instantiate"
            ),
            "netslice-subnet": _parts("nss-id"),
        },
    ),
)
