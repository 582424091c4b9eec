"""The peers of a link: what they offer, which of them are admitted, and what they then own.

What a peer publishes is read and checked here, and nowhere else.
"""
