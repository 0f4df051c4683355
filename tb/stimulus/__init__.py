"""Random stimulus as plain data, determined by a seed and a configuration."""
