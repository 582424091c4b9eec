"""cqlsh: runs the statements on standard input and prints their results.

The exit codes are those of Cassandra's cqlsh: 1 without a server, 2 for a wrong statement.
"""

import asyncio
import sys
from collections.abc import Iterable, Iterator

from simulators.epc.cassandra import PORT, CqlError, Rows, connected


def statements(lines: Iterable[str]) -> Iterator[str]:
    """Yield the statements in lines; a line may have one, a part of one, or a comment."""
    text = ""
    for line in lines:
        if not line.strip() or line.strip().startswith(("--", "//")):
            continue
        text += line
        if text.rstrip().endswith(";"):
            yield text.strip()
            text = ""
    if text.strip():
        yield text.strip()


def draw(answer: Rows) -> str:
    """Return an answer as a table in cqlsh's format."""
    if not answer.columns:
        return ""
    rows = [["null" if value is None else str(value) for value in row] for row in answer.rows]
    widths = [max(map(len, cells)) for cells in zip(answer.columns, *rows, strict=True)]

    def line(row: list[str]) -> str:
        return " | ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))

    rule = "-" + "-+-".join("-" * width for width in widths) + "-"
    body = "\n".join(f" {line(row)}" for row in rows)
    many = len(rows)
    return f"\n {line(answer.columns)}\n{rule}\n{body}\n\n({many} row{'s' * (many != 1)})\n"


async def run(host: str, port: int = PORT) -> int:
    """Run all statements, also after a wrong one; return the exit code."""
    code = 0
    try:
        async with connected(host, port) as execute:
            for statement in statements(sys.stdin):
                try:
                    answer = await asyncio.wait_for(execute(statement), 10)
                except CqlError as error:
                    sys.stderr.write(f"<stdin>:Error from server: code={error.code:04x} {error}\n")
                    code = 2
                except (TimeoutError, OSError):
                    sys.stderr.write("<stdin>:OperationTimedOut: errors={}\n")
                    return 2
                else:
                    sys.stdout.write(draw(answer))
    except OSError as error:
        sys.stderr.write(f"Connection error: ('Unable to connect to any servers', '{error}')\n")
        return 1
    return code


def main(words: list[str]) -> int:
    """Run cqlsh; the only argument is the host, by default 127.0.0.1."""
    return asyncio.run(run(words[0] if words else "127.0.0.1"))
