"""One device on many cores: RTL simulation in parallel through time (docs/scale.md)."""

from echo_npu.backends.rtlfarm.backend import RtlfarmBackend

BACKEND = RtlfarmBackend
