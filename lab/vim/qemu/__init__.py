"""VDUs as virtual machines of QEMU, each with its own kernel.

The other kind of VDU is in :mod:`lab.vim.namespaced`. The kind is chosen when an account is made,
see :mod:`lab.vim.vdu`.
"""
