"""strongSwan in network namespaces, for the IPsec benchmarks and the gateway tests."""
