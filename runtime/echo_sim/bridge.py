"""Serve the primitives of the backend rtlmodel from inside the simulator until the client disconnects.

While this process waits for a request it sleeps in the kernel, and no simulated time passes. So the cycles
that a program measures depend on its requests alone. Device memory is shared with the client and needs no
requests.
"""

import os
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import cocotb
import numpy as np
from cocotb.handle import HierarchyObject
from cocotb.triggers import Timer

from echo_sim import protocol
from echo_sim.host_window import HostWindow
from echo_sim.native import Dram
from echo_sim.protocol import OPERATION
from echo_sim.registers import CLOCK_NS, RegisterPort, RegisterRefusedError
from echo_sim.trace_recorder import TraceRecorder

_RESET_CYCLES = 10

Reply: TypeAlias = tuple[dict[str, Any], bytes]
Handler: TypeAlias = Callable[[dict[str, Any], bytearray], Awaitable[Reply]]


class Server:
    """Answers requests. A reply is a head and bytes."""

    def __init__(self, dut: HierarchyObject) -> None:
        self._dut: Any = dut
        self._dram = Dram()
        self._registers = RegisterPort(dut)
        self._window = HostWindow(dut)
        self._trace = TraceRecorder(dut)
        self._simulating = 0.0
        self._handlers: Mapping[str, Handler] = {
            "run": self._run,
            "read": self._read,
            "write": self._write,
            "memory_timing": self._memory_timing,
            "trace_start": self._trace_start,
            "trace_stop": self._trace_stop,
            "statistics": self._statistics,
        }

    async def reset(self) -> None:
        """Hold the device in reset for a few cycles."""
        self._dut.rst_n.value = 0
        await Timer(_RESET_CYCLES * CLOCK_NS, "ns")
        self._dut.rst_n.value = 1
        await Timer(_RESET_CYCLES * CLOCK_NS, "ns")

    async def answer(self, head: dict[str, Any], data: bytearray) -> Reply:
        """Return the reply to one request. An exception becomes a reply too."""
        started = time.perf_counter()
        try:
            handler = self._handlers.get(head["do"])
            if handler is None:
                raise ValueError(f"there is no request {head['do']!r}")
            reply = await handler(head, data)
        except RegisterRefusedError as error:
            reply = {"error": str(error), "kind": "bus", "offset": error.offset, "access": error.access}, b""
        except ValueError as error:
            reply = {"error": str(error), "kind": "value"}, b""
        except Exception as error:  # the client must be told of every failure
            cocotb.log.exception("the request %r failed", head)
            reply = {"error": f"{type(error).__name__}: {error}", "kind": "internal"}, b""
        self._simulating += time.perf_counter() - started
        return reply

    async def _run(self, _head: dict[str, Any], data: bytearray) -> Reply:
        results = (await self._registers.perform(np.frombuffer(data, OPERATION))).tobytes()
        if self._trace.running:
            return {"cycle": self._trace.cycle}, results + self._trace.take()
        return {}, results

    async def _read(self, head: dict[str, Any], _: bytearray) -> Reply:
        response = await self._window.front_read(head["address"], head["nbytes"])
        _check_response("read", head["address"], response.resp)
        return {}, bytes(response.data)

    async def _write(self, head: dict[str, Any], data: bytearray) -> Reply:
        response = await self._window.front_write(head["address"], bytes(data))
        _check_response("write", head["address"], response.resp)
        return {}, b""

    async def _memory_timing(self, head: dict[str, Any], _: bytearray) -> Reply:
        self._dram.configure(head["set"])
        return {}, b""

    async def _trace_start(self, _head: dict[str, Any], _: bytearray) -> Reply:
        return self._trace.start(), b""

    async def _trace_stop(self, _head: dict[str, Any], _: bytearray) -> Reply:
        self._trace.stop()
        return {"cycle": self._trace.cycle}, self._trace.take()

    async def _statistics(self, _head: dict[str, Any], _: bytearray) -> Reply:
        figures = {
            "cycles": int(self._dut.cycle.value),
            "wall_s": self._simulating,
            **self._dram.statistics(),
        }
        return {"statistics": figures, "violations": self._dram.violations()}, b""


def _check_response(access: str, address: int, response: Any) -> None:
    if int(response):
        raise ValueError(f"the host window answered a {access} at 0x{address:08x} with {response!r}")


@cocotb.test()
async def serve(dut: HierarchyObject) -> None:
    """Serve requests. This is a test only because cocotb runs nothing else."""
    server = Server(dut)
    await server.reset()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.connect("\0" + os.environ["ECHO_NPU_BRIDGE"])
        while True:
            try:
                head, data = protocol.receive(link)
                protocol.send(link, *await server.answer(head, data))
            except protocol.LinkClosedError:
                return
            except protocol.GarbledMessageError as error:
                cocotb.log.error("the client cannot be understood any more: %s", error)
                return
