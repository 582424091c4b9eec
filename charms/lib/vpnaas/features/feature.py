"""Interface between a feature of a VNF, the plan, and the unit status."""

from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Tuple, Type, TypeVar

import attr

from vpnaas.peers.inputs import Beside, CharmState
from vpnaas.tunnels.technology import LinkPlan
from vpnaas.vdu.facts import VduFacts
from vpnaas.vdu.ssh import Vdu
from vpnaas.vdu.steps import Results, Step

if TYPE_CHECKING:
    from vpnaas.charm import Charm


@attr.frozen
class Sight:
    """What is known when the plan has decided the links."""

    charm_state: CharmState
    vdu: VduFacts
    results: Results  # Of `Feature.observe`.
    links: Dict[str, LinkPlan]  # A feature may add problems to a link.
    # Why a feature is not as requested, one sentence each, by its name; a feature adds its own.
    problems: Dict[str, str] = attr.Factory(dict)


class Feature:
    """Something on the VDU besides links, in the same round trips; the methods are pure."""

    name = ""  # First word of the ids of its steps.
    vital = False  # Whether no link may come up without it.
    translated: Tuple[str, ...] = ()
    """Interfaces on which packets that it forwards get the VDU's own address."""

    def tools(self, charm_state: CharmState) -> Sequence[str]:
        """Return the programs that a VDU needs for it."""
        return ()

    def observe(self, charm_state: CharmState) -> List[Step]:
        """Return the steps that look at it."""
        return []

    def before_links(self, sight: Sight) -> List[Step]:
        """Return its steps that come before those of links."""
        return []

    def after_links(self, sight: Sight) -> List[Step]:
        """Return its steps that come after those of links; none if it failed before them."""
        return []


class Extra:
    """State of what a VNF has in addition to its links."""

    @property
    def bad(self) -> bool:
        """Tell whether somebody must act."""
        return False

    @property
    def calm(self) -> bool:
        """Tell whether it is as it should be, so that no further reconcile is needed soon."""
        return not self.bad

    def summary(self) -> str:
        """Return the text for the unit status, "" for none."""
        return ""

    def shown(self) -> Dict[str, Any]:
        """Return what show-status adds to the links."""
        return {}


A = TypeVar("A", bound="Addition")


class Addition:
    """What only some VNFs have besides links; it is reconciled after them, in the same session."""

    relations: Tuple[str, ...] = ()
    """Endpoints other than links whose events lead to a reconcile."""

    def __init__(self, charm: "Charm") -> None:
        self.environment = charm.environment

    @classmethod
    def of(cls: Type[A], charm: "Charm") -> A:
        """Return this addition of a charm, for actions on it."""
        assert isinstance(charm.addition, cls)  # noqa: S101 - their kind has both
        return charm.addition

    def configured(self) -> bool:
        """Tell whether there is something to reconcile without any link."""
        return False

    def beside(self) -> Beside:
        return Beside()

    def stored(self) -> str:
        """Return the data in Juju that it depends on, without the relations of links."""
        return ""

    def reconcile(
        self, vdu: Vdu, charm_state: CharmState, seen: VduFacts, plans: Mapping[str, LinkPlan]
    ) -> Optional[Extra]:
        """Bring it to the wanted state; an error is part of the outcome."""
        return None
