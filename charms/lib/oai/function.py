"""What the rest of the charm must know of a kind of network function; each has a module."""

from typing import Callable, Tuple, Type

import attr

from .model import Software
from .params import Common, Eps


@attr.frozen
class Function:
    """A kind of network function."""

    kind: str
    params: Type[Common]
    software: Callable[..., Software]
    containers: Tuple[str, ...] = ()  # In the order they start; () for one with the kind's name.
    secrets: bool = False  # Whether it needs the keys of operator and subscribers.
    levelled: bool = True  # Whether its configuration has a log level.
    # Whether it is configured with an interface, and uses its first IPv4 address.
    first_address: bool = False
    # Parameter with a device that only UEs may use, and its value that needs no check.
    for_ues: Tuple[str, str] = ("", "")
    # Parameter with the interface of a user plane towards the data network.
    data_network: str = ""
    # The station whose address a UE needs, and the relation that has it.
    station: Tuple[str, str] = ("", "")
    # Starts of the names of the network devices that its containers make.
    devices: Tuple[str, ...] = ()
    # Modules of the kernel whose features an image needs; `kernel.py` looks for them.
    kernel: Tuple[str, ...] = ()

    @property
    def names(self) -> Tuple[str, ...]:
        """Return its containers, in the order they start."""
        return self.containers or (self.kind,)

    @property
    def in_5gs(self) -> bool:
        """Tell whether it is a network function of 5GS, which has slices and no realm."""
        return not issubclass(self.params, Eps)
