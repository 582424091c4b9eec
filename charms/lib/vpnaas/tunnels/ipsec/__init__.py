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
