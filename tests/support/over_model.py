"""The code of a charm from its SSH edge up, on models of VDUs."""

from __future__ import annotations

import ast
import hashlib
import json
from typing import Any, ClassVar

from vpnaas.base.errors import UnreachableError
from vpnaas.vdu.programs import agent
from vpnaas.vdu.ssh import CommandResult, Vdu
from vpnaas.vdu.steps import Step

from support.model import ModelVdu


class OverModel(Vdu):
    """The charm's own SSH edge, with models in place of the connections.

    Attributes:
        models: VDU at each management address.
    """

    models: ClassVar[dict[str, ModelVdu]] = {}

    def command(self, command: str, stdin: str = "", seconds: int = 60) -> CommandResult:
        model = self.models.get(self._login.host)
        if model is None:
            raise UnreachableError(f"no VDU answers at {self._login.host}")
        self.host_key = "ssh-ed25519 AAAA"
        if not stdin or command.endswith("; cat"):
            said = command[len("echo ") :] if command.startswith("echo ") else "vdu"
            return CommandResult(0, said + "\n" + stdin, "")
        text, mark = agent_call(stdin)
        request = json.loads(text)
        steps = [
            Step(s["id"], whole(model, s), part=s.get("part", ""), needs=s.get("needs", ""))
            for s in request["steps"]
        ]
        done = model.execute(steps)
        for step in request["steps"]:
            if step.get("argv", [])[:2] == ["wg", "set"]:
                agent.run(step)  # As on a VDU, by a process of its own.
        answer = {
            "results": {id: done._results[id] for id in done.ids()},
            "failed": done.failed,
            "broken": {k: {"id": b.step.id, "why": b.why} for k, b in done.broken.items()},
        }
        end = hashlib.sha256(mark.encode()).hexdigest()
        return CommandResult(0, "Welcome\n" + end + json.dumps(answer) + end + "\nBye\n", "")


def whole(model: ModelVdu, step: dict[str, Any]) -> dict[str, Any]:
    """Return a step that replaces the middle of a file as one that writes all of it."""
    if step["do"] != "patch":
        left_out = ("id", "known", "part", "needs")
        return {key: value for key, value in step.items() if key not in left_out}
    before = model.files[step["path"]]
    assert hashlib.sha256(before.encode()).hexdigest() == step["of"]
    text = before[: step["start"]] + step["text"] + before[len(before) - step["end"] :]
    return {"do": "write", "path": step["path"], "text": text, "mode": step["mode"]}


def agent_request(program: str) -> str:
    """Return the JSON in the call at the end of the program that goes to a VDU."""
    return agent_call(program)[0]


def agent_call(program: str) -> tuple[str, str]:
    """Return the JSON and the mark of its answer."""
    call = ast.parse(program.rstrip().rpartition("\n")[2]).body[0]
    assert isinstance(call, ast.Expr)
    assert isinstance(call.value, ast.Call)
    request, mark = map(ast.literal_eval, call.value.args)
    if request.startswith(agent.PACKED):
        request = agent.zlib.decompress(
            agent.base64.b64decode(request[len(agent.PACKED) :])
        ).decode()
    return request, mark
