"""What a VNF has beside its tunnels.

The guard, QoS, measurements, metrics, and all that makes a VDU a security gateway or one of a pair.
"""
