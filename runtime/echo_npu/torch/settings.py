"""What is said before a device of PyTorch opens, and what becomes of operators that are not native."""

import os
from typing import Final

from echo_npu.backends import get_backend_name
from echo_npu.devices import Settings

FALLBACKS: Final = ("allow", "warn", "error")


def announcement(settings: Settings) -> str | None:
    """Return what to say before a device opens that nobody has chosen and that takes long; else None."""
    if settings.backend is not None or os.environ.get("ECHO_NPU_BACKEND") or get_backend_name() != "rtlmodel":
        return None
    return (
        f"echo_npu is the RTL in simulation (rtlmodel, configuration {settings.config}), which is built on "
        "first use; ECHO_NPU_BACKEND=cmodel chooses the functional model"
    )


def fallback_policy() -> str:
    """Return ECHO_NPU_FALLBACK: "allow" (default), "warn" or "error"; ValueError for anything else."""
    policy = os.environ.get("ECHO_NPU_FALLBACK", "") or "allow"
    if policy not in FALLBACKS:
        raise ValueError(f"ECHO_NPU_FALLBACK is {policy!r}; it is one of {', '.join(FALLBACKS)}")
    return policy
