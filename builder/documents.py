"""Loading YAML from untrusted sources: one type of error, and limits for size and depth."""

from __future__ import annotations

from typing import Any

import yaml

MAX_CHARACTERS = 2 << 20
"""Limit of a text, which takes seconds to read. The largest real descriptors have a hundredth."""
MAX_NODES = 200_000
"""Nodes of a document with its aliases expanded; the largest real descriptors have a hundredth."""
MAX_DEPTH = 64


_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's parser, ten times faster, where PyYAML has it."""


class DocumentError(ValueError):
    """A text is not usable YAML; `str()` gives the reason in one line."""


def load(text: str | bytes) -> Any:
    """Load one YAML document.

    Raises:
        DocumentError: Not UTF-8, not YAML, or too large or deep.
    """
    if len(text) > MAX_CHARACTERS:
        raise DocumentError(f"{len(text)} characters; {MAX_CHARACTERS} are allowed")
    try:
        loader = _LOADER(text.decode("utf-8") if isinstance(text, bytes) else text)
        node = loader.get_single_node()
        if node is None:
            return None
        # Check this before construction, because merge keys (<<) copy the content of their aliases.
        bounded(node)
        return loader.construct_document(node)
    except RecursionError:
        raise DocumentError("nested too deeply") from None
    except DocumentError:
        raise
    except (yaml.YAMLError, ValueError, TypeError, OverflowError, AttributeError) as error:
        # PyYAML does not catch Python's own errors when it constructs dates and numbers.
        raise DocumentError(" ".join(str(error).split())[:200] or type(error).__name__) from None


def bounded(document: Any) -> None:
    """Check that a document, of values or of YAML nodes, is small enough to walk over.

    With YAML aliases a document can contain itself, and a few lines can expand to an exponential
    number of nodes.

    Raises:
        DocumentError: It is too large or too deep.
    """
    left = [(document, 0)]
    seen = 0
    while left:
        node, depth = left.pop()
        seen += 1
        if depth > MAX_DEPTH:
            raise DocumentError("nested too deeply, or an alias that contains itself")
        if seen > MAX_NODES:
            raise DocumentError("too large with its aliases expanded")
        if isinstance(node, dict):
            left += [(item, depth + 1) for pair in node.items() for item in pair]
        elif isinstance(node, (list, tuple, set, frozenset)):
            left += [(item, depth + 1) for item in node]
        elif isinstance(node, yaml.MappingNode):
            left += [(item, depth + 1) for pair in node.value for item in pair]
        elif isinstance(node, yaml.SequenceNode):
            left += [(item, depth + 1) for item in node.value]
