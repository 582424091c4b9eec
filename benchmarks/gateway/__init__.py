"""What a gateway's tunnels cost per packet, beside plain forwarding on the same wires."""
