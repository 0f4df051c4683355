"""The gates of a hierarchical netlist as one flat table, which `gates.cpp` simulates.

The file is little-endian: the magic number, then for each of the arrays its length in elements and its
elements, all of 32 bits. `gates.cpp` reads them in the same order.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from echo_sim.build import BuildError

MAGIC: Final = 0x45544147
ZERO, ONE, UNDEFINED = range(3)
"""The first nets: the constants, and a bit that is random in each run."""
CONSTANTS: Final = {"0": ZERO, "1": ONE, "x": UNDEFINED, "z": UNDEFINED}
TRUTH_TABLES: Final = {
    "$_BUF_": 0b10101010,
    "$_NOT_": 0b01010101,
    "$_AND_": 0b10001000,
    "$_OR_": 0b11101110,
    "$_XOR_": 0b01100110,
    "$_MUX_": 0b11001010,
}
"""What gates compute: bit S * 4 + B * 2 + A is the output. A pin that a gate lacks is 0."""
BUFFER: Final = TRUTH_TABLES["$_BUF_"]
ROOT: Final = 0
"""The domain of the clock itself."""

Ints = NDArray[np.int32]


class _Definition:
    """A module: its cells as arrays of nets. The constants come first, then the bits of Yosys."""

    def __init__(self, name: str, module: Mapping[str, Any], modules: Mapping[str, Any], gate: str) -> None:
        self.ports: list[tuple[bool, list[int]]] = []
        self.port_names = list(module["ports"])
        self.inner: list[tuple[str, dict[str, list[int]]]] = []
        self.gates_of_clocks: list[list[int]] = []
        self.memories: list[tuple[Mapping[str, str], dict[str, list[int]]]] = []
        gates: list[tuple[int, int, int, int, int]] = []
        registers: list[tuple[int, int, int, int]] = []
        for port in module["ports"].values():
            if port["direction"] not in ("input", "output"):
                raise BuildError(f"{name} has a port of direction {port['direction']}")
            self.ports.append((port["direction"] == "input", _nets(port["bits"])))
        for cell in module["cells"].values():
            kind = cell["type"]
            pins = {pin: _nets(bits) for pin, bits in cell["connections"].items()}
            if kind in TRUTH_TABLES:
                first = pins["A"][0]
                gates.append(
                    (
                        TRUTH_TABLES[kind],
                        first,
                        pins.get("B", [ZERO])[0],
                        pins.get("S", [ZERO])[0],
                        pins["Y"][0],
                    )
                )
            elif kind in ("$_DFF_P_", "$_DFFE_PP_"):
                registers.append((pins["C"][0], pins.get("E", [ONE])[0], pins["D"][0], pins["Q"][0]))
            elif kind == gate:
                self.gates_of_clocks.append(
                    [pins[pin][0] for pin in ("clk_i", "enable_i", "test_enable_i", "clk_o")]
                )
            elif kind in modules:
                self.inner.append((kind, pins))
            elif kind == "$mem_v2":
                self.memories.append((cell["parameters"], pins))
            else:
                raise BuildError(f"{name} has a cell {kind}, which is no gate")
        self.gates = np.array(gates, np.int32).reshape(-1, 5)
        self.registers = np.array(registers, np.int32).reshape(-1, 4)
        used: Iterable[int] = itertools.chain(
            self.gates[:, 1:].reshape(-1).tolist(),
            self.registers.reshape(-1).tolist(),
            *(nets for _, nets in self.ports),
            *(nets for _, pins in self.inner for nets in pins.values()),
            *(nets for _, pins in self.memories for nets in pins.values()),
            *self.gates_of_clocks,
        )
        self.nets = max(used, default=UNDEFINED) + 1


def _nets(bits: Sequence[int | str]) -> list[int]:
    return [CONSTANTS[bit] if isinstance(bit, str) else bit + len(CONSTANTS) for bit in bits]


class _Flat:
    """All gates of a design while its instances are walked."""

    def __init__(self, modules: Mapping[str, Any], gate: str) -> None:
        self.nets = len(CONSTANTS)
        self.gates: list[Ints] = []
        self.registers: list[Ints] = []
        self.clock_gates: list[list[int]] = []
        self.memories: list[tuple[Mapping[str, str], dict[str, list[int]]]] = []
        self._gate = gate
        self._definitions = {
            name: _Definition(name, module, modules, gate) for name, module in modules.items() if name != gate
        }

    def add(self, name: str, outer: Mapping[str, list[int]] | None) -> dict[str, list[int]]:
        """Add an instance whose ports are the nets `outer`, new ones for None; return its ports' nets."""
        module = self._definitions[name]
        nets = np.full(module.nets, -1, np.int32)
        nets[list(CONSTANTS.values())] = list(CONSTANTS.values())
        aliases: list[tuple[int, int]] = []
        for port, (is_input, inside) in sorted(
            zip(module.port_names, module.ports, strict=True), key=lambda item: not item[1][0]
        ):
            outside = outer.get(port) if outer is not None else None
            if outside is None:
                if is_input and outer is not None:
                    outside = [UNDEFINED] * len(inside)
                else:
                    outside = list(range(self.nets, self.nets + len(inside)))
                    self.nets += len(inside)
            for within, without in zip(inside, outside, strict=True):
                if nets[within] < 0:
                    nets[within] = without
                elif not is_input or outer is None:
                    aliases.append((without, within))
        new = np.flatnonzero(nets < 0)
        nets[new] = np.arange(self.nets, self.nets + len(new), dtype=np.int32)
        self.nets += len(new)
        gates = module.gates.copy()
        gates[:, 1:] = nets[module.gates[:, 1:]]
        self.gates.append(gates)
        buffers = [(BUFFER, int(nets[within]), ZERO, ZERO, without) for without, within in aliases]
        self.gates.append(np.array(buffers, np.int32).reshape(-1, 5))
        self.registers.append(nets[module.registers])
        self.clock_gates += [nets[each].tolist() for each in module.gates_of_clocks]
        for parameters, pins in module.memories:
            self.memories.append((parameters, {pin: nets[each].tolist() for pin, each in pins.items()}))
        for child, pins in module.inner:
            self.add(child, {pin: nets[each].tolist() for pin, each in pins.items()})
        return {
            port: nets[inside].tolist()
            for port, (_, inside) in zip(module.port_names, module.ports, strict=True)
        }


def write_table(modules: Mapping[str, Any], top: str, gate: str, path: Path, clock: str = "clk") -> None:
    """Write the table of the design `modules` of Yosys's JSON.

    Args:
        modules: gates, registers at the rising edge, memories without registers, and instances.
        top: name of the module at the top.
        gate: name of the module that is a clock gate.
        path: file to write.
        clock: port of `top`.

    Raises:
        BuildError: a cell or a port that the table cannot hold.
    """
    flat = _Flat(modules, gate)
    ports = flat.add(top, None)
    directions = {name: port["direction"] for name, port in modules[top]["ports"].items()}
    gates = np.concatenate(flat.gates)
    registers = np.concatenate(flat.registers)
    domains = _domains(ports[clock][0], flat.clock_gates, gates)
    clocks = registers[:, 0]
    memories = [_memory(parameters, pins, domains) for parameters, pins in flat.memories]
    if strange := set(clocks.tolist()) - domains.keys():
        raise BuildError(f"{len(strange)} clocks of registers come from no clock gate")
    registers[:, 0] = [domains[net] for net in clocks.tolist()]
    registers = registers[np.argsort(registers[:, 0], kind="stable")]
    gated = [[domains[out], domains[source], enable, test] for source, enable, test, out in flat.clock_gates]
    inputs = [net for name in ports if directions[name] == "input" and name != clock for net in ports[name]]
    outputs = [net for name in ports if directions[name] == "output" for net in ports[name]]
    _write(
        path,
        [
            [flat.nets],
            inputs,
            outputs,
            gates.reshape(-1),
            registers.reshape(-1),
            sorted(gated) and np.array(sorted(gated)).reshape(-1),
            list(itertools.chain.from_iterable(memories)),
        ],
    )


def _domains(clock: int, gates: Sequence[Sequence[int]], buffers: Ints) -> dict[int, int]:
    """Return the domain of each net that is a clock; a clock has a lower number than those made of it."""
    domains = {clock: ROOT}
    left = list(gates)
    while left:
        ready = [each for each in left if each[0] in domains]
        if not ready:
            raise BuildError(f"{len(left)} clock gates have a clock that comes from no other")
        for each in ready:
            domains[each[3]] = len(set(domains.values()))
        left = [each for each in left if each not in ready]
    if np.isin(buffers[:, 1:4], list(domains)).any():
        raise BuildError("a clock is an input of a gate")
    return domains


def _memory(
    parameters: Mapping[str, str], pins: Mapping[str, list[int]], domains: Mapping[int, int]
) -> list[int]:
    """Return a memory's words: sizes, then each read port, then each write port."""
    number = {
        name: int(parameters[name], 2)
        for name in ("SIZE", "WIDTH", "ABITS", "OFFSET", "RD_PORTS", "WR_PORTS")
    }
    reads, writes, width, abits = (number[name] for name in ("RD_PORTS", "WR_PORTS", "WIDTH", "ABITS"))
    if "1" in parameters["RD_CLK_ENABLE"][-reads:] or number["OFFSET"]:
        raise BuildError("a memory has registers of its own, or does not begin at 0")
    if "0" in parameters["WR_CLK_ENABLE"][-writes:] or "0" in parameters["WR_CLK_POLARITY"][-writes:]:
        raise BuildError("a memory is not written at the rising edge")
    words = [number["SIZE"], width, abits, reads, writes]
    for port in range(reads):
        words += pins["RD_ADDR"][port * abits : (port + 1) * abits]
        words += pins["RD_DATA"][port * width : (port + 1) * width]
    for port in range(writes):
        words.append(domains[pins["WR_CLK"][port]])
        words += pins["WR_ADDR"][port * abits : (port + 1) * abits]
        words += pins["WR_DATA"][port * width : (port + 1) * width]
        words += pins["WR_EN"][port * width : (port + 1) * width]
    return words


def _write(path: Path, arrays: Sequence[Any]) -> None:
    with open(path, "wb") as file:
        file.write(np.array([MAGIC], "<i4").tobytes())
        for each in arrays:
            values = np.asarray(each, "<i4").reshape(-1)
            file.write(np.array([len(values)], "<i4").tobytes())
            file.write(values.tobytes())
