"""Each limit of what is supported: nodes up to it are taken, and refused for its reason behind it."""

import re
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

import echo_npu
from echo_npu.device import Device
from echo_npu.server.operations import UnsupportedError, check
from echo_npu.server.protocol import GraphNode
from echo_npu.spec.memory_map import MemoryMap, Region
from tests.runtime.server.honest_nodes import honest_nodes
from tests.runtime.server.limits import (
    attention,
    copies,
    elementwise,
    products,
    rotations,
    rows,
    tensors,
    training,
    windows,
)
from tests.runtime.server.limits.copies import JOINED_BLOCKS, PICKED_BLOCKS, QUANTISED, SCATTERED_BLOCKS
from tests.runtime.server.limits.limit import (
    ADDRESS,
    Limit,
    changed,
    f32,
    i32,
    q4_0,
    q4_1,
    q5_k,
    q8_0,
    steps,
)
from tests.runtime.server.limits.products import EXPERTS
from tests.runtime.server.limits.tensors import BLOCKS
from tests.runtime.server.server_client import node


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    with echo_npu.open("cmodel") as made:
        yield made


def refused(device: Device, made: GraphNode, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=re.escape(reason)):
        check(device, made)


TABLES = (tensors, elementwise, rows, rotations, products, copies, attention, windows, training)
LIMITS = [limit for table in TABLES for limit in table.LIMITS]


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.title)
def test_up_to_a_limit_nodes_are_taken_and_then_refused_for_its_reason(device: Device, limit: Limit) -> None:
    for change in ({}, *limit.taken):
        check(device, changed(limit.made, change))
    for change in limit.refused:
        refused(device, changed(limit.made, change), limit.reason)


OPTIONAL = {
    "SOFT_MAX": [1, 2], "ROPE": [2], "FLASH_ATTN_EXT": [3], "SET_ROWS": [2], "VIEW": [0],
}  # fmt: skip
"""Sources that need not be given; that of SET_ROWS is the result once more."""


@pytest.mark.parametrize("made", honest_nodes(ADDRESS), ids=lambda made: made.op)
def test_a_source_that_is_missing_is_named(device: Device, made: GraphNode) -> None:
    for index in range(len(made.sources)):
        without = changed(made, {index + 1: None})
        if index in OPTIONAL.get(made.op, []):
            check(device, without)
        else:
            refused(device, without, f"{made.op} without its source {index}")


def other_device(device: Device, **facts: Any) -> Device:
    """Return what a check sees of a device with other capabilities."""
    return cast("Device", SimpleNamespace(capabilities=replace(device.capabilities, **facts)))


def test_types_in_blocks_are_those_that_the_device_has(device: Device) -> None:
    other = other_device(device, block_formats=("q8_0",))
    for made in (BLOCKS, QUANTISED, JOINED_BLOCKS, PICKED_BLOCKS, SCATTERED_BLOCKS, EXPERTS):
        check(other, made)
    for made in (
        node("CPY", q4_0(64, 3), f32(64, 3)),
        node("CPY", f32(64, 3), q4_1(64, 3)),
        node("MUL_MAT", f32(3, 2), q4_0(32, 3), f32(32, 2)),
        node("GET_ROWS", f32(64, 2), q4_1(64, 5), i32(2)),
        changed(EXPERTS, {1: q4_0(32, 3, 4)}),
    ):
        check(device, made)
        refused(other, made, "the device has no q4_")


@pytest.mark.parametrize(("size", "most"), [(1 << 20, 1 << 20), (1 << 40, 1 << 32)])
def test_tensors_are_as_large_as_a_region_and_a_stride(device: Device, size: int, most: int) -> None:
    """The smaller of both regions counts, whichever it is."""
    for weight, activation in ((size, 1 << 50), (1 << 50, size)):
        regions = MemoryMap(Region("weight", 0, weight), Region("activation", 1 << 50, activation))
        other = other_device(device, memory=regions)
        for last, taken in ((most - 8, True), (most - 4, False)):
            made = node("CPY", f32(2), steps(f32(2), last, 4, 4, 4))
            if taken:
                check(other, made)
            else:
                refused(other, made, "a tensor larger than memory")


def test_an_empty_result_is_none_of_the_device(device: Device) -> None:
    check(device, node("SQR", q8_0(64, 0), replace(f32(0), type="other")))
    check(device, node("SET_ROWS", q5_k(2, 0), None, q4_0(48, 0)))


def test_a_type_that_an_operation_does_not_take_is_named(device: Device) -> None:
    refused(device, node("SQR", q5_k(2), q5_k(2)), "the type q5_K")
    refused(device, node("MUL_MAT", f32(3, 2), q5_k(2, 3), f32(512, 2)), "the type q5_K")
