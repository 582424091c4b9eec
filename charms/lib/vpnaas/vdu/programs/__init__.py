"""Programs that run on the VDU, one file each.

The charm reads them as text and sends them. They import the standard library only; the exporter
needs prometheus_client too.
"""
