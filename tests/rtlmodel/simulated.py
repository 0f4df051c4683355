"""What tests of simulated devices share."""

from echo_npu import Device
from echo_npu.backends.rtlmodel import RtlmodelBackend

STALLS = {"aw": 0.2, "w": 0.3, "b": 0.2, "ar": 0.2, "r": 0.3}
"""How likely each channel of the memory is not ready in a cycle."""


def backend_of(device: Device) -> RtlmodelBackend:
    """Return the backend of a simulated device."""
    assert isinstance(device.backend, RtlmodelBackend)
    return device.backend
