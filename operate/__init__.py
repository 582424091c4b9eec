"""What operators do beyond single commands of `osm`, with the `osm` client and nothing else."""
