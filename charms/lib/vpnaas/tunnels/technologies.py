"""The table of technologies. To add one, write its module and add a line here."""

from typing import Any, Dict

from vpnaas.tunnels.clear import Clear
from vpnaas.tunnels.ipsec.technology import Ipsec
from vpnaas.tunnels.technology import Technology
from vpnaas.tunnels.wireguard.technology import Wireguard

TABLE: Dict[str, Technology[Any]] = {
    technology.name: technology for technology in (Wireguard(), Ipsec(), Clear())
}
"""By the value of the parameter `technology`."""
