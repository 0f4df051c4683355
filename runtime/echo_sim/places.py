"""Where the hardware's sources, builds and waveforms are.

In a checkout of the repository they are rtl/, sim_build/ and waves/. In an installed package the sources
lie in the package, builds in the user's cache folder, and waveforms in waves/ of the current folder.
"""

import os
from pathlib import Path
from typing import Final

from platformdirs import user_cache_path

PACKAGE: Final = Path(__file__).resolve().parent
CACHE_VARIABLE: Final = "ECHO_NPU_CACHE"
"""Names a folder in which builds are kept, in `echo-npu`, in place of the usual one."""
RTL_VARIABLE: Final = "ECHO_NPU_RTL"
"""Names a folder whose sources are simulated in place of rtl/; it has the same files, npu.f among them."""


def _checkout() -> Path | None:
    root = PACKAGE.parents[1]
    return root if (root / "rtl" / "npu.f").is_file() and (root / "pyproject.toml").is_file() else None


CHECKOUT: Final = _checkout()
"""The repository that this package is used from; None for an installed package."""
OWN_RTL: Final = (CHECKOUT or PACKAGE) / "rtl"
"""The NPU's sources as they were published."""
RTL: Final = Path(os.environ.get(RTL_VARIABLE) or OWN_RTL).resolve()
"""The sources that are simulated."""
CONFIGS: Final = OWN_RTL / "configs"
BOARD: Final = PACKAGE / "board"
CHECKERS: Final = PACKAGE / "checkers"
WAIVERS: Final = OWN_RTL / "waivers.vlt"


def _builds() -> Path:
    if named := os.environ.get(CACHE_VARIABLE):
        # A folder of its own in it: whoever clears the cache deletes nothing else.
        return Path(named).resolve() / "echo-npu"
    return CHECKOUT / "sim_build" if CHECKOUT else user_cache_path("echo-npu", appauthor=False)


SIM_BUILD: Final = _builds()
WAVES: Final = (CHECKOUT or Path.cwd()) / "waves"
