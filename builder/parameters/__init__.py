"""Instantiation parameters of services and slices: the files in `dist/params`.

`variants` reads the written files of `params/` and derives others from them, `core` makes those of
a mobile core from one description, `slices` those of slices, and `placement` those of services at
several VIMs. `agreement` compares what the network functions of one file must have in common.
"""
