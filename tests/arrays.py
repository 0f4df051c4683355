"""Random operands of every type."""

import numpy as np


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Draw normally distributed float32, the same for the same arguments."""
    return np.random.default_rng([seed, *shape]).standard_normal(shape, dtype=np.float32)


def elements(name: str, *shape: int, seed: int = 0) -> np.ndarray:
    """Draw an array of a type: normally distributed, or any int8; bfloat16 as its bits in uint16."""
    if name == "int8":
        return np.random.default_rng([seed, *shape]).integers(-128, 128, shape).astype(np.int8)
    values = normal(*shape, seed=seed)
    if name in ("bfloat16", "uint16"):
        return (values.view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(name)
