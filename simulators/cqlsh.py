"""cqlsh: runs the statements on standard input and prints their results.

The exit codes are those of Cassandra's cqlsh: 1 without a server, 2 for a wrong statement.
"""

from __future__ import annotations

import asyncio
import sys

from simulators import cql
from simulators.cassandra import statements


async def run(host: str) -> int:
    """Run all; a wrong statement does not stop the others."""
    client = cql.Client()
    try:
        await asyncio.wait_for(client.connect(host), 10)
    except (TimeoutError, OSError, cql.CqlError) as error:
        reason = str(error) or "no answer"
        sys.stderr.write(f"Connection error: ('Unable to connect to any servers', {reason!r})\n")
        return 1
    code = 0
    for statement in statements(iter(sys.stdin)):
        try:
            answer = await asyncio.wait_for(client.execute(statement), 10)
        except cql.CqlError as error:
            sys.stderr.write(f"<stdin>:Error from server: code={error.code:04x} {error}\n")
            code = 2
        except (TimeoutError, OSError):
            sys.stderr.write("<stdin>:OperationTimedOut: errors={}\n")
            return 2
        else:
            sys.stdout.write(cql.draw(answer))
    client.close()
    return code


def main(words: list[str]) -> int:
    """Run with the host as only word, 127.0.0.1 by default."""
    return asyncio.run(run(words[0] if words else "127.0.0.1"))
