"""OpenAirInterface's 4G network functions on the VDUs, on top of the links of `vpnaas`."""
