"""Work on services that run: refresh their charms, rotate the keys of a link to the end."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from operate.client import Client, OperateError, understood
from operate.join import End

UPDATE = 600  # Seconds that OSM may take to refresh the charm of a VNF.


@understood("OSM")
def upgrade(client: Client, service: str, dist: Path) -> Iterator[str]:
    """Refresh the charms of a service from the packages of a folder; yield a line for each step.

    OSM takes the packages first, as new revisions. It then refreshes the charm of one VNF after the
    other; tunnels stay up.
    """
    record = client.document("ns-show", service)
    vnfs = [client.document("vnf-show", key) for key in record["constituent-vnfr-ref"]]
    packages = {str(vnf["vnfd-ref"]): dist / f"{vnf['vnfd-ref']}.tar.gz" for vnf in vnfs}
    missing = sorted(str(path) for path in packages.values() if not path.is_file())
    if missing:
        raise OperateError(f"{missing[0]} is not there; allowed: --dist with all packages built")
    for name, path in sorted(packages.items()):
        client.verb("vnfpkg-update", name, "--content", str(path))
        yield f"{name}: OSM has {path}"
    for vnf in vnfs:
        update = {"vnfInstanceId": vnf["_id"], "vnfdId": vnf["vnfd-id"]}
        config = json.dumps({"changeVnfPackageData": [update]})
        words = ("--updatetype", "CHANGE_VNFPKG", "--config", config, "--timeout", str(UPDATE))
        client.verb("ns-update", service, *words, "--wait")
        yield f"{service}/{vnf['member-vnf-index-ref']}: its charm is that of the package"


@understood("the VNF")
def rotate(client: Client, end: End, force: bool, timeout: float) -> Iterator[str]:
    """Rotate the key of a link and wait until the new one is in use; yield a line for each change.

    With ``force`` it does not wait for peers that have not acknowledged the key.
    """

    def run(primitive: str, **params: Any) -> dict[str, Any]:
        given = {"link": end.link, **params}
        answer = client.action(end.service, end.vnf, primitive, given, instance=end.instance)
        return dict(answer[end.link])

    started = run("rotate-keys", force=force)
    if started["rotation"] == "failed":
        raise OperateError(f"the key of {end} is the old one: {started.get('reason')}")
    yield f"{end}: {started['rotation']}"
    deadline = time.monotonic() + timeout
    while (shown := run("show-status"))["rotation"] != "none":
        if time.monotonic() > deadline:
            raise OperateError(
                f"the rotation of {end} goes on: {shown.get('reason') or 'no reason given'}; "
                "--force does not wait for the peers"
            )
        time.sleep(client.pause)
    yield f"{end}: key {shown['key-generation']}, {shown['public-key']}, is in use"
    for peer in started.get("manual-peers") or ():
        yield f"enter the new key at the manual peer {peer}"
