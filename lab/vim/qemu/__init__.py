"""VDUs as virtual machines of QEMU, each with a kernel of its own.

The other kind of VDU is in :mod:`lab.vim.server`. Which one an account has is decided when it is
made, see :mod:`lab.vim.kind`.
"""
