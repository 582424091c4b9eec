"""A virtual infrastructure manager on one Linux machine.

A server (VDU) is a real systemd with cloud-init and sshd in its own pid, mount, uts, ipc, net and
cgroup namespaces, over an overlay of the machine's own root; or it is a virtual machine of QEMU. A
network is a bridge in a network namespace of the VIM. See ``docs/reference/lab-vim.md``.
"""

from lab.vim.account import Vim, clean, same_config, vca_prefix
from lab.vim.connector import VimConnector, connect, create, is_openstack
from lab.vim.dataplane import probe
from lab.vim.errors import VimError
from lab.vim.model import Network, NetworkSpec, Port, PortSpec, Server, ServerSpec

__all__ = [
    "Network",
    "NetworkSpec",
    "Port",
    "PortSpec",
    "Server",
    "ServerSpec",
    "Vim",
    "VimConnector",
    "VimError",
    "clean",
    "connect",
    "create",
    "is_openstack",
    "probe",
    "same_config",
    "vca_prefix",
]
