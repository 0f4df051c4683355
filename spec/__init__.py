"""The contract between programs and the NPU, and what is generated from it."""
