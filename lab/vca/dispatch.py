"""How a hook or action is started: the file that runs, and the environment Juju 2.9 gives it."""

from __future__ import annotations

import os
from pathlib import Path

from lab.vca import process
from lab.vca.context import HookContext
from lab.vca.runtime import JUJU_VERSION, Runtime

DISPATCH = "dispatch"


class MissingHookError(Exception):
    """The charm has no dispatch and no such hook."""


def find_script(charm_dir: Path, dispatch_path: str) -> Path:
    """Return what to run: `dispatch` if the charm has it, else the hook's or action's own file."""
    for name in (DISPATCH, dispatch_path):
        script = charm_dir / name
        if script.exists():
            if not os.access(script, os.X_OK):
                raise PermissionError(13, f"{name} is not executable")
            return script
    raise MissingHookError(dispatch_path)


def environment(
    runtime: Runtime,
    dispatch_path: str,
    hook_name: str,
    context: HookContext,
    context_id: str,
    socket: Path,
) -> dict[str, str]:
    """Return the environment of a charm's process.

    Args:
        runtime: folders of the model.
        dispatch_path: hooks/NAME or actions/NAME.
        hook_name: NAME of a hook, "" of an action.
        context: unit, relation and action of the process.
        context_id: name of the context for its hook tools.
        socket: on which the controller serves the hook tools.
    """
    unit = context.unit
    charm_dir = str(runtime.paths.charm(unit.name))
    with context.document() as document:
        uuid = document.uuid
    variables = {
        "APT_LISTCHANGES_FRONTEND": "none",
        "CHARM_DIR": charm_dir,
        "CLOUD_API_VERSION": "",
        "DEBIAN_FRONTEND": "noninteractive",
        "HOME": str(runtime.paths.home(unit.name)),
        "JUJU_AGENT_SOCKET_ADDRESS": str(socket),
        "JUJU_AGENT_SOCKET_NETWORK": "unix",
        "JUJU_API_ADDRESSES": "127.0.0.1:17070",
        "JUJU_AVAILABILITY_ZONE": "",
        "JUJU_CHARM_DIR": charm_dir,
        "JUJU_CHARM_FTP_PROXY": "",
        "JUJU_CHARM_HTTPS_PROXY": "",
        "JUJU_CHARM_HTTP_PROXY": "",
        "JUJU_CHARM_NO_PROXY": "",
        "JUJU_CONTEXT_ID": context_id,
        "JUJU_DISPATCH_PATH": dispatch_path,
        "JUJU_HOOK_NAME": hook_name,
        "JUJU_MACHINE_ID": str(unit.machine),
        "JUJU_METER_INFO": "not set",
        "JUJU_METER_STATUS": "AMBER",
        "JUJU_MODEL_NAME": uuid,
        "JUJU_MODEL_UUID": uuid,
        "JUJU_PRINCIPAL_UNIT": "",
        "JUJU_SLA": "unsupported",
        "JUJU_UNIT_NAME": unit.name,
        "JUJU_VERSION": JUJU_VERSION,
        "LANG": "C.UTF-8",
        "PATH": f"{runtime.tools}:{runtime.python_bin}:{process.SYSTEM_PATH}",
        "TERM": "screen-256color",
    }
    info = context.hook
    if info is not None and info.relation_id is not None:
        relation = context.relation(info.relation_id)
        variables |= {
            "JUJU_RELATION": relation.endpoint,
            "JUJU_RELATION_ID": relation.fake_id,
            "JUJU_REMOTE_UNIT": info.remote_unit,
            "JUJU_REMOTE_APP": info.remote_app,
        }
        if info.departing_unit:
            variables["JUJU_DEPARTING_UNIT"] = info.departing_unit
    if context.action is not None:
        variables |= {
            "JUJU_ACTION_NAME": context.action.name,
            "JUJU_ACTION_UUID": context.action.id,
            "JUJU_ACTION_TAG": f"action-{context.action.id}",
        }
    return variables
