"""What PyTorch calls when it is imported (entry point `torch.backends`)."""

import warnings


def autoload() -> None:
    """Register the device. A failure is a warning, so that `import torch` always works."""
    try:
        from echo_npu.torch.registration import register

        register()
    except Exception as error:
        warnings.warn(f"the device echo_npu is not available: {error!r}", RuntimeWarning, stacklevel=2)
