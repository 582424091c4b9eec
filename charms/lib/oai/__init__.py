"""OpenAirInterface's 4G and 5G network functions on the VDUs, on top of the links of `vpnaas`."""
