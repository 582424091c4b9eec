"""WireGuard: its interface on the VDU (`interface`), and how a link uses it (`technology`)."""
