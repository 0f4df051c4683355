"""Check that a GGUF file is whole, before anything is made of what it says."""

import itertools
import mmap
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_SCALAR_BYTES: Final = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_UINT32: Final = 4
_STRING: Final = 8
_ARRAY: Final = 9
_VERSIONS: Final = (2, 3)

MOST_ELEMENTS: Final = 1 << 22
"""Elements of all arrays of a file together: a Python object is made of each."""


def check_layout(path: Path, sizes: Mapping[int, tuple[int, int]]) -> None:
    """Raise ValueError with a sentence unless header and tensors of a file are whole and lie within it.

    Args:
        sizes: values and bytes of a block of each type of tensor.
    """
    if path.stat().st_size == 0:
        raise ValueError("it is empty")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        _LayoutWalk(data, sizes).check()


class _LayoutWalk:
    """Goes through a file, field by field; every step is within the file or refused."""

    def __init__(self, data: mmap.mmap, sizes: Mapping[int, tuple[int, int]]) -> None:
        self._data = data
        self._sizes = sizes
        self._at = 0
        self._elements = 0

    def check(self) -> None:
        if self._data[: min(4, len(self._data))] != b"GGUF":
            raise ValueError("it does not begin with GGUF")
        self._skip(4)
        version = self._number("<I")
        if version not in _VERSIONS:
            raise ValueError(f"its version is {version}; the supported ones are 2 and 3, little-endian")
        tensors, fields = self._number("<Q"), self._number("<Q")
        alignment = self._check_fields(fields)
        self._check_tensors(tensors, alignment)

    def _skip(self, count: int) -> int:
        """Go on by so many bytes, and return where they begin."""
        if count > len(self._data) - self._at:
            raise ValueError(f"it ends after {len(self._data)} bytes, before its header does")
        self._at += count
        return self._at - count

    def _number(self, form: str) -> int:
        found: int = struct.unpack_from(form, self._data, self._skip(struct.calcsize(form)))[0]
        return found

    def _name(self, seen: set[str], what: str) -> str:
        count = self._number("<Q")
        start = self._skip(count)
        try:
            name = self._data[start : start + count].decode()
        except UnicodeDecodeError:
            raise ValueError(f"the name of a {what} is no UTF-8 text") from None
        if name in seen:
            raise ValueError(f"it has two {what}s {name}")
        seen.add(name)
        return name

    def _check_fields(self, count: int) -> int:
        """Go past the fields, and return the alignment of tensors."""
        seen: set[str] = set()
        alignment = 32
        for _ in range(count):
            name, kind = self._name(seen, "field"), self._number("<I")
            start = self._at
            self._skip_value(name, kind)
            if name == "general.alignment":
                alignment = struct.unpack_from("<I", self._data, start)[0] if kind == _UINT32 else 0
                if alignment == 0 or alignment & (alignment - 1):
                    raise ValueError("its general.alignment is no uint32 that is a power of two")
        return alignment

    def _skip_value(self, name: str, kind: int) -> None:
        if kind != _ARRAY:
            self._skip_elements(name, kind, 1)
            return
        element, count = self._number("<I"), self._number("<Q")
        self._elements += count
        if self._elements > MOST_ELEMENTS:
            raise ValueError(f"its arrays up to {name} have {self._elements} elements, over {MOST_ELEMENTS}")
        self._skip_elements(name, element, count)

    def _skip_elements(self, name: str, kind: int, count: int) -> None:
        if kind == _STRING:
            for _ in range(count):
                self._skip(self._number("<Q"))
        elif kind in _SCALAR_BYTES:
            self._skip(count * _SCALAR_BYTES[kind])
        else:
            raise ValueError(f"the field {name} has values of the unknown type {kind}")

    def _check_tensors(self, count: int, alignment: int) -> None:
        seen: set[str] = set()
        places: list[tuple[int, int, str]] = []
        for _ in range(count):
            name = self._name(seen, "tensor")
            offset, size = self._tensor(name)
            if offset % alignment:
                raise ValueError(f"tensor {name} begins at {offset}, no multiple of {alignment}")
            places.append((offset, size, name))
        start = -(-self._at // alignment) * alignment
        places.sort()
        for offset, size, name in places:
            if offset + size > len(self._data) - start:
                raise ValueError(f"it ends after {len(self._data)} bytes, before the tensor {name} does")
        for (offset, size, name), (behind, _, other) in itertools.pairwise(places):
            if offset + size > behind:
                raise ValueError(f"the tensors {name} and {other} overlap")

    def _tensor(self, name: str) -> tuple[int, int]:
        """Return where a tensor begins, from the first one on, and its bytes."""
        dimensions = self._number("<I")
        if not 1 <= dimensions <= 4:
            raise ValueError(f"tensor {name} has {dimensions} dimensions")
        shape = [self._number("<Q") for _ in range(dimensions)]
        kind, offset = self._number("<I"), self._number("<Q")
        if kind not in self._sizes:
            raise ValueError(f"tensor {name} has the unknown type {kind}")
        values, size = self._sizes[kind]
        if shape[0] % values:
            raise ValueError(f"tensor {name} has rows of {shape[0]} values, no multiple of {values}")
        blocks = shape[0] // values
        for count in shape[1:]:
            blocks *= count
        return offset, blocks * size
