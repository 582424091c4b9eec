"""IPsec on the VDU: strongSwan's charon, told by swanctl, and an interface per link.

Every link has an interface of its own that holds its inner address, whatever carries its packets:

- `xfrm`: the kernel has ESP and XFRM interfaces; packets routed into the interface are what its
  security associations protect, and nothing leaves it while there are none.
- `policy`: the kernel has ESP only; the interface is a TUN nobody reads from, and policies take
  packets before they would get there. While there are none, packets end in it.
- `userspace`: the kernel has no ESP; charon's kernel-libipsec carries packets through its TUN
  `ipsec0`, by routes of its own table. The link's interface is as in `policy`.

A connection is named after its link, its peer and digests of all that it consists of. So a name
that is loaded says that exactly this is loaded, a security association tells by its connection's
name which key of the peer made it, and what does not change is never touched.
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
    parse_version,
    public_key,
)
from vpnaas.tunnels.ipsec.transition import (
    absent,
    promote_key,
    restart,
    stage_key,
    steps_to,
    wake,
)

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
    "parse_version",
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
