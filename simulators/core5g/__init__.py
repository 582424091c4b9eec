"""The 5G core (TS 23.501, TS 23.502), a gNB and a UE.

NAS (TS 24.501) and NGAP (TS 38.413) are pycrate's. The service-based interfaces (TS 29.500) are
HTTP/2 without TLS. Keys follow TS 33.501 annex A.
"""
