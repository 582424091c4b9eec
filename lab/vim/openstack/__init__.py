"""VIM accounts of a real OpenStack, through openstacksdk. They do there what OSM's RO does."""

from lab.vim.openstack.access import answers
from lab.vim.openstack.connector import OpenStack

__all__ = ["OpenStack", "answers"]
