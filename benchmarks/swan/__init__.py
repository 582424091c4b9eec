"""strongSwan and WireGuard in network namespaces, for benchmarks and the gateway tests."""
