"""The run: checks the prerequisites, the smallest service with every primitive, then a slice.

All objects that it creates on the OSM have unique names; it deletes them also after a failure.
"""

import json
import re
import secrets
import tarfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from builder import documents
from builder.errors import BuildError
from operate.acceptance import vim
from operate.acceptance.reasons import finding, remedy
from operate.acceptance.report import Report, Step
from operate.acceptance.samples import Sample, samples
from operate.client import OperateError, understood
from operate.nbi import Document, Nbi, Refused, Unreachable
from operate.orders import Undo, order
from operate.osm import (
    NS_OPERATIONS,
    NSDS,
    NSI_OPERATIONS,
    NSTS,
    SERVICES,
    SLICES,
    VIMS,
    VNFDS,
    Osm,
)

#: Packages of the smallest service and of the slice, in the order in which OSM accepts them.
BASIC = (("vpn_endpoint_vnf", VNFDS), ("vpn_basic_ns", NSDS))
SLICE = (
    *((f"{vnf}_vnf", VNFDS) for vnf in ("hss", "mme", "spgwc", "spgwu", "enb")),
    ("epc_ns", NSDS),
    ("embb_nst", NSTS),
)

# Quotas as OSM's records and as `openstack quota set` call them.
QUOTAS = {"vcpus": "cores", "ram": "ram", "instances": "instances"}
WITHOUT_JUJU = 18  # First OSM release whose installer installs no Juju controller.


class Stopped(OperateError):  # noqa: N818
    """A step failed that the following steps need."""


@dataclass
class Acceptance:
    """One run against one OSM."""

    nbi: Nbi  # Session, not logged in yet.
    dist: Path  # Folder of the built packages.
    vim: str  # Name of the VIM account.
    report: Report  # Collects the steps.
    limit: float = 3600.0  # Seconds an operation may take.
    _mark: str = field(default_factory=lambda: f"acceptance-{secrets.token_hex(3)}")
    _vim: Document = field(default_factory=dict)
    _release: int | None = None
    _undo: Undo = field(default_factory=Undo)

    @property
    def osm(self) -> Osm:
        """Services, slices and primitives of the OSM, over the session."""
        return Osm(self.nbi, self.limit, lambda line: self.report.say(f"        {line}"))

    @understood("OSM")
    def run(self, user: str, password: str, project: str, with_slice: bool) -> bool:
        """Run all steps; return True if no step failed."""
        try:
            self._prerequisites(user, password, project)
            self._smallest()
            if with_slice:
                self._slice()
        except Stopped:
            pass
        except BaseException:
            if not self.report.passed:
                raise
            with self._step("rest of the run", needed=False):  # It ended between two steps.
                raise
        finally:
            self._clean_up()
        return self.report.passed

    # -- prerequisites ---------------------------------------------------------------------------

    @contextmanager
    def _step(self, title: str, needed: bool = True) -> Iterator[Step]:
        """Turn errors into the result of a step; stop the run if a needed step failed."""
        with self.report.step(title) as step:
            try:
                yield step
            except OperateError as error:
                text = str(error)
                known = remedy(text) if _of_operation(error) else None
                if known is None:
                    step.fail("OSM refuses it." if isinstance(error, Refused) else text)
                    step.detail = text if isinstance(error, Refused) else ""
                else:
                    step.fail(known.sentence, known.command, text)
        if needed and step.state == "failed":
            raise Stopped(step.sentence)

    def _prerequisites(self, user: str, password: str, project: str) -> None:
        with self._step("connection") as step:
            version = self.nbi.version()
            self.report.release = str(version.get("version") or "?")
            match = re.match(r"v?(\d+)", self.report.release)
            self._release = int(match[1]) if match else None
            step.sentence = f"release {self.report.release}"
        with self._step("token") as step:
            try:
                self.nbi.log_in(user, password, project)
            except Refused as error:
                if error.status >= 500:
                    raise
                step.fail(*finding("no-user", user=user, project=project), str(error))
        with self._step("VIM account") as step:
            self._check_vim(step)
        # Charms need a VCA, but an older OSM has one that its API does not list.
        with self._step("VCA") as step:
            self._check_vca(step)
        with self._step("quotas", needed=False) as step:
            self._check_quotas(step)
        with self._step("VIM itself") as step:
            cloud = vim.connect(step)
        if cloud is None:
            return
        for title, look in vim.CHECKS:
            with self._step(title, needed=False) as step, vim.refusals():
                step.speaker = "OpenStack"
                look(cloud, self._vim.get("config") or {}, step)
        if not self.report.passed:
            raise Stopped("The VIM is not ready.")

    def _check_vim(self, step: Step) -> None:
        accounts = self.nbi.get(VIMS)
        names = ", ".join(sorted(v["name"] for v in accounts)) or "none"
        matching = [v for v in accounts if self.vim in (v["name"], v["_id"])]
        if not matching:
            vca = " --vca osm-vca" if self._without_juju and not self._pods else ""
            step.fail(*finding("no-vim", vim=self.vim, names=names, vca=vca))
            return
        self._vim = self.nbi.get(f"{VIMS}/{matching[0]['_id']}")
        state = self._vim["_admin"].get("operationalState")
        if state != "ENABLED":
            detail = str(self._vim["_admin"].get("detailed-status") or "")
            step.fail(*finding("vim-state", state=state, vim=self.vim), detail)
            return
        config = self._vim.get("config") or {}
        network = config.get("management_network_name") or config.get("management_network_id")
        kind = self._vim.get("vim_type")
        step.sentence = f"{kind}, management network {network or 'found by the name of the link'}"

    @property
    def _without_juju(self) -> bool:
        """Whether the installer of this release installs no Juju controller."""
        return self._release is None or self._release >= WITHOUT_JUJU

    @property
    def _pods(self) -> bool:
        """Whether the built packages have pods (Helm charts) in place of charms."""
        try:
            with tarfile.open(self.dist / f"{BASIC[0][0]}.tar.gz") as archive:
                return any("/helm-charts/" in name for name in archive.getnames())
        except (OSError, EOFError, zlib.error, tarfile.TarError):
            return False  # the onboarding step reports the error

    def _check_vca(self, step: Step) -> None:
        if self._pods:
            step.sentence = "not needed: the packages bring pods, no charms"
            return
        controllers = self.nbi.get("/admin/v1/vca")
        own = self._vim.get("vca")
        if own:
            controllers = [c for c in controllers if own == c["_id"]]
        if not controllers:
            if not self._without_juju:
                step.state = "unknown"
                step.sentence = "none is registered; this release came with one of its own"
                return
            step.fail(*finding("no-vca"))
            return
        bad = [c for c in controllers if c["_admin"].get("operationalState") != "ENABLED"]
        if len(bad) == len(controllers):
            admin = bad[0]["_admin"]
            words = {"name": bad[0]["name"], "state": admin.get("operationalState")}
            step.fail(*finding("vca-state", **words), str(admin.get("detailed-status") or ""))
            return
        step.sentence = ", ".join(c["name"] for c in controllers)
        if not own and self._without_juju:
            step.state = "unknown"
            step.sentence += (
                f"; VIM account {self.vim!r} does not name it (`osm vim-create --vca`), so OSM "
                "uses a controller of its own, if it has one"
            )

    def _check_quotas(self, step: Step) -> None:
        """Compare the quotas, if OSM's monitoring wrote them into the VIM account."""
        compute = (self._vim.get("resources") or {}).get("compute") or {}
        limited = False
        for name, option in QUOTAS.items():
            entry = compute.get(name) or {}
            total, used = entry.get("total"), entry.get("used")
            if not isinstance(total, (int, float)) or not isinstance(used, (int, float)):
                continue
            limited = True
            if not vim.enough(step, name, total, used, option):
                return
        if limited:
            step.sentence = "enough for the smallest service"
        else:
            step.state, step.sentence = "unknown", "OSM does not tell; the service will"

    # -- packages --------------------------------------------------------------------------------

    def _onboard(self, packages: tuple[tuple[str, str], ...]) -> None:
        with self._step("packages") as step:
            fresh = []
            for name, place in packages:
                package = self.dist / f"{name}.tar.gz"
                if not package.exists():
                    step.fail(*finding("no-package", package=package, name=name))
                    return
                if self.nbi.find(place, id=name) is not None:
                    continue  # a package that is already onboarded stays unchanged
                self._undo.add(name, _deleting(self.nbi, place, name))
                self.osm.onboard(place, package)
                fresh.append(name)
            there = [name for name, _ in packages if name not in fresh]
            done = [f"onboarded {', '.join(fresh)}"] if fresh else []
            done += [f"used as they are: {', '.join(there)}"] if there else []
            step.sentence = ", ".join(done)

    # -- the smallest service --------------------------------------------------------------------

    def _smallest(self) -> None:
        self._onboard(BASIC)
        name = self._mark
        with self._step("smallest service") as step:
            given = {"nsDescription": "acceptance", **self._params("vpn_basic")}
            self._undo.add(name, lambda: self.osm.delete_named(SERVICES, name))
            made = order(self.osm, SERVICES, "vpn_basic_ns", name, self._vim["_id"], given)
            self.osm.finished(NS_OPERATIONS, made.operation)
            step.sentence = "instantiated; image, networks, ports and login are as they must be"
        service = self.osm.required(SERVICES, name=name)["_id"]
        with self._step("records") as step:
            self._check_records(service, step)
        self._run_primitives(service)
        with self._step("deletion of the smallest service") as step:
            self.osm.delete_named(SERVICES, name)
            step.sentence = "nothing of it is left in OSM"

    def _check_records(self, service: str, step: Step) -> None:
        nsr = self.osm.service(service)
        for vnfr in self.osm.members(service):
            index = vnfr["member-vnf-index-ref"]
            for vdur in vnfr["vdur"]:
                if vdur["status"] != "ACTIVE" or not vdur.get("ip-address"):
                    name, address = vdur.get("name"), vdur.get("ip-address")
                    state = vdur["status"]
                    words = {"name": name, "index": index, "state": state, "address": address}
                    step.fail(*finding("vdu", **words))
                    return
        state = nsr.get("nsState")
        if state != "READY":
            step.fail(*finding("service", state=state), str(nsr.get("errorDetail") or ""))
            return
        step.sentence = "all VDUs have addresses, the service is READY"

    def _run_primitives(self, service: str) -> None:
        members = {v["member-vnf-index-ref"]: v for v in self.osm.members(service)}
        vnfd = self.nbi.get(f"{VNFDS}/{members['client']['vnfd-id']}")
        known = samples("vpn-client", "10.77.0.2/24", self._application(service, "server"))
        declared = [
            str(primitive["name"])
            for entry in documents.day_1_2(vnfd)
            for primitive in entry.get("config-primitive") or ()
        ]
        self._link_up(service)
        order = [*(p for p in known if p in declared), *(p for p in declared if p not in known)]
        for primitive in order:
            with self._step(f"primitive {primitive}", needed=False) as step:
                sample = known.get(primitive)
                if sample is None:
                    step.state = "skipped"
                    step.sentence = "this acceptance has no parameters for it"
                    continue
                self._run_primitive(service, primitive, sample, step)

    def _link_up(self, service: str) -> None:
        """Wait for the tunnel, which comes up by Juju events after the operation has ended."""
        with self._step("tunnel") as step:
            deadline = time.monotonic() + min(self.limit, 300.0)
            while True:
                answer = self.osm.action(service, "client", "show-status", {})
                state = answer.get("vpn-client", {}).get("state")
                if state == "up":
                    step.sentence = "up"
                    return
                if time.monotonic() > deadline:
                    said = json.dumps(answer)
                    known = remedy(said if "has no address yet" in said else "port security")
                    step.fail(f"The link is {state}.", known.command if known else "", said)
                    return
                time.sleep(self.nbi.pause)

    def _run_primitive(self, service: str, primitive: str, sample: Sample, step: Step) -> None:
        try:
            self.osm.action(service, "client", primitive, sample.params)
        except Refused:
            raise
        except OperateError as error:
            if sample.refusal and sample.refusal in str(error):
                step.sentence = "refuses with its reason, as it must on this link"
                return
            case = "pod-failed" if self._pods else "charm-failed"
            step.fail(*finding(case, service=service), str(error))
            return
        if sample.refusal:
            step.fail(*finding("not-refused", reason=sample.refusal))

    # -- the slice -------------------------------------------------------------------------------

    def _slice(self) -> None:
        self._onboard(SLICE)
        name = f"{self._mark}-slice"
        with self._step("slice of an EPC") as step:
            given = {"nsiDescription": "acceptance", **self._params("embb")}
            self._undo.add(name, lambda: self.osm.delete_named(SLICES, name))
            made = order(self.osm, SLICES, "embb_nst", name, self._vim["_id"], given)
            self.osm.finished(NSI_OPERATIONS, made.operation)
            step.sentence = "instantiated"
        with self._step("links of the slice", needed=False) as step:
            self._check_slice(name, step)
        with self._step("deletion of the slice") as step:
            self.osm.delete_named(SLICES, name)
            step.sentence = "nothing of it is left in OSM"

    def _check_slice(self, name: str, step: Step) -> None:
        up = []
        for service in self.nbi.get(SERVICES):
            if not str(service["name"]).startswith(f"{name}."):
                continue
            for vnfr in self.osm.members(service["_id"]):
                index = vnfr["member-vnf-index-ref"]
                links = self.osm.action(service["_id"], index, "show-status", {})
                for link, status in sorted(links.items()):
                    # What an answer says of the VNF itself is no link.
                    if not isinstance(status, dict) or "peers" not in status:
                        continue
                    if status.get("state") != "up":
                        words = {"link": link, "index": index, "state": status.get("state")}
                        words["service"] = service["_id"]
                        step.fail(*finding("link", **words), json.dumps(status))
                        return
                    up.append(f"{index}/{link}")
        if up:
            step.sentence = f"up: {', '.join(up)}"
        else:
            step.fail(*finding("no-link"))

    # -- deletion --------------------------------------------------------------------------------

    def _clean_up(self) -> None:
        """Delete all objects of this run that still exist, the newest first."""
        left = self._undo.clean()
        if left:
            with self.report.step("cleaning up") as step:
                reasons = "\n".join(f"{name}: {error}" for name, error in left)
                step.fail(*finding("left", name=self._mark), reasons)

    # -- helpers ---------------------------------------------------------------------------------

    def _application(self, service: str, index: str) -> str:
        nsr = self.osm.service(service)
        for vca in nsr["_admin"].get("deployed", {}).get("VCA") or ():
            if vca.get("member-vnf-index") == index:
                return str(vca.get("application"))
        raise OperateError(f"the record of the service names no charm of {index}")

    def _params(self, name: str) -> Document:
        path = self.dist / "params" / f"{name}.yaml"
        try:
            return documents.read(path)
        except BuildError as error:
            raise OperateError(f"{error}; ./run build makes it") from None


def _of_operation(error: OperateError) -> bool:
    """Tell whether an error is about what OSM did, so not about the way to OSM or its login."""
    if isinstance(error, Refused):
        return error.status < 500 and error.status not in (401, 403)
    return not isinstance(error, Unreachable)


def _deleting(nbi: Nbi, place: str, name: str) -> Callable[[], object]:
    def delete() -> None:
        if (package := nbi.find(place, id=name)) is not None:
            nbi.delete(f"{place}/{package['_id']}")

    return delete
