"""Parts of both cores.

Identities (TS 23.003), Milenage (TS 35.206), keys (TS 33.401 annex A), NAS security (TS 24.301
clause 4.4, TS 24.501 clause 4.4), PFCP and the user plane (TS 29.244, TS 23.501 clause 5.8).
"""
