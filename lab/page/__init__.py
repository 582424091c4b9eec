"""The web page of a lab: pictures of services and slices, operations, primitives as forms."""
