"""A virtual infrastructure manager on one Linux machine.

A server (VDU) is a real systemd with cloud-init and sshd in its own pid, mount, uts, ipc, net and
cgroup namespaces, over an overlay of the machine's own root; or it is a virtual machine of QEMU. A
network is a bridge in a network namespace of the VIM. See ``docs/reference/lab-vim.md``.
"""
