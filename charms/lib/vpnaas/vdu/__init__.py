"""How the charm works on a VDU: steps, the SSH session that runs them, and what they find.

A step is data. A list of steps goes to the VDU in one round trip, where the agent in `programs`
runs it.
"""
