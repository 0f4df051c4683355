"""Language models that generate text on the NPU."""
