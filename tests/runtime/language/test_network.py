"""A model's steps on the device: against float64, and whatever parts a text is read in."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

import echo_npu
from echo_npu import Device, NpuOutOfMemoryError
from echo_npu.formats import named_format
from echo_npu.language.group import PLACES
from echo_npu.language.network import PAIR, Network, Weights
from echo_npu.language.reference import ReferenceModel
from echo_npu.models import reference
from echo_npu.models.gguf_model import GgufModel
from echo_npu.models.layer_types import StackCase
from echo_npu.spec.memory_map import region_of
from tests.refusals import refuses
from tests.runtime.language.conftest import MakeNetwork
from tests.runtime.model_files import CONTEXT, LAYERS, write_model

HALF_BOUND = 4e-3
"""Largest error of a logit for rows, weights and cache in float16, relative to the largest logit."""


def prompt(length: int, vocabulary: int, seed: int) -> NDArray[np.int32]:
    return np.random.default_rng(seed).integers(0, vocabulary, length, np.int32)


def read(network: Network, ids: NDArray[np.int32], parts: list[int]) -> None:
    """Read a text in parts of the given lengths."""
    position = 0
    for count in parts:
        with network.record_prompt(position, count) as program:
            program.run(ids=ids[position : position + count])
        position += count


def truth(model: GgufModel, ids: NDArray[np.int32], layers: int = LAYERS) -> NDArray[np.float64]:
    return reference.stack_logits(
        StackCase(
            "small", "small", model.config, layers, model.layer, model.tensor("token_embd.weight"),
            model.tensor("output_norm.weight"), ids, str, (),
        )
    )  # fmt: skip


@pytest.mark.parametrize(("length", "layers"), [(1, LAYERS), (2, 1), (9, LAYERS), (40, 2)])
def test_logits_against_float64(
    model: GgufModel, make_network: MakeNetwork, length: int, layers: int
) -> None:
    network = make_network(layers=layers)
    ids = prompt(length, network.vocabulary, length)
    read(network, ids, [length])
    logits, expected = network.logits.to_numpy()[0], truth(model, ids, layers)
    assert np.abs(logits - expected).max() < HALF_BOUND * np.abs(expected).max()
    assert network.next.to_numpy()[0] == np.argmax(logits)


@pytest.mark.parametrize(
    "parts",
    [[1] * 13, [12, 1], [1, 12], [5, 3, 5], [PAIR], [PAIR + 1, 1], [PAIR - 1, PAIR + 9], [1, 2 * PAIR]],
)
def test_the_parts_of_a_text_do_not_matter(make_network: MakeNetwork, parts: list[int]) -> None:
    whole, split = make_network(), make_network()
    ids = prompt(sum(parts), whole.vocabulary, 5)
    read(whole, ids, [1] * sum(parts) if max(parts) >= PAIR else [sum(parts)])
    read(split, ids, parts)
    for name in ("keys", "values", "logits", "next token"):
        ours, theirs = (each.tensors[name].to_numpy() for each in (whole, split))
        assert np.array_equal(ours.view(np.uint8), theirs.view(np.uint8)), name


@pytest.mark.parametrize(("context", "count"), [(2, 2), (PAIR - 1, PAIR - 1), (PAIR + 1, PAIR - 1)])
def test_a_small_context_has_room_for_each_step(make_network: MakeNetwork, context: int, count: int) -> None:
    wide, small = make_network(layers=1), make_network(layers=1, context=context)
    ids = prompt(count, wide.vocabulary, context)
    for network in (wide, small):
        read(network, ids, [count])
    for ours, theirs in (
        (wide.tensors["keys"][:, :count], small.tensors["keys"][:, :count]),
        (wide.logits, small.logits),
    ):
        assert np.array_equal(ours.to_numpy().view(np.uint8), theirs.to_numpy().view(np.uint8))


def test_the_next_token_is_read_from_the_device(make_network: MakeNetwork) -> None:
    told, untold = make_network(), make_network()
    ids = prompt(6, told.vocabulary, 7)
    for network in (told, untold):
        read(network, ids, [6])
    for position in range(6, 9):
        token = told.next.to_numpy()
        with told.record_prompt(position, 1) as program:
            program.run(ids=token)
        with untold.record_next(position) as program:
            program.run()
        assert np.array_equal(told.logits.to_numpy(), untold.logits.to_numpy())


def step(network: Network, position: int) -> None:
    with network.record_next(position) as program:
        program.run()


def test_one_program_serves_several_positions(
    make_network: MakeNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a run of `PLACES`; results are those of steps that are recorded for their position."""
    told, untold = make_network(), make_network()
    recorded: list[Device] = []
    record = Device.record
    monkeypatch.setattr(Device, "record", lambda device: (recorded.append(device), record(device))[1])
    first = PLACES - 3
    ids = prompt(first, told.vocabulary, 11)
    for network in (told, untold):
        read(network, ids, [first])
    for name, left in (("keys", np.nan), ("values", np.inf)):  # by another text
        behind = untold.tensors[name][:, first:]
        behind.copy_from(np.full(behind.shape, left, behind.dtype))
    recorded.clear()
    for position in range(first, PLACES + 3):
        token = told.next.to_numpy()
        with told.record_prompt(position, 1) as program:
            program.run(ids=token)
        step(untold, position)
        assert np.array_equal(told.logits.to_numpy(), untold.logits.to_numpy())
        assert untold.position.to_numpy().tolist() == [position + 1]
    assert recorded.count(untold.device) == 2
    for name in ("keys", "values"):
        ours, theirs = (each.tensors[name][:, : PLACES + 3].to_numpy() for each in (told, untold))
        assert np.array_equal(ours, theirs)


def test_a_step_follows_a_shorter_text_after_a_longer_one(make_network: MakeNetwork) -> None:
    """Also at the position behind the last step: what the longer text left there may be infinite."""
    used, fresh = make_network(), make_network()
    ids = prompt(12, used.vocabulary, 13)
    with used.record_prompt(0, 12) as longer:
        read(used, ids, [5])
        step(used, 5)
        longer.run(ids=ids)
    behind = used.tensors["values"][:, 7:12]
    behind.copy_from(np.full(behind.shape, np.inf, behind.dtype))
    for network in (used, fresh):
        read(network, ids, [6])
        network.set_next(3)
        step(network, 6)
    assert np.array_equal(used.logits.to_numpy(), fresh.logits.to_numpy())


def test_a_step_goes_back_and_survives_a_reset(make_network: MakeNetwork) -> None:
    network = make_network()
    ids = prompt(5, network.vocabulary, 12)
    read(network, ids, [5])
    found = []
    for _ in range(2):
        network.set_next(3)
        for position in (5, 6):
            step(network, position)
        found.append(network.logits.to_numpy())
        network.device.reset()
    assert np.array_equal(*found)


def test_an_own_head(make_network: MakeNetwork, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("own") / "head.gguf"
    original = write_model(path, own_head=True)
    source = GgufModel(path)
    network = make_network(source)
    ids = prompt(4, network.vocabulary, 3)
    read(network, ids, [4])
    logits, expected = network.logits.to_numpy()[0], ReferenceModel(source).read(ids)[-1]
    assert np.argmax(logits) == network.next.to_numpy()[0]
    assert np.abs(logits - expected).max() < HALF_BOUND * np.abs(expected).max()
    assert original["output.weight"].shape == (network.vocabulary, source.config.hidden)


def test_weights_that_fill_a_region_go_to_the_other(model: GgufModel, make_network: MakeNetwork) -> None:
    roomy = make_network()
    with echo_npu.open("cmodel") as device:
        device.malloc(device.memory_statistics()["weight"].largest_free_block - (1 << 16), region="weight")
        crowded = Network(device, model, context=CONTEXT)
        regions = [region_of(each.ptr, each.nbytes) for each in crowded.tensors.values()]
        assert {region.name for region in regions if region is not None} == {"weight", "activation"}
        ids = prompt(5, crowded.vocabulary, 1)
        for network in (roomy, crowded):
            read(network, ids, [5])
        assert np.array_equal(roomy.logits.to_numpy(), crowded.logits.to_numpy())


def test_a_model_that_does_not_fit_is_refused(model: GgufModel) -> None:
    with echo_npu.open("cmodel") as device:
        for region in ("weight", "activation"):
            device.malloc(device.memory_statistics()[region].largest_free_block - (1 << 14), region=region)
        refuses(NpuOutOfMemoryError, None, Network, device, model, context=CONTEXT)


@pytest.mark.parametrize(("position", "count"), [(0, CONTEXT + 1), (CONTEXT, 1), (-1, 1), (90, 7)])
def test_positions_beyond_the_context_are_refused(
    make_network: MakeNetwork, position: int, count: int
) -> None:
    network = make_network()
    refuses(ValueError, ["positions", str(CONTEXT)], network.record_prompt, position, count)


def test_what_no_network_can_have_is_refused(make_network: MakeNetwork) -> None:
    refuses(ValueError, [f"layers is {LAYERS + 1}", f"1 to {LAYERS}"], make_network, layers=LAYERS + 1)
    refuses(ValueError, ["layers is 0"], make_network, layers=0)
    refuses(ValueError, [f"context is {CONTEXT + 1}"], make_network, context=CONTEXT + 1)
    refuses(ValueError, ["context is 1;"], make_network, context=1)


@pytest.mark.parametrize("weights", ["half", "file"])
def test_the_bound_counts_weights_and_products(make_network: MakeNetwork, weights: Weights) -> None:
    network = make_network(weights=weights)
    config, capabilities = network.config, network.device.capabilities
    shapes = [shape for shape in config.weight_shapes().values() if len(shape) == 2]
    table = (network.vocabulary, config.hidden)
    if weights == "half":
        read = 2 * (LAYERS * sum(math.prod(shape) for shape in shapes) + math.prod(table))
    else:
        # q, k and v are one matrix, and so are gate and up: whole tiles all of them.
        read = LAYERS * sum(named_format("q4_1").packed_bytes(*shape) for shape in shapes)
        read += named_format("q8_0").packed_bytes(*table)
    cached = 2 * 2 * LAYERS * 8 * config.kv_width
    assert network.bound(7, 1) == -(-(read + cached) // (capabilities.data_width // 8))
    products = 64 * LAYERS * sum(math.prod(shape) for shape in shapes) + math.prod(table)
    cycles = products / (1 if weights == "half" else 2) + 2 * LAYERS * config.q_width * (64 * 65 // 2)
    elements = capabilities.array_rows * capabilities.array_cols
    assert network.bound(0, 64) == math.ceil(cycles / elements)


@pytest.mark.parametrize("matrix_type", ["Q8_0", "Q4_0", "Q4_1", "F16"])
def test_blocks_stay_blocks(
    make_network: MakeNetwork, tmp_path_factory: pytest.TempPathFactory, matrix_type: str
) -> None:
    path = tmp_path_factory.mktemp("types") / "types.gguf"
    write_model(path, matrix_type=matrix_type)
    source = GgufModel(path)
    network, rounded = make_network(source), make_network(source, weights="half")
    ids = prompt(9, network.vocabulary, 4)
    for each in (network, rounded):
        read(each, ids, [9])
    expected = truth(source, ids)
    errors = [np.abs(each.logits.to_numpy()[0] - expected).max() for each in (network, rounded)]
    assert max(errors) < HALF_BOUND * np.abs(expected).max()
    down = network.tensors["layer 0: down"]
    assert down.dtype == (np.float16 if matrix_type == "F16" else np.uint8)
    assert rounded.tensors["layer 0: down"].dtype == np.float16
    if matrix_type != "F16":
        packed = source.packed("blk.0.ffn_down.weight")
        assert packed is not None
        assert np.array_equal(down.to_numpy(), packed.data)
