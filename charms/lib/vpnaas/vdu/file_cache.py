"""A cache of the VDU's files: text that both sides have is not sent again.

Files of a link grow with its peers, and most changes concern one peer. So a `write` of a known file
sends only the difference, with the digest of the old text. A `read` of a known file sends the
digest of the known text; if it still matches, the agent says so and sends no text. Digests cover
the whole text, so the cache can never give a stale text.
"""

import hashlib
import json
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Set, Tuple

if TYPE_CHECKING:
    from vpnaas.vdu.steps import Step

LEAST = 1024
"""Characters of the shortest text that is cached or patched."""
MOST = 32 << 20
"""Most characters in the cache."""


class FileCache:
    """Texts of one VDU's files by path, as last read or written."""

    def __init__(self, texts: Optional[Dict[str, str]] = None) -> None:
        self._texts = dict(texts or {})
        self.changed = False  # Whether it differs from its initial content.

    def get(self, path: str) -> Optional[str]:
        return self._texts.get(path)

    def put(self, path: str, text: Optional[str]) -> None:
        """Store the text of a file; None or a text that is not storable removes the entry."""
        if text is not None and not storable(text):
            text = None
        if self._texts.get(path) == text:
            return
        self.changed = True
        if text is None:
            del self._texts[path]
        else:
            self._texts.pop(path, None)
            self._texts[path] = text
        while sum(map(len, self._texts.values())) > MOST:
            del self._texts[next(iter(self._texts))]

    def to_json(self) -> str:
        return json.dumps(self._texts)

    @classmethod
    def from_json(cls, text: str) -> "FileCache":
        """Read the cache back; an invalid text gives an empty cache."""
        try:
            document = json.loads(text)
            texts = {str(path): str(known) for path, known in document.items()}
            return cls({path: known for path, known in texts.items() if storable(known)})
        except (ValueError, AttributeError):
            return cls()


def storable(text: str) -> bool:
    """Tell whether the cache takes a text: not a short one, nor one that has no digest."""
    try:
        return LEAST <= len(text) <= MOST and bool(text.encode("utf-8"))
    except UnicodeEncodeError:
        return False


def digest(text: str) -> str:
    """Return the digest of a text, as the agent computes it of a file."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def difference(before: str, after: str) -> Tuple[int, int]:
    """Return the lengths of the common start and of the common end; they do not overlap."""
    most = min(len(before), len(after))
    start = _common(most, lambda size: before[:size] == after[:size])
    most -= start
    end = _common(most, lambda size: before[len(before) - size :] == after[len(after) - size :])
    return start, end


def _common(most: int, holds: Any) -> int:
    """Return the largest size up to `most` that `holds`; all smaller sizes hold too."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if holds(middle):
            low = middle
        else:
            high = middle - 1
    return low


def wire(steps: Sequence["Step"], known: Optional[FileCache]) -> List[Dict[str, Any]]:
    """Return the wire form of steps."""
    touched: Set[str] = set()
    listed = []
    for step in steps:
        body = step.to_json()
        path = str(body.get("path", ""))
        if body["do"] == "read" and step.cacheable and known is not None and path not in touched:
            text = known.get(path)
            if text is not None:
                body["known"] = digest(text)
        if body["do"] == "write" and path not in touched:
            body = _patched(body, step.before)
        touched |= {path, str(body.get("source", "")), str(body.get("stdout_file", ""))}
        listed.append(body)
    return listed


def _patched(body: Dict[str, Any], before: Optional[str]) -> Dict[str, Any]:
    after = body["text"]
    # U+FFFD replaces bytes that are not UTF-8, so its digest does not match the file.
    if before is None or len(after) < LEAST or "\ufffd" in before:
        return body
    start, end = difference(before, after)
    if 2 * (start + end) < len(after):
        return body
    rest = {key: value for key, value in body.items() if key != "text"}
    changed = after[start : len(after) - end]
    return dict(rest, do="patch", of=digest(before), start=start, end=end, text=changed)


def learn(known: FileCache, step: "Step", result: Dict[str, Any]) -> None:
    """Complete the result of a step from the cache, and add new texts to the cache."""
    if step.body["do"] == "read" and step.cacheable:
        if result.get("same"):
            result["text"] = known.get(step.body["path"])
            if result["text"] is None:
                raise ValueError("not asked for")
        known.put(step.body["path"], result.get("text"))
    elif step.body["do"] == "write" and known.get(step.body["path"]) is not None:
        known.put(step.body["path"], step.body["text"])
