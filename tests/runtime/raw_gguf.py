"""GGUF files taken apart and put together again, byte by byte, so that any part can be wrong."""

import struct
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

TYPES = {
    "u8": (0, "<B"), "u16": (2, "<H"), "u32": (4, "<I"), "i32": (5, "<i"), "f32": (6, "<f"),
    "bool": (7, "<?"), "text": (8, ""), "list": (9, ""),
    "u64": (10, "<Q"), "i64": (11, "<q"), "f64": (12, "<d"),
}  # fmt: skip
"""The types of fields by short names: their numbers, and how one value is stored."""


def number(value: int, form: str = "<Q") -> bytes:
    return struct.pack(form, value)


def stored(kind: str, value: Any) -> bytes:
    """Return the bytes of a value of a kind, such as "u32" or, for a list, "list of u32"."""
    if kind == "text":
        text = value if isinstance(value, bytes) else value.encode()
        return number(len(text)) + text
    if kind.startswith("list of "):
        element = kind.removeprefix("list of ")
        parts = b"".join(stored(element, each) for each in value)
        return number(TYPES[element][0], "<I") + number(len(value)) + parts
    return struct.pack(TYPES[kind][1], value)


@dataclass(frozen=True)
class Tensor:
    name: str | bytes
    shape: tuple[int, ...]  # the file's order: the longest runs first
    kind: int
    data: bytes
    offset: int | None = None  # None: behind the tensor before


@dataclass(frozen=True)
class RawGguf:
    """A file in parts. Counts are those of the lists where they are None."""

    fields: dict[str | bytes, tuple[str, Any]]
    tensors: list[Tensor]
    magic: bytes = b"GGUF"
    version: int = 3
    field_count: int | None = None
    tensor_count: int | None = None
    more: list[tuple[str, tuple[str, Any]]] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> "RawGguf":
        """Take a whole file apart."""
        gguf = pytest.importorskip("gguf")
        reader = gguf.GGUFReader(str(path))
        names = {code: name for name, (code, _) in TYPES.items()}
        fields: dict[str | bytes, tuple[str, Any]] = {}
        for each in reader.fields.values():
            if not each.name.startswith("GGUF."):
                kinds = [names[int(kind)] for kind in each.types]
                kind = kinds[0] if len(kinds) == 1 else f"list of {kinds[1]}"
                fields[each.name] = (kind, each.contents())
        tensors = [
            Tensor(each.name, tuple(map(int, each.shape)), int(each.tensor_type), each.data.tobytes())
            for each in reader.tensors
        ]
        return cls(fields, tensors)

    def field(self, key: str | bytes, kind: str, value: Any) -> "RawGguf":
        """Return the file with another value of a field."""
        return replace(self, fields=self.fields | {key: (kind, value)})

    def tensor(self, of: str, /, **changes: Any) -> "RawGguf":
        """Return the file with another tensor instead of one."""
        found = [replace(each, **changes) if each.name == of else each for each in self.tensors]
        return replace(self, tensors=found)

    def to_bytes(self) -> bytes:
        fields = [*self.fields.items(), *self.more]
        counts = (
            len(self.tensors) if self.tensor_count is None else self.tensor_count,
            len(fields) if self.field_count is None else self.field_count,
        )
        head = self.magic + struct.pack("<IQQ", self.version, *counts)
        for key, (kind, value) in fields:
            code = TYPES["list" if kind.startswith("list of ") else kind][0]
            head += stored("text", key) + number(code, "<I") + stored(kind, value)
        data = b""
        for each in self.tensors:
            head += stored("text", each.name) + number(len(each.shape), "<I")
            head += b"".join(number(size) for size in each.shape) + number(each.kind, "<I")
            head += number(len(data) if each.offset is None else each.offset)
            data += each.data + bytes(-len(each.data) % 32)
        return head + bytes(-len(head) % 32) + data
