"""The native operators, by their kind. Each module registers its own."""

from importlib import import_module


def load() -> None:
    """Import all modules."""
    for name in (
        "attention",
        "composed",
        "convolution",
        "elementwise",
        "encoder",
        "filling",
        "indexing",
        "joining",
        "loss",
        "matrix",
        "norm",
        "optimizers",
        "pool",
        "recurrent",
        "reductions",
        "scattering",
        "softmax",
    ):
        import_module(f"{__name__}.{name}")
