"""What the operator asks for, as typed values.

The parameters of links, of IPsec, of pools and of QoS are parsed and checked here. Nothing here
writes a file or a command for a VDU.
"""
