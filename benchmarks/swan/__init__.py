"""strongSwan in network namespaces: what the IPsec benchmarks and gateway tests share."""
