"""The table of technologies; a new one is a line here and a module of its own."""

from typing import Dict

from .over_clear import Clear
from .over_ipsec import Ipsec
from .over_wireguard import Wireguard
from .technology import Technology

TABLE: Dict[str, Technology] = {
    technology.name: technology for technology in (Wireguard(), Ipsec(), Clear())
}
"""By the value of the parameter `technology`."""
