"""Simulators of the network functions of a 5G core, a gNB and a UE, with the real protocols.

NGAP and 5G NAS are pycrate's, and the service-based interfaces are HTTP/2 without TLS. They read
the configuration files of OAI's images: one YAML file for the core, libconfig for gNB and UE.
"""
