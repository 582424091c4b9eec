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
KEY_FILE = "id_ed25519"


class HelmEnvironment(Environment):
    """One release of the chart. It has one pod at a time, which is always the leader."""

    def __init__(self, cluster: Cluster, folder: str, charm: Mapping[str, Any]) -> None:
        """Read the state from the cluster.

        Args:
            cluster: Access to our objects.
            folder: For files of this pod.
            charm: metadata.yaml of the charm, and its actions in `actions`.

        Raises:
            ClusterError: The cluster does not answer.
        """
        self.folder = folder
        self.actions = frozenset(charm["actions"])
        self._cluster = cluster
        self._charm = charm
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
        """Store the options of the primitive `config`; options it does not name stay.

        Raises:
            InputError: A relation has another form, or an end that this charm does not have.
        """
        merged = dict(self._state.options, **options)
        for relation in offers.relations("config: relations", merged.get(RELATIONS, "")):
            if relation.endpoint not in self._endpoints():
                what = "this charm has no endpoint {}".format(relation.endpoint)
                raise InputError("config: relations", what, ", ".join(sorted(self._endpoints())))
        self._change(options=merged)

    def option(self, name: str) -> str:
        return str(self._state.options.get(name, ""))

    def has_store(self) -> bool:
        return True

    def stored(self, key: str) -> str:
        return str(self._state.stored.get(key, ""))

    def store(self, key: str, value: str) -> None:
        self._change(stored=dict(self._state.stored, **{key: value}))

    def settled(self) -> str:
        return self._settled

    def settle(self, digest: str) -> None:
        self._settled = digest

    def is_leader(self) -> bool:
        return True

    def unit_keys(self) -> Dict[str, str]:
        return {}

    def announce(self, key: str) -> None:
        pass

    def others_go_on(self) -> bool:
        return False

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

        The name of an object can be trusted: an environment can change only its own object. The
        member in the text is only a claim. So the first object that claims a member keeps it while
        it exists; a second one is refused.
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
        related = {r.member for e in self._endpoints() for r in self._relations(e)} - {own}
        documents, members = {}, dict(self._state.members)
        for member in sorted(related & set(claims)):
            claimants = claims[member]
            if members.get(member) not in claimants:
                if len(claimants) > 1:
                    problems.append(
                        "{} say that they are {}; none is believed".format(
                            " and ".join(sorted(claimants)), member
                        )
                    )
                    continue
                members[member] = min(claimants)
            documents[member] = claimants[members[member]]
            if len(claimants) > 1:
                problems.append(
                    "{} is {}; another claim is not believed".format(members[member], member)
                )
        self._change(members=members)
        return documents, problems

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
