"""A llama layer on 1, 2 and 3 NPUs: the same bits, fewer cycles on each.

python examples/sharding.py [--backend cmodel|rtlmodel] [--config default|small]
"""

import argparse
import contextlib

import echo_npu
from echo_npu.sharding.report import TINY, report_layer, usual_format
from echo_sim.config import config_argument


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="rtlmodel", choices=["cmodel", "rtlmodel"])
    parser.add_argument("--config", type=config_argument, default="default")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        devices = [
            stack.enter_context(echo_npu.open(options.backend, config=options.config)) for _ in range(3)
        ]
        kept = usual_format(devices[0])
        reports = [
            report_layer(devices[:count], "tiny", TINY, tokens=4, block_format=kept) for count in (1, 2, 3)
        ]
    for report in reports:
        cycles = ", ".join(f"{each:,}" for each in report.cycles)
        gain = "" if report.speedup is None else f", speed-up {report.speedup:.2f}"
        print(f"{report.devices} devices: cycles {cycles}; {report.traffic_bytes:,} bytes between them{gain}")
    same = all(report.bit_exact for report in reports)
    print(f"bits of one device: {'equal' if same else 'DIFFERENT'}")
    if not same:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
