"""Names of a link's files and units of WireGuard on a VDU: `CONF.format(link)`."""

from vpnaas.base.links import DIRECTORY, wireguard_interface

UNIT = "wg-quick@{}.service".format(wireguard_interface("{}"))
CONF = "/etc/wireguard/{}.conf".format(wireguard_interface("{}"))
KEY = DIRECTORY + "/private.key"
NEXT_KEY = DIRECTORY + "/next.key"  # Staged by a rotation.
# A random preshared key, which blocks the next key until the peer uses it; see `handover.py`.
GATE = DIRECTORY + "/gate.psk"
STAGED = DIRECTORY + "/handover.json"  # The next keys that the handover watch waits for.
# The handover watch: its name, also that of its folder in /run, which systemd removes with it; and
# its transient unit.
WATCH = "osm-vpnaas-handover-{}"
WATCH_UNIT = WATCH + ".service"
