"""The command `echo-npu`: one module for each family of subcommands."""

from echo_npu.cli.app import app, main

__all__ = ["app", "main"]
