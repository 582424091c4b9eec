"""The kind of charm of a security gateway that may be one of a pair."""

from vpnaas.charm import Kind
from vpnaas.features.pair.pair import Pair, PairActions
from vpnaas.kinds.vnf import VNF

GATEWAY = Kind("gateway", (*VNF.groups, PairActions), Pair)
