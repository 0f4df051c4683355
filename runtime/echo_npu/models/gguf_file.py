"""A GGUF file: its tensors, and its fields with their types checked."""

import reprlib
from pathlib import Path
from typing import Any

import numpy as np

from echo_npu.models.extras import require
from echo_npu.models.gguf_layout import check_layout


class GgufFile:
    """The fields and tensors of a GGUF file.

    Raises:
        MissingExtraError: the package gguf is not installed.
        FileNotFoundError: no such file.
        ValueError: no whole GGUF file.
    """

    def __init__(self, path: Path) -> None:
        gguf = require("gguf")
        try:
            there = path.is_file()
        except OSError as error:  # of a name that is too long, or in a folder that may not be read
            raise FileNotFoundError(f"there is no model file {path}: {error.strerror}") from None
        if not there:
            raise FileNotFoundError(f"there is no model file {path}")
        self.file_name = path.name
        self._dequantize = gguf.quants.dequantize
        try:
            check_layout(path, {int(kind): size for kind, size in gguf.GGML_QUANT_SIZES.items()})
            self._reader = gguf.GGUFReader(str(path))
        except Exception as error:  # the reader of the package raises whatever a damaged file leads to
            raise ValueError(f"{path.name} is no whole GGUF file: {error}") from None
        self._tensors = {tensor.name: tensor for tensor in self._reader.tensors}

    def metadata(self, key: str) -> Any:
        """Return the value of a metadata field; ValueError if the file has none of that name."""
        value = self.optional(key)
        if value is None:
            raise ValueError(f"{self.file_name} has no metadata field {key}")
        return value

    def optional(self, key: str) -> Any:
        """Return the value of a metadata field, or None if the file has none of that name."""
        field = self._reader.get_field(key)
        try:
            return None if field is None else field.contents()
        except UnicodeDecodeError:
            raise ValueError(f"{self.file_name}: the field {key} is no UTF-8 text") from None

    def whole(self, key: str, least: int = 1) -> int:
        """Return a field that is a whole number from `least` to 2^31 - 1; ValueError for another one."""
        value = self.metadata(key)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 1 << 31:
            raise self._unlike(key, value, f"a whole number from {least} to {(1 << 31) - 1}")
        return value

    def real(self, key: str, least: float) -> float:
        """Return a field that is a number from `least` to float32's greatest; ValueError for another."""
        value = self.metadata(key)
        most = float(np.finfo(np.float32).max)
        if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:
            raise self._unlike(key, value, f"a number from {least} to {most:.4g}")
        return float(value)

    def text(self, key: str) -> str:
        """Return a field that is text; ValueError for another one."""
        value = self.metadata(key)
        if not isinstance(value, str):
            raise self._unlike(key, value, "text")
        return value

    def texts(self, key: str) -> list[str]:
        """Return a field that is a list of texts; ValueError for another one."""
        value = self.metadata(key)
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self._unlike(key, value, "a list of texts")
        return value

    def wholes(self, key: str, count: int) -> list[int]:
        """Return a field that is a list of `count` whole numbers; ValueError for another one."""
        value = self.metadata(key)
        fits = isinstance(value, list) and len(value) == count
        if not fits or not all(isinstance(each, int) for each in value):
            raise self._unlike(key, value, f"a list of {count} whole numbers")
        found: list[int] = value
        return found

    def _unlike(self, key: str, value: Any, wanted: str) -> ValueError:
        return ValueError(f"{self.file_name}: the field {key} is {reprlib.repr(value)}; it must be {wanted}")
