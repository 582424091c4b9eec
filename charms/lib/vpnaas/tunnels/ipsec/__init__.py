"""IPsec on the VDU: strongSwan's charon, configured by swanctl, and an interface per link.

Every link has its own interface with its inner address. Three kinds of data plane carry packets:

- `xfrm`: the kernel has ESP and XFRM interfaces. The security associations protect packets routed
  into the interface. Without them no packet leaves it.
- `policy`: the kernel has ESP only. The interface is a TUN that no process reads. Policies take
  packets before they reach it. Without policies, packets end in it.
- `userspace`: the kernel has no ESP. charon's kernel-libipsec carries packets through its TUN
  `ipsec0`, by routes in its own table. The link's interface is as in `policy`.

The name of a connection consists of its link, its peer and digests of all its settings. So a loaded
name proves that exactly these settings are loaded. The connection name of a security association
shows which key of the peer it uses. Unchanged connections are never touched.
"""

from vpnaas.tunnels.ipsec.configuration import (
    Chain,
    Configuration,
    Made,
    connections,
    render,
    render_up,
)
from vpnaas.tunnels.ipsec.daemon import daemon_conf
from vpnaas.tunnels.ipsec.names import (
    DAEMON,
    POLICY,
    TUN,
    TUN_MTU,
    USERSPACE,
    XFRM,
    conf_path,
    interface_id,
    keep_file,
    secret_file,
    up_file,
)
from vpnaas.tunnels.ipsec.observed import (
    GENERATE,
    Sa,
    State,
    end_of,
    keys_of,
    look,
    observe,
    parse,
    parse_loaded,
    parse_plane,
    parse_sas,
    public_key,
)
from vpnaas.tunnels.ipsec.transition import absent, promote_key, restart, stage_key, steps_to, wake

__all__ = [
    "DAEMON",
    "GENERATE",
    "POLICY",
    "TUN",
    "TUN_MTU",
    "USERSPACE",
    "XFRM",
    "Chain",
    "Configuration",
    "Made",
    "Sa",
    "State",
    "absent",
    "conf_path",
    "connections",
    "daemon_conf",
    "end_of",
    "interface_id",
    "keep_file",
    "keys_of",
    "look",
    "observe",
    "parse",
    "parse_loaded",
    "parse_plane",
    "parse_sas",
    "promote_key",
    "public_key",
    "render",
    "render_up",
    "restart",
    "secret_file",
    "stage_key",
    "steps_to",
    "up_file",
    "wake",
]
