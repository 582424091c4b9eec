"""A pod as the execution environment of a charm: state in a Secret, offers in ConfigMaps."""

import logging
import os
from typing import Any, Dict, FrozenSet, List, Mapping, Optional, Tuple

import attr
from vpnaas.base.errors import InputError, NotReadyError
from vpnaas.base.links import PROVIDER, REQUIRER
from vpnaas.environment import Environment, Related

from . import offers
from .cluster import Cluster, ClusterError
from .state import State

logger = logging.getLogger(__name__)

MEMBER = "member"
RELATIONS = "relations"
MEMBERS = "members"
KEY_FILE = "id_ed25519"


class HelmEnvironment(Environment):
    """One release of the chart. It has one pod at a time, which is always the leader."""

    def __init__(
        self,
        cluster: Cluster,
        folder: str,
        charm: Mapping[str, Any],
        charts: Optional[Mapping[str, Mapping[str, Any]]] = None,
    ) -> None:
        """Read the state from the cluster.

        Args:
            cluster: Access to our objects.
            folder: For files of this pod.
            charm: metadata.yaml of the charm, and its actions in `actions`.
            charts: metadata.yaml of all charts that a release may have, by name.

        Raises:
            ClusterError: The cluster does not answer.
        """
        self.folder = folder
        self.actions = frozenset(charm["actions"])
        self._cluster = cluster
        self._charm = charm
        self._charts = charts or {}
        self._state = State.from_json(cluster.state())
        self._settled = ""
        self._bags: Dict[offers.Relation, Dict[str, str]] = self._published_before()
        self._status = ""
        self._texts: Mapping[str, str] = {}
        self._read: Optional[Tuple[Dict[str, offers.Document], List[str]]] = None
        self._restore_key()

    def look(self) -> None:
        """Take the offers that the next job of the charm sees, as Juju does for a hook.

        A change that comes during a job waits for the next one. If the job saw it in part, its
        digest of what is settled could contain a change that it has not applied.
        """
        self._texts = self._cluster.offers()
        self._read = None

    # State

    def _change(self, **changes: Any) -> None:
        state = attr.evolve(self._state, **changes)
        if state != self._state:
            try:
                self._cluster.keep_state(state.to_json())
            except ClusterError as error:
                raise NotReadyError(str(error))
            self._state = state

    def _restore_key(self) -> None:
        """Write the SSH key to the files where the charm's code looks for it."""
        for name, text in self._state.key.items():
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
            path = os.path.join(self.folder, name)
            handle = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
            with os.fdopen(handle, "w") as stream:
                stream.write(text)

    def keep_key(self) -> None:
        """Store the SSH key that the charm's code made, for the next pod."""
        key = {}
        for name in (KEY_FILE, KEY_FILE + ".pub"):
            with open(os.path.join(self.folder, name), encoding="ascii") as stream:
                key[name] = stream.read()
        self._change(key=key)

    def configure(self, options: Mapping[str, str]) -> None:
        """Store the options of the primitive `config`; options it does not name stay."""
        merged = dict(self._state.options, **options)
        for relation in offers.relations("config: relations", merged.get(RELATIONS, "")):
            if relation.endpoint not in self._endpoints():
                what = "this charm has no endpoint {}".format(relation.endpoint)
                raise InputError("config: relations", what, ", ".join(sorted(self._endpoints())))
        offers.named("config: members", merged.get(MEMBERS, ""))
        self._change(options=merged)
        self._read = None

    def option(self, name: str) -> str:
        return str(self._state.options.get(name, ""))

    def stored(self, key: str) -> str:
        return str(self._state.stored.get(key, ""))

    def store(self, key: str, value: str) -> None:
        self._change(stored=dict(self._state.stored, **{key: value}))

    def settled(self) -> str:
        return self._settled

    def settle(self, digest: str) -> None:
        self._settled = digest

    def announce(self, key: str) -> None:
        pass

    def set_status(self, blocked: bool, text: str) -> None:
        # OSM asks for no status, so it goes into the log.
        shown = "{}: {}".format("blocked" if blocked else "active", text)
        if shown != self._status:
            logger.info("%s", shown)
        self._status = shown

    # Relations

    def _endpoints(self) -> FrozenSet[str]:
        return frozenset(self._charm.get("provides") or {}) | frozenset(
            self._charm.get("requires") or {}
        )

    def endpoints(self, interface: str) -> Dict[str, str]:
        return {
            name: role
            for role, key in ((PROVIDER, "provides"), (REQUIRER, "requires"))
            for name, endpoint in (self._charm.get(key) or {}).items()
            if endpoint["interface"] == interface
        }

    def _relations(self, endpoint: str) -> List[offers.Relation]:
        listed = offers.relations("config: relations", self.option(RELATIONS))
        return [relation for relation in listed if relation.endpoint == endpoint]

    def _documents(self) -> Tuple[Dict[str, offers.Document], List[str]]:
        """Return the document of each related member, and sentences about refused documents.

        The name of an object can be trusted: an environment can change only its own object, and LCM
        names it by the chart. The member in the text is only a claim. So a claim counts if a chart
        of that name has the end of the relation. The first object that claims a member is this
        member for good; a later claim stays refused until `config` names its object in `members`.
        """
        if self._read is None:
            self._read = self._read_documents()
        return self._read

    def _read_documents(self) -> Tuple[Dict[str, offers.Document], List[str]]:
        claims: Dict[str, Dict[str, offers.Document]] = {}
        problems = []
        for name, text in sorted(self._texts.items()):
            if name == self._cluster.name or not text:
                continue
            try:
                document = offers.decode(name, text)
            except InputError as error:
                problems.append(str(error))
                continue
            claims.setdefault(document.member, {})[name] = document
        own = self.option(MEMBER)
        listed = [relation for e in self._endpoints() for relation in self._relations(e)]
        documents, members = {}, dict(self._state.members)
        refused = {member: list(names) for member, names in self._state.refused.items()}
        trusted = offers.named("config: members", self.option(MEMBERS))
        for member in sorted({relation.member for relation in listed} - {own}):
            charts = self._fitting([each for each in listed if each.member == member])
            claimants = claims.get(member, {})
            for name in sorted(claimants):
                if charts and name.rpartition("-")[0] not in charts:
                    what = "{} says that it is {}; it is no release of {}, so it is not believed"
                    problems.append(what.format(name, member, " or ".join(charts)))
                    del claimants[name]
            against = refused.setdefault(member, [])
            if member in trusted:
                members[member] = trusted[member]
                against[:] = [name for name in against if name != trusted[member]]
            taken = {name for other, name in members.items() if other != member}
            fresh = [n for n in sorted(claimants) if n not in against and n not in taken]
            if len(fresh) == 1 and members.get(member) not in claimants:
                members[member] = fresh[0]
            believed = members.get(member, "")
            against += [n for n in sorted(claimants) if n != believed and n not in against]
            if believed in claimants:
                documents[member] = claimants[believed]
            others = [name for name in sorted(claimants) if name != believed]
            if others:
                problems.append(_refusal(member, believed, believed in claimants, others))
        refused = {member: names for member, names in refused.items() if names}
        self._change(members=members, refused=refused)
        return documents, problems

    def _fitting(self, relations: List[offers.Relation]) -> List[str]:
        """Return the charts that can be the other end of all these relations, [] if unknown."""
        own = self._charm.get("provides") or {}
        return [
            chart
            for chart, declared in sorted(self._charts.items())
            if all(
                each.remote
                in (declared.get("requires" if each.endpoint in own else "provides") or {})
                for each in relations
            )
        ]

    def problems(self) -> Tuple[str, ...]:
        return tuple(self._documents()[1])

    def related(self, endpoint: str) -> List[Related]:
        documents, _ = self._documents()
        own = self.option(MEMBER)
        found = [
            (relation.id, relation.member, documents[relation.member].for_reader(relation, own))
            for relation in self._relations(endpoint)
            if relation.member in documents
        ]
        return sorted(found, key=lambda item: item[0])

    def published(self, endpoint: str) -> List[Mapping[str, str]]:
        return [self._bags.get(relation, {}) for relation in self._relations(endpoint)]

    def relation_ids(self, endpoint: str) -> List[int]:
        return [relation.id for relation in self._relations(endpoint)]

    def tell(self, endpoint: str, relation_id: int, values: Mapping[str, str]) -> None:
        # `publish` sends it.
        for relation in self._relations(endpoint):
            if relation.id == relation_id:
                self._bags.setdefault(relation, {}).update(values)

    def _published_before(self) -> Dict[offers.Relation, Dict[str, str]]:
        try:
            text = self._cluster.offers().get(self._cluster.name, "")
            return {r: dict(bag) for r, bag in offers.decode("own", text).bags.items()}
        except InputError:
            return {}

    def publish(self) -> None:
        """Send the databags to the cluster.

        Raises:
            ClusterError: The cluster does not answer.
        """
        if not self.option(MEMBER):
            return
        listed = {relation for e in self._endpoints() for relation in self._relations(e)}
        bags = {relation: self._bags.get(relation, {}) for relation in listed}
        self._cluster.tell(offers.encode(offers.Document(self.option(MEMBER), bags)))


def _refusal(member: str, believed: str, there: bool, others: List[str]) -> str:
    """Return the sentence on releases that claim a member and are not believed."""
    if there:
        known = "{} is {}".format(believed, member)
    elif believed:
        known = "{} was {} and is gone".format(believed, member)
    else:
        known = "more than one release says that it is {}".format(member)
    return "{}; the claim of {} is not believed; allowed: config with members: {}={}".format(
        known, " and ".join(others), member, others[0]
    )
