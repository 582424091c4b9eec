"""Untrusted non-3GPP access: the N3IWF and its UE (TS 23.501 clause 4.2.8, TS 24.502 clause 7).

IKEv2 (RFC 7296) with EAP-5G (TS 24.502 clause 9.3), ESP (RFC 4303) and GRE (RFC 2890).
"""
