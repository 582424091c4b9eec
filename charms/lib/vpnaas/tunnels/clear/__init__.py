"""Technology `none`: a link without a tunnel, the baseline of a measurement.

The inner addresses and their routes lie on the underlay (`routes`).
"""
