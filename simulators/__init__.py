"""Simulators of the network functions of a 4G EPC; those of a 5G core are in `fiveg`.

They speak the real protocols. Each replaces one container image that an offline machine cannot
pull: the HSS (S6a), the MME (S6a, S11, S1-C), the SPGW-C (S11, SXab), the SPGW-U (SXab, S1-U, SGi),
an eNB and a UE. It reads the same configuration files as the image. Charms and packages need no
change.
"""
