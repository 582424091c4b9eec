"""strongSwan and WireGuard in network namespaces, with traffic, for benchmarks and tests."""
