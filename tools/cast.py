"""Record what commands do on a terminal, as a cast (asciicast v2) and as a picture that plays.

    .venv/bin/python tools/cast.py SCRIPT.sh FILE.cast     types the script into a shell
    .venv/bin/python tools/cast.py FILE.cast FILE.svg      draws the cast

A cast has what the terminal showed, and when.
"""

import fcntl
import json
import math
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

PROMPT = r"\[\e]133;A\a\]"
COLUMNS, ROWS = 100, 28
TYPED = 0.2  # Seconds between two words.
PAUSE = 1.5  # Seconds between two commands, and the longest that a picture stands still.
PATIENCE = 300.0
READY = "\x1b]133;A\x07"  # The shell says that it waits (a prompt, in the words of terminals).
ERASED = "\x1b[2K"
CONTROL = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\x1b\][^\x07]*\x07")
CELL, LINE, EDGE = 8.0, 18, 12
COLOURS = {31: "#ff7b72", 32: "#7ee787", 33: "#e3b341", 34: "#79c0ff", 35: "#d2a8ff", 36: "#76e3ea"}


class Row(NamedTuple):
    """What a line of the terminal showed from one moment to another."""

    number: int
    text: str
    begin: float
    end: float = math.inf


def record(script: Path, target: Path) -> None:
    """Type the lines of a script into a shell; write what its terminal shows."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    shell = subprocess.Popen(
        ["bash", "--norc", "--noprofile", "-i"],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        env={**os.environ, "TERM": "xterm-256color", "PS1": f"{PROMPT}$ ", "PS2": f"{PROMPT}> "},
    )
    os.close(slave)
    begin, events = time.monotonic(), []

    def watch(seconds: float, ready: bool = False) -> None:
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if select.select([master], [], [], left)[0]:
                text = os.read(master, 65536).decode(errors="replace")
                events.append((time.monotonic() - begin, text))
                if ready and READY in text:
                    return
        if ready:
            raise SystemExit(f"no prompt after {seconds:.0f} s")

    watch(PATIENCE, ready=True)
    for line in script.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        for word in re.findall(r"\s*\S+", line):
            os.write(master, word.encode())
            watch(TYPED)
        os.write(master, b"\r")
        watch(PATIENCE, ready=True)
        watch(PAUSE)
    os.close(master)
    shell.wait(timeout=10)
    header = {"version": 2, "width": COLUMNS, "height": ROWS, "idle_time_limit": PAUSE}
    rows, last = [json.dumps(header)], ""
    for at, text in events:
        if text != last or ERASED not in text:  # A table may be drawn again and again.
            rows.append(json.dumps([round(at, 3), "o", text.replace(READY, "")]))
        last = text
    target.write_text("\n".join(rows) + "\n", encoding="utf-8")


def shown(cast: Path) -> tuple[list[Row], float]:
    """Return what each line of a cast showed and when, without pauses longer than `PAUSE`."""
    clock = before = 0.0
    rows, at, column = [""], 0, 0
    kept: dict[int, Row] = {}
    gone = []
    for event in cast.read_text(encoding="utf-8").splitlines()[1:]:
        moment, _, text = json.loads(event)
        clock, before = clock + min(moment - before, PAUSE), moment
        for piece in re.split(r"(\n|\r|\x1b\[\d*A|\x1b\[2K)", text):
            if piece == "\n":
                at, column = at + 1, 0
                rows += [""] * (at == len(rows))
            elif piece == "\r":
                column = 0
            elif piece.endswith("A") and piece.startswith("\x1b"):
                at -= int(piece[2:-1] or 1)
            elif piece == ERASED:
                rows[at] = ""
            elif piece:
                rows[at], column = (rows[at] if column else "") + piece, 1
        for number, words in enumerate(rows):
            if words != (kept[number].text if number in kept else ""):
                if number in kept:
                    gone.append(kept[number]._replace(end=clock))
                kept[number] = Row(number, words, clock)
    return [*gone, *kept.values()], clock + 2 * PAUSE


def spans(text: str) -> str:
    """Return a line in SVG, with its colours."""
    text = text.replace(" ", "\xa0")  # SVG makes one of several spaces.
    made, style, at = "", "", 0
    for match in [*CONTROL.finditer(text), None]:
        words = text[at : match.start() if match else None]
        made += f"<tspan{style}>{escape(words)}</tspan>" if words and style else escape(words)
        if match and match[2] == "m":
            codes = [int(code or 0) for code in match[1].split(";")]
            colour = next((COLOURS[c % 60] for c in codes if c % 60 in COLOURS), "")
            style = f' fill="{colour}"' if colour else ""
            style += ' font-weight="bold"' if 1 in codes else ""
        at = match.end() if match else at
    return made


def draw(cast: Path, target: Path) -> None:
    """Draw a cast as a picture that plays, and begins anew at its end."""
    rows, total = shown(cast)
    width, height = round(COLUMNS * CELL) + 2 * EDGE, ROWS * LINE + 2 * EDGE

    def steps(name: str, values: Sequence[tuple[float, str]], more: str = "") -> str:
        times = ";".join(f"{seconds / total:.4f}" for seconds, _ in values)
        words = ";".join(value for _, value in values)
        return (
            f'<animate{more} attributeName="{name}" calcMode="discrete" dur="{total:.1f}s"'
            f' repeatCount="indefinite" values="{words}" keyTimes="{times}"/>'
        )

    lines = []
    ups = {0: (0.0, "0 0")}
    for number, text, begin, end in sorted(rows, key=lambda row: (row.number, row.begin)):
        if up := max(0, number - ROWS + 1):
            ups.setdefault(up, (begin, f"0 {-up * LINE}"))
        seen = [(0.0, "hidden"), (begin, "visible"), *([(end, "hidden")] if end < total else [])]
        y = (number + 1) * LINE
        lines.append(f'<text y="{y}">{spans(text)}{steps("visibility", seen)}</text>')
    scroll = steps("transform", list(ups.values()), 'Transform type="translate"')
    target.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">\n'
        f"<title>A terminal: {escape(cast.stem)}</title>\n"
        f'<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>\n'
        f'<svg x="{EDGE}" y="{EDGE}" width="{width - 2 * EDGE}" height="{ROWS * LINE + 4}">\n'
        '<g font-family="monospace" font-size="13.3" fill="#e6edf3">\n'
        + "\n".join([scroll, *lines])
        + "\n</g></svg></svg>\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    source, result = (Path(word) for word in sys.argv[1:])
    (draw if source.suffix == ".cast" else record)(source, result)
