"""The cost of a gateway's tunnels per packet, compared with plain forwarding on the same wires."""
