"""Generation: which tokens come, what is read again, and where it ends."""

import numpy as np
import pytest

from echo_npu.language import generator as generator_module
from echo_npu.language.check import MemoryDiffersError
from echo_npu.language.generator import NO_TOKEN, ContextFullError, GenerationStep, TextGenerator
from echo_npu.language.sampling import Sampling
from tests.refusals import refuses
from tests.runtime.language.conftest import MakeNetwork
from tests.runtime.model_files import CONTEXT

TEXT = [5, 200, 31, 7, 7, 96]


def test_each_token_follows_from_all_before(make_network: MakeNetwork) -> None:
    steps: list[GenerationStep] = []
    tokens = list(TextGenerator(make_network(), on_step=steps.append).generate(TEXT, 5))
    assert len(tokens) == 5
    for count in range(5):
        (alone,) = TextGenerator(make_network()).generate([*TEXT, *tokens[:count]], 1)
        assert alone == tokens[count]
    assert [(step.position, step.count) for step in steps] == [(0, 6), (6, 1), (7, 1), (8, 1), (9, 1)]
    assert [step.token for step in steps] == tokens
    assert all(step.bound > 0 and step.seconds >= step.device_seconds > 0 for step in steps)


def test_what_is_cached_is_not_read_again(make_network: MakeNetwork) -> None:
    steps: list[GenerationStep] = []
    generator = TextGenerator(make_network(), on_step=steps.append)
    first = list(generator.generate(TEXT, 3))
    steps.clear()
    longer = [*TEXT, *first, 40, 41]
    again = list(generator.generate(longer, 2))
    # The last token of the first answer was yielded but never read.
    assert (steps[0].position, steps[0].count) == (len(TEXT) + 2, 3)
    assert again == list(TextGenerator(make_network()).generate(longer, 2))
    steps.clear()
    other = [*TEXT[:3], 99, 98]
    assert list(generator.generate(other, 2)) == list(TextGenerator(make_network()).generate(other, 2))
    assert (steps[0].position, steps[0].count) == (3, 2)
    steps.clear()
    assert list(generator.generate(other, 2)) == list(TextGenerator(make_network()).generate(other, 2))
    assert (steps[0].position, steps[0].count) == (4, 1)


@pytest.mark.parametrize("generators", [1, 2])
def test_answers_of_one_network_take_turns(make_network: MakeNetwork, generators: int) -> None:
    """Each is what it would be alone, although the others overwrite the cache and the token in `next`."""
    texts, sampling = (TEXT, [*TEXT[:3], 99, 98, 1, 2], TEXT), Sampling(2.0)
    network = make_network()
    shared = [TextGenerator(network) for _ in range(generators)]
    answers = [shared[index % generators].generate(text, 4) for index, text in enumerate(texts)]
    expected = [list(TextGenerator(make_network()).generate(text, 4)) for text in texts]
    assert [list(each) for each in zip(*zip(*answers, strict=True), strict=True)] == expected
    longer = [*TEXT, *expected[0], 9]
    assert list(shared[0].generate(longer, 2)) == list(TextGenerator(make_network()).generate(longer, 2))
    drawing = TextGenerator(network, sampling=sampling, seed=9).generate(TEXT, 6)
    alone = list(TextGenerator(make_network(), sampling=sampling, seed=9).generate(TEXT, 6))
    drawn = []
    for token in drawing:
        drawn.append(token)
        list(shared[0].generate(TEXT, 1))  # chooses another token after the same text
    assert drawn == alone


def test_a_text_longer_than_a_step_is_read_in_parts(
    make_network: MakeNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = list(np.random.default_rng(3).integers(0, 259, 20))
    expected = list(TextGenerator(make_network()).generate(text, 2))
    monkeypatch.setattr(generator_module, "CHUNK", 8)
    steps: list[GenerationStep] = []
    assert list(TextGenerator(make_network(), on_step=steps.append).generate(text, 2)) == expected
    assert [step.count for step in steps] == [8, 8, 4, 1]


def test_a_stop_ends_the_answer(make_network: MakeNetwork) -> None:
    tokens = list(TextGenerator(make_network()).generate(TEXT, 6))
    stop = tokens[3]
    before = tokens[: tokens.index(stop)]
    assert list(TextGenerator(make_network()).generate(TEXT, 6, stops=(stop,))) == before


def test_the_answer_ends_with_the_context(make_network: MakeNetwork) -> None:
    network = make_network(context=8)
    assert len(list(TextGenerator(network).generate(TEXT, 50))) == 3
    assert len(list(TextGenerator(make_network(context=6)).generate(TEXT, 50))) == 1


def test_draws_are_what_the_next_step_reads(make_network: MakeNetwork) -> None:
    sampling = Sampling(1.5, top_k=40)
    tokens = list(TextGenerator(make_network(), sampling=sampling, seed=9).generate(TEXT, 4))
    assert tokens == list(TextGenerator(make_network(), sampling=sampling, seed=9).generate(TEXT, 4))
    others = [
        list(TextGenerator(make_network(), sampling=sampling, seed=s).generate(TEXT, 4)) for s in (1, 2)
    ]
    assert others != [tokens, tokens]
    network = make_network()
    TextGenerator(network).generate([*TEXT, *tokens], 1)
    steps: list[GenerationStep] = []
    generator = TextGenerator(network, on_step=steps.append)
    assert next(iter(generator.generate([*TEXT, *tokens[:3]], 1))) == steps[0].token


@pytest.mark.parametrize("count", [7, 40])
def test_candidates_of_the_device_are_drawn_from(make_network: MakeNetwork, count: int) -> None:
    """The tokens are those drawn from all logits, which nobody reads."""
    sampling = Sampling(1.5, top_k=7, top_p=0.9)
    expected = list(TextGenerator(make_network(), sampling=sampling, seed=9).generate(TEXT, 6))
    network, twin = make_network(candidates=count), make_network(candidates=count)
    generator = TextGenerator(network, twin=twin, sampling=sampling, seed=9)
    answer = generator.generate(TEXT, 6)
    assert [next(answer)] == expected[:1]
    for each in (network, twin):
        logits = each.logits.to_numpy()
        assert each.candidates is not None
        assert np.array_equal(each.candidates[0].to_numpy()[0], np.argsort(-logits[0], kind="stable")[:count])
    assert list(answer) == expected[1:]


def test_more_than_the_candidates_are_drawn_from_all(make_network: MakeNetwork) -> None:
    for sampling in (Sampling(1.5, top_k=8), Sampling(1.5), Sampling()):
        texts = [
            list(TextGenerator(network, sampling=sampling, seed=9).generate(TEXT, 4))
            for network in (make_network(), make_network(candidates=7))
        ]
        assert texts[0] == texts[1]


def test_candidates_that_there_are_not(make_network: MakeNetwork) -> None:
    for count in (-1, 129):
        refuses(ValueError, f"candidates is {count}", make_network, candidates=count)


def test_only_the_end_of_a_text_draws(make_network: MakeNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
    sampling = Sampling(1.5, top_k=40)
    whole = list(TextGenerator(make_network(), sampling=sampling, seed=9).generate(TEXT, 4))
    monkeypatch.setattr("echo_npu.language.generator.CHUNK", 2)
    steps: list[GenerationStep] = []
    generator = TextGenerator(make_network(), sampling=sampling, seed=9, on_step=steps.append)
    assert list(generator.generate(TEXT, 4)) == whole
    parts = (len(TEXT) - 1) // 2
    assert parts
    assert [step.token for step in steps] == [NO_TOKEN] * parts + whole


def test_a_twin_is_compared_after_each_step(make_network: MakeNetwork) -> None:
    network, twin = make_network(), make_network()
    steps: list[GenerationStep] = []
    generator = TextGenerator(network, twin=twin, on_step=steps.append)
    answer = generator.generate(TEXT, 4)
    next(answer)
    size = sum(tensor.nbytes for tensor in network.tensors.values())
    assert [step.checked for step in steps] == [size]
    assert steps[0].seconds > steps[0].own_seconds > steps[0].device_seconds
    # One bit of a weight that the next step reads, and one of a cached value that it does not write.
    for name in ("layer 1: down", "values"):
        tensor = twin.tensors[name]
        at = tensor.ptr + tensor.nbytes - 1
        byte = int(twin.device.backend.read_mem(at, 1)[0])
        twin.device.memset(at, byte ^ 1, 1)
        again = TextGenerator(network, twin=twin)
        refuses(MemoryDiffersError, [name, f"0x{at:08x}"], next, again.generate([3], 1))
        twin.device.memset(at, byte, 1)


def test_draws_reach_the_twin(make_network: MakeNetwork) -> None:
    generator = TextGenerator(make_network(), twin=make_network(), sampling=Sampling(2.0))
    assert len(list(generator.generate(TEXT, 4))) == 4


def test_what_is_refused(make_network: MakeNetwork) -> None:
    generator = TextGenerator(make_network())

    def generate(*arguments: object) -> None:
        list(generator.generate(*arguments))  # type: ignore[arg-type]

    refuses(ValueError, "no token", generate, [], 1)
    refuses(ValueError, "most is 0", generate, TEXT, 0)
    refuses(ValueError, ["token 259", "259 entries"], generate, [259], 1)
    refuses(ValueError, "token -1", generate, [-1], 1)
    refuses(
        ContextFullError, [f"{CONTEXT + 1} tokens", f"{CONTEXT} positions"], generate, [1] * (CONTEXT + 1), 1
    )
    assert len(list(generator.generate(TEXT, 1))) == 1
