"""How the charm works on a VDU: steps, the SSH session that runs them, and their results.

A step is data. The charm sends a list of steps to the VDU in one round trip. The agent in
`programs` runs them there.
"""
