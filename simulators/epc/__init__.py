"""The 4G core (TS 23.401), an eNB and a UE.

NAS (TS 24.301), S1AP (TS 36.413), GTPv2-C (TS 29.274), Diameter S6a (RFC 6733, TS 29.272), and the
Cassandra of the HSS (CQL native protocol, version 4).
"""
