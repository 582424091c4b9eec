"""A laboratory that runs the packages as ETSI OSM would, on one Linux machine."""
