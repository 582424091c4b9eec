"""The peers of a link: their offers, their admission, and the addresses and keys they hold.

Only this package reads and checks the data that a peer publishes.
"""
