"""Sentences that the troubleshooting page quotes are ones the code says."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/how-to/troubleshooting.md"
SOURCES = ("charms/lib", "lab")
#: What stands for a value in a quotation, or is put between parts of an error.
VALUE = re.compile(
    r"\b(?:X|ADDRESS|NAME|s6a|s11|ens4|ubuntu|wg|swanctl|none|wireguard|vpn-client)\b"
    r"|<[a-z_]+>|\.\.\.|\b[0-9][0-9.:/]*\b|'[^' ]+'|; allowed: |: |[()]"
    r"|\ba link\b|ssh-hostname and ssh-username"
)


def quoted() -> list[str]:
    """Return what the first column of the page's tables of sentences quotes."""
    text = PAGE.read_text(encoding="utf-8")
    found = []
    for table in re.findall(
        r"^\| (?:It says|You see)[^\n]*\n\|-[^\n]*\n((?:\|[^\n]*\n)+)", text, re.M
    ):
        for row in table.splitlines():
            # Single words are names of things.
            cell = row.strip("|").split(" | ")[0]
            found += [text for text in re.findall(r"`([^`]+)`", cell) if " " in text]
    return found


@cache
def said() -> str:
    """Return all text in the code, as the programs put it together, values left out."""
    texts = []
    for folder in SOURCES:
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.JoinedStr):
                    parts = [n.value if isinstance(n, ast.Constant) else "\0" for n in node.values]
                    texts.append("".join(str(part) for part in parts))
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    texts.append(node.value)
    return re.sub(r"\{[^}]*\}", "\0", "\n".join(texts))


def unsaid(sentence: str) -> list[str]:
    """Return the parts of a quotation, between values, that no text in the code has."""
    parts = [part.strip(" ,;:.()") for part in VALUE.split(sentence)]
    return [part for part in parts if len(part) > 3 and part not in said()]


def test_quoted_sentences_are_said() -> None:
    sentences = quoted()
    assert len(sentences) > 25
    assert {sentence: bad for sentence in sentences if (bad := unsaid(sentence))} == {}


def test_a_sentence_nobody_says_is_noticed() -> None:
    assert unsaid("the VDU has no interface eth9") != ["the VDU has no interface"]
    assert unsaid("the moon is full, X") == ["the moon is full"]
