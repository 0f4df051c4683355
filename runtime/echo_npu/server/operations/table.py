"""An entry of the table of operations."""

from collections.abc import Callable
from dataclasses import dataclass

from echo_npu.device import Device
from echo_npu.server.operations.base import Emitter
from echo_npu.server.protocol import GraphNode


@dataclass(frozen=True, slots=True)
class GraphOperation:
    """How a node of a graph becomes commands.

    Attributes:
        check: raises UnsupportedError unless the device computes the node.
        emit: leaves the commands of a node that `check` passes.
    """

    check: Callable[[Device, GraphNode], None]
    emit: Callable[[Emitter, GraphNode], None]
