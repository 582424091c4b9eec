"""Models of instantiation parameters, made from the table params.yaml.

NBI checks them with JSON schema, so it does not convert a number to text, and neither does this.
"""

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from builder.validate.schema import Address, Free
from builder.validate.sol006 import models


def _matching(pattern: str, allowed: str) -> AfterValidator:
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if not compiled.fullmatch(value):
            raise ValueError(allowed)
        return value

    return AfterValidator(check)


def _wim(value: Any) -> Any:
    if value is None or isinstance(value, bool) or re.fullmatch(UUID, str(value)):
        return value
    raise ValueError("false, or the UUID of a WIM; in wim_account its name")


def _named_wim(value: Any) -> Any:
    if value is None or (isinstance(value, (bool, str)) and value != ""):
        return value
    raise ValueError("false, or a WIM")


def _network(value: Any) -> Any:
    names = list(value.values()) if isinstance(value, dict) else [value]
    if not names or not all(isinstance(name, str) and 0 < len(name) < 256 for name in names):
        raise ValueError("the name of a network, or a mapping from VIM to name")
    return value


def _provider(value: dict[str, Any]) -> dict[str, Any]:
    for key in ("physical-network", "segmentation-id"):
        given = value.get(key, "-")
        if not isinstance(given, str) or not re.fullmatch(NAME, given):
            raise ValueError(f"a mapping whose {key} is a text, in quotes")
    return value


NAME = r"[^,;()'\"]{1,255}"
OCTET = r"(25[0-5]|2[0-4][0-9]|[01]?[0-9]?[0-9])"
UUID = r"[a-fA-F0-9]{8}(-[a-fA-F0-9]{4}){3}-[a-fA-F0-9]{12}"
MAC = r"[0-9a-fA-F][02468aceACE](:[0-9a-fA-F]{2}){5}"
IPV4 = rf"({OCTET}\.){{3}}{OCTET}"
Name = Annotated[str, Field(strict=True, min_length=1, max_length=255)]
WORDS = {
    "text": Name,
    "name": Annotated[Name, _matching(NAME, "a name without any of , ; ( ) ' \"")],
    "description": Annotated[str, _matching("[^'\"]{1,255}", "1 to 255 characters without quotes")],
    "string": str,
    "uuid": Annotated[Name, _matching(UUID, "a UUID")],
    "mac": Annotated[Name, _matching(MAC, "a unicast MAC address, a:b:c:d:e:f")],
    "subnet": Annotated[
        Name, _matching(rf"{IPV4}/(30|[12]?[0-9])", "an IPv4 subnet with a prefix of /0 to /30")
    ],
    "ipv4": Annotated[Name, _matching(IPV4, "an IPv4 address")],
    "address": Address,
    "positive": Annotated[int, Field(strict=True, ge=1, lt=1 << 64)],
    "boolean": Annotated[bool, Field(strict=True)],
    "free": Free,
    # Not unions, because pydantic reports one error for each type of a union.
    "wim": Annotated[Any, BeforeValidator(_wim)],
    "named-wim": Annotated[Any, BeforeValidator(_named_wim)],
    "provider": Annotated[Free, AfterValidator(_provider)],
    "network": Annotated[Any, BeforeValidator(_network)],
}
MODELS = models("params.yaml", ("ns", "nsi"), WORDS, null=False)


def normalised(kind: str, document: Any) -> dict[str, Any]:
    """Return parameters in the form of the schema."""
    return MODELS[kind].model_validate(document).model_dump(by_alias=True, exclude_unset=True)
