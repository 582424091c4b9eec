"""Parser for the output of `swanctl --raw`."""

import re
from typing import Dict, List, Tuple

# An item of a list may end with ports in brackets: `remote-ts=[10.9.0.5/32[tcp/80]]`.
_LIST = r"\[(?:[^\[\]]|\[[^\[\]]*\])*\]"
_WORD = re.compile(_LIST + r"|[{}]|[^\s{}=]+=(?:" + _LIST + r"|[^\s{}]*)|[^\s{}=]+")


def events(text: str) -> List[Tuple[str, Dict[str, object]]]:
    """Read `swanctl --raw`: one line per event, sections in braces, key=value, key=[list].

    Values come from our own configuration and from charon; the charm has checked the identities.

    Raises:
        ValueError: The braces do not match.
    """
    result: List[Tuple[str, Dict[str, object]]] = []
    for line in text.splitlines():
        words = line.split(" ", 2)
        if len(words) < 3 or words[1] != "event":
            continue
        root: Dict[str, object] = {}
        stack = [root]
        name = ""
        for word in _WORD.findall(words[2]):
            if word == "{":
                inner: Dict[str, object] = {}
                if name:
                    stack[-1][name] = inner
                    stack.append(inner)
                    name = ""
                else:
                    stack.append(stack[-1])
            elif word == "}":
                if len(stack) < 2:
                    raise ValueError(line[:60])
                stack.pop()
            elif "=" in word:
                key, _, value = word.partition("=")
                stack[-1][key] = value
            else:
                name = word
        for section, body in root.items():
            if isinstance(body, dict):
                result.append((section, body))
    return result
