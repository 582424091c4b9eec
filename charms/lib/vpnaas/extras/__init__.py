"""What a VNF has beside its tunnels.

These are the guard, QoS, measurements and metrics, and what a security gateway or a pair needs.
"""
