"""The topology of services and slices as a picture: what VNFs there are and how their links are."""
