"""What the devices of PyTorch are opened with: `configure`, and the environment."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from echo_npu.backends import get_backend_class, get_backend_name

MOST_DEVICES: Final = 16
FALLBACKS: Final = ("allow", "warn", "error")


@dataclass(frozen=True, slots=True)
class Settings:
    """How devices are opened.

    Attributes:
        backend: a name of `echo_npu.list_backends()`; None: the default one, ECHO_NPU_BACKEND.
        config: the hardware configuration.
        devices: how many NPUs there are.
        options: of the backend.
    """

    backend: str | None = None
    config: str = "default"
    devices: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)


def from_environment() -> Settings:
    """Return the settings of ECHO_NPU_CONFIG and ECHO_NPU_DEVICES; ValueError for no number of devices."""
    text = os.environ.get("ECHO_NPU_DEVICES", "") or "1"
    if not text.isascii() or not text.isdigit():
        raise ValueError(f"ECHO_NPU_DEVICES is {text!r}; it is a number of devices")
    return checked(Settings(config=os.environ.get("ECHO_NPU_CONFIG", "") or "default", devices=int(text)))


def checked(settings: Settings) -> Settings:
    """Return the settings; TypeError, ValueError or BackendError for those with which nothing can open."""
    if not isinstance(settings.devices, int) or isinstance(settings.devices, bool):
        raise TypeError(
            f"devices is {settings.devices!r} ({type(settings.devices).__name__}); it is a number"
        )
    if not 1 <= settings.devices <= MOST_DEVICES:
        raise ValueError(f"devices is {settings.devices}; it is 1 to {MOST_DEVICES}")
    if settings.backend is not None:
        get_backend_class(settings.backend)
    return settings


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
