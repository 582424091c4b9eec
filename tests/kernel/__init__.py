"""Tests on a kernel with everything, in a virtual machine."""
