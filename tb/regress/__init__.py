"""All verification of the NPU at a chosen level, on processes or a cluster, in one report."""
