"""Everything that verifies the NPU, at a chosen level, spread over processes or a cluster, in one report."""
