"""Octets between machines.

SCTP (RFC 9260), UDP with retransmission, GTP-U (TS 29.281), TLV-coded messages (TS 29.274 clause 8,
TS 29.244 clause 8), aligned PER (X.691), TUN devices, and the link that replaces the radio.
"""
