"""Functions of a VNF beside its tunnels: guard, QoS, measurements, metrics, gateway and pair."""
