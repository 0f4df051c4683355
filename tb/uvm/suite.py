"""The cocotb side: plays each program that tb.uvm.program_campaign requests as a cocotb test."""

import json
import logging
import os
from pathlib import Path
from typing import Any

import cocotb
from pyuvm import ConfigDB, uvm_factory, uvm_root, uvm_test

from tb.stimulus.steps import StepProgram
from tb.testbench import NpuTestbench, npu_test
from tb.uvm.env import NpuEnv
from tb.uvm.sequences import SEQUENCES, TIMEOUT_CYCLES, ProgramSequence, ReplaySequence

REQUESTS_VARIABLE = "ECHO_NPU_UVM"
"""Environment variable with a file: a JSON list of {"sequence", "seed"} or {"program": file}."""


class ProgramTest(uvm_test):  # type: ignore[misc]
    """Plays one program. ConfigDB: SEQUENCE, its type, which the factory may override."""

    def build_phase(self) -> None:
        self.env = NpuEnv.create("env", self)
        ConfigDB().set(None, "*", "ENV", self.env)

    async def run_phase(self) -> None:
        self.raise_objection()
        sequence: ProgramSequence = uvm_factory().create_object_by_type(
            self.cdb_get("SEQUENCE"), name="sequence"
        )
        await sequence.start()
        self.drop_objection()


def program_tests(test: type[ProgramTest]) -> Any:
    """Return the cocotb tests that run `test` on each requested program."""
    requests = json.loads(Path(os.environ[REQUESTS_VARIABLE]).read_text(encoding="utf-8"))

    @npu_test(index=list(range(len(requests))))
    async def test_program(tb: NpuTestbench, index: int) -> None:
        logging.getLogger("cocotb.npu_tb.s_axi").setLevel(logging.WARNING)  # otherwise it logs every byte
        request = requests[index]
        settings: dict[str, Any] = {"TESTBENCH": tb, "SEED": 0, "TIMEOUT_CYCLES": TIMEOUT_CYCLES}
        if "program" in request:
            settings |= {"SEQUENCE": ReplaySequence, "PROGRAM": StepProgram.load(Path(request["program"]))}
        else:
            settings |= {"SEQUENCE": SEQUENCES[request["sequence"]], "SEED": request["seed"]}
        ConfigDB().clear()
        for name, value in settings.items():
            ConfigDB().set(None, "*", name, value)
        await uvm_root().run_test(test, keep_set={ConfigDB})

    return test_program


if cocotb.is_simulation and REQUESTS_VARIABLE in os.environ:
    test_program = program_tests(ProgramTest)
