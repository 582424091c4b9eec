"""The topology of services and slices as a picture: VNFs and links with their states."""
