"""The kind of charm that has links only, which all others extend."""

from vpnaas.charm import Kind
from vpnaas.features.certificate_actions import CertificateActions
from vpnaas.features.gateway.gateway import GatewayActions
from vpnaas.features.manual_peers import PeerActions
from vpnaas.features.measure.measure import MeasureActions
from vpnaas.features.monitoring import MonitoringActions
from vpnaas.features.qos import QosActions
from vpnaas.link_actions import LinkActions
from vpnaas.unit import VduActions

COMMON = (
    VduActions,
    LinkActions,
    PeerActions,
    CertificateActions,
    QosActions,
    GatewayActions,
    MonitoringActions,
)
"""What every charm has; its actions.yaml says which of these actions."""
VNF = Kind("vnf", (*COMMON, MeasureActions))
