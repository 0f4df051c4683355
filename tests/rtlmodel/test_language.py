"""Generation on the RTL: memory equal to the functional model after each step, and the cycles of a step."""

from contextlib import ExitStack
from pathlib import Path

import pytest

import echo_npu
from echo_npu.language.generator import GenerationStep, TextGenerator
from echo_npu.language.network import RING_SLOTS, Network
from echo_npu.language.sampling import Sampling
from echo_npu.models.extras import MissingExtraError, smollm2_file
from echo_npu.models.gguf_model import GgufModel
from tests.rtlmodel.simulated import open_rtl
from tests.runtime.model_files import write_model

pytestmark = [pytest.mark.sim, pytest.mark.slow]

TEXT = [5, 200, 31, 7, 7, 96]


def generate(
    model: GgufModel, text: list[int], count: int, context: int, config: str, *, stalls: float = 0.0
) -> tuple[list[int], list[GenerationStep]]:
    """Return the tokens that follow, and the steps; all memory is compared after each of them."""
    steps: list[GenerationStep] = []
    with ExitStack() as stack:
        networks = []
        for device in (
            open_rtl(config, ring_slots=RING_SLOTS, stalls=stalls),
            echo_npu.open("cmodel", config=config, ring_slots=RING_SLOTS),
        ):
            networks.append(Network(stack.enter_context(device), model, context=context))
        generator = TextGenerator(
            networks[0], twin=networks[1], sampling=Sampling(1.0, top_k=3), on_step=steps.append
        )
        tokens = list(generator.generate(text, count))
    assert all(step.checked > 0 for step in steps)
    return tokens, steps


@pytest.fixture(scope="module")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> GgufModel:
    path = tmp_path_factory.mktemp("model") / "small.gguf"
    write_model(path)
    return GgufModel(path)


@pytest.mark.parametrize(
    ("config", "cycles"), [("default", [21_301, 9_600, 9_525]), ("small", [53_202, 30_715, 30_640])]
)
def test_a_small_model(small_model: GgufModel, config: str, cycles: list[int]) -> None:
    tokens, steps = generate(small_model, TEXT, 3, 32, config)
    assert [step.cycles for step in steps] == cycles
    assert all(step.bound < step.cycles for step in steps)
    stalled, _ = generate(small_model, TEXT, 3, 32, config, stalls=0.3)
    assert stalled == tokens


def test_smollm2() -> None:
    try:
        path: Path = smollm2_file()
    except MissingExtraError as error:
        pytest.skip(str(error))
    model = GgufModel(path)
    text = model.tokenizer.encode("The capital of France is").ids
    tokens, steps = generate(model, text, 2, 16, "default")
    assert model.tokenizer.decode(tokens) == " Paris."
    assert [(step.position, step.count, step.cycles) for step in steps] == [
        (0, 5, 3_637_955),
        (5, 1, 3_222_666),
    ]
