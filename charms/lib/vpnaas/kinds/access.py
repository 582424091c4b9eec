"""The kind of charm of an access VNF, whose peers are devices."""

from vpnaas.charm import Kind
from vpnaas.features.access import DeviceActions, Devices
from vpnaas.kinds.vnf import VNF

ACCESS = Kind("access", (*VNF.groups, DeviceActions), Devices)
