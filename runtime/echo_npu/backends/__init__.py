"""Find the backends and choose one.

A backend is a module in this package that defines `BACKEND`. Any other name is an error: there is no
fall-back from one backend to another.
"""

import importlib
import os
import pkgutil
from typing import Any

from echo_npu.backends.base import Backend
from echo_npu.errors import BackendError

_INTERNAL = ("base", "board", "simulator")
_FIRST_CHOICE = "rtlmodel"
_chosen: str | None = None


def list_backends() -> list[str]:
    """Return the names of the backends that exist, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name not in _INTERNAL)


def get_backend_name() -> str:
    """Return the backend that is used when none is named.

    It is the one given to `set_default_backend`, else ECHO_NPU_BACKEND, else rtlmodel.

    Raises:
        BackendError: ECHO_NPU_BACKEND names one that does not exist.
    """
    return _existing(_chosen or os.environ.get("ECHO_NPU_BACKEND") or _FIRST_CHOICE)


def set_default_backend(name: str | None) -> None:
    """Choose what `open()` opens in this process; None restores the default. BackendError if unknown."""
    global _chosen
    _chosen = None if name is None else _existing(name)


def get_backend_class(name: str | None = None) -> type[Backend]:
    """Return the class of a backend (default: `get_backend_name()`). BackendError lists those that exist."""
    name = get_backend_name() if name is None else _existing(name)
    backend: type[Backend] = importlib.import_module(f"{__name__}.{name}").BACKEND
    return backend


def get_backend_info(name: str | None = None) -> dict[str, Any]:
    """Return a backend's name, description, has_cycles and whether it is the default, without opening it."""
    backend = get_backend_class(name)
    return {
        "name": backend.name,
        "description": backend.description,
        "has_cycles": backend.has_cycles,
        "default": backend.name == get_backend_name(),
    }


def _existing(name: str) -> str:
    names = list_backends()
    if name not in names:
        raise BackendError(f"there is no backend {name!r}; the backends are {', '.join(names)}")
    return name
