"""The stand-in for podman in a VDU, and the images (OCI image specification) for a real one."""
