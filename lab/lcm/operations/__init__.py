"""The operations on a network service: each has ``run(work, operation)``; none knows another."""
