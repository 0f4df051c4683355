"""Blocks as a file has them, of the types that the matrix engine does not multiply by."""

from echo_npu.server.operations.file_blocks.blocks import FileBlocks
from echo_npu.server.operations.file_blocks.formats import FILE_FORMATS, FileFormat

__all__ = ["FILE_FORMATS", "FileBlocks", "FileFormat"]
