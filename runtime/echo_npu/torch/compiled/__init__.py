"""`torch.compile(model, backend="echo_npu")`: graphs of operators as recorded programs."""
