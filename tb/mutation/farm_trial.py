"""Run random programs on the backend rtlfarm: python -m tb.mutation.farm_trial SEED FOLDER.

Prints the difference that it finds as JSON, with the keys chunk, command, address and what; null if there is
none. The RTL and the change in it come from the environment. Chunks that differ are kept in FOLDER.

Exit status: 0 whether or not something differs.
"""

import json
import random
import sys
from typing import Any, Final

import numpy as np

import echo_npu
from echo_npu.commands.packets import Packet
from echo_npu.errors import RtlMismatchError
from echo_sim.config import load_config
from tb.mutation.tree import CONFIG
from tb.stimulus.hazards import MEETINGS, HazardMaker
from tb.stimulus.programs import ProgramMaker

PROGRAMS: Final = 12
COMMANDS: Final = 25
PAIRS: Final = 3
CHUNK_CYCLES: Final = 20_000


def draw(seed: int) -> list[tuple[dict[int, bytes], list[Packet]]]:
    """Draw submissions, each with what device memory must hold before it, by address."""
    rng, hardware = random.Random(seed), load_config(CONFIG)
    drawn: list[tuple[dict[int, bytes], list[Packet]]] = []
    for _ in range(PROGRAMS):
        maker = ProgramMaker(rng, hardware)
        packets = [packet for command in maker.loads() for packet in command]
        for _ in range(COMMANDS):
            packets += maker.draw([*maker.kinds, maker.vector_case], irq=0.1)
        drawn.append((maker.images, packets))
        hazards = HazardMaker(rng, hardware)
        pairs = list(hazards.loads())
        for _ in range(PAIRS):
            pairs += hazards.pair(rng.choice(MEETINGS))
        drawn.append((hazards.images, pairs))
    return drawn


def find(seed: int, folder: str) -> dict[str, Any] | None:
    """Run the programs of a seed; return what differs first."""
    try:
        with echo_npu.open("rtlfarm", CONFIG, jobs=1, chunk_cycles=CHUNK_CYCLES, failures=folder) as device:
            for images, packets in draw(seed):
                for address, data in images.items():
                    device.memcpy(address, np.frombuffer(data, np.uint8), len(data))
                device.submit_batch(packets)
                device.finish()
    except RtlMismatchError as error:
        what = str(error).splitlines()[0]
        return {"chunk": error.chunk, "command": error.command, "address": error.address, "what": what}
    return None


if __name__ == "__main__":
    print(json.dumps(find(int(sys.argv[1]), sys.argv[2])))
