"""Generate tokens: bring a prompt into the cache, then one token after another."""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Protocol
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from echo_npu.backends.base import LaterCounters
from echo_npu.language.check import check_memory
from echo_npu.language.network import CHUNK, Candidates
from echo_npu.language.runnable_step import RunnableStep
from echo_npu.language.sampling import Sampling
from echo_npu.tensor import DeviceTensor

NO_TOKEN = -1
"""What a step has chosen that reads a part of a text, with more of it to come."""


_LAST_ANSWERS: Final[WeakKeyDictionary["TextNetwork", object]] = WeakKeyDictionary()
"""For each network the answer that used its cache last: several generators may share one."""


class TextNetwork(Protocol):
    """A model on one or several devices, as `TextGenerator` uses it. `Network` describes the members."""

    context: int
    next: DeviceTensor
    logits: DeviceTensor
    candidates: Candidates | None

    @property
    def vocabulary(self) -> int: ...

    @property
    def tensors(self) -> Mapping[str, DeviceTensor]: ...

    def counters_later(self) -> LaterCounters: ...

    def set_next(self, token: int) -> None: ...

    def record_prompt(self, position: int, count: int) -> RunnableStep: ...

    def record_next(self, position: int) -> RunnableStep: ...

    def bound(self, position: int, count: int) -> int: ...


@dataclass(frozen=True, slots=True)
class GenerationStep:
    """What a step took.

    Attributes:
        position: of its first token.
        count: tokens that it read.
        token: the token that it chose; NO_TOKEN after a part of a text that goes on.
        cycles: busy cycles of the device; 0 on a backend without cycles.
        bound: the least cycles that memory and array allow.
        seconds: wall time of the whole step, with the functional model's, if that runs beside it.
        own_seconds: the same without the functional model.
        device_seconds: from the doorbell to the end of the last command.
        checked: bytes of memory that were equal to the functional model's; 0 if not compared.
    """

    position: int
    count: int
    token: int
    cycles: int
    bound: int
    seconds: float
    own_seconds: float
    device_seconds: float
    checked: int


class ContextFullError(ValueError):
    """A text has more tokens than the cache has positions."""


def check_text(text: Sequence[int], vocabulary: int, context: int) -> None:
    """Refuse a text that a model with so many tokens cannot read in so many positions.

    Raises:
        ContextFullError: the text has no room in the context.
        ValueError: an empty text, or a token that the vocabulary does not have.
    """
    if not text:
        raise ValueError("the text has no token")
    for token in text:
        if not 0 <= token < vocabulary:
            raise ValueError(f"token {token} is not in the vocabulary of {vocabulary} entries")
    if len(text) > context:
        raise ContextFullError(f"the text has {len(text)} tokens; the context has {context} positions")


class TextGenerator:
    """Generates text, and remembers what is in the cache.

    Args:
        network: the model on a device.
        sampling: how tokens are chosen.
        seed: of the draws.
        twin: the same network on the functional model: every step is run there too, and all memory compared.
        on_step: called after each step; on rtlfarm once its cycles are known, at the end of the text at the
            latest.
        cached: tokens that the cache holds already, if somebody has filled it.
    """

    def __init__(
        self,
        network: TextNetwork,
        *,
        sampling: Sampling | None = None,
        seed: int = 0,
        twin: TextNetwork | None = None,
        on_step: Callable[[GenerationStep], None] = lambda step: None,
        cached: Sequence[int] = (),
    ) -> None:
        self.network = network
        self._sampling = sampling or Sampling()
        self._random = np.random.default_rng(seed)
        self._twin = twin
        self._on_step = on_step
        self._unreported: deque[tuple[GenerationStep, LaterCounters, LaterCounters]] = deque()
        self._cached = list(cached)  # the token of each position
        self._answer: object = None
        if cached:
            self._owns_cache(object())

    def generate(self, text: Sequence[int], most: int, stops: Sequence[int] = ()) -> Iterator[int]:
        """Read a text and yield the tokens that follow it.

        What the cache holds of the text, because an earlier call read it, is not read again. Answers of one
        network may take turns, also those of several generators: what another one overwrote is read again.
        The tokens end before a stop, and where the context is full.

        Args:
            text: token numbers, at least one.
            most: most tokens that are yielded, at least 1.
            stops: tokens that end the answer.

        Raises:
            ContextFullError: the text has no room in the context.
            ValueError: an empty text, or a token that the vocabulary does not have.
            MemoryDiffersError: the twin's memory differs.
            NpuError: the device failed.
        """
        if most < 1:
            raise ValueError(f"most is {most}; at least 1 token is generated")
        check_text(text, self.network.vocabulary, self.network.context)
        yield from self._generate(text, most, stops)
        self._report(wait=True)

    def _generate(self, text: Sequence[int], most: int, stops: Sequence[int]) -> Iterator[int]:
        tokens, answer = list(text), object()
        token = self._read_all(tokens, answer)
        for left in reversed(range(most)):
            if token in stops:
                return
            yield token
            if not left or len(tokens) == self.network.context:
                return
            tokens.append(token)
            if _LAST_ANSWERS[self.network] is answer:
                token = self._step([token], _record_next)
            else:
                token = self._read_all(tokens, answer)

    def _owns_cache(self, answer: object) -> None:
        """Record that the cache, and the token in `next`, are those of an answer of this generator."""
        _LAST_ANSWERS[self.network] = self._answer = answer

    def _read_all(self, tokens: Sequence[int], answer: object) -> int:
        """Bring what the cache lacks of a text into it, and return the token after it."""
        if _LAST_ANSWERS.get(self.network) is not self._answer:
            self._cached.clear()
        self._owns_cache(answer)
        known = 0
        # At least one token is read: the step finds the token after it.
        while known < min(len(tokens) - 1, len(self._cached)) and tokens[known] == self._cached[known]:
            known += 1
        del self._cached[known:]
        return self._read(tokens[known:])

    def _read(self, tokens: Sequence[int]) -> int:
        """Bring a text into the cache, part by part, and return the token after it."""
        token = NO_TOKEN
        for start in range(0, len(tokens), CHUNK):
            part = tokens[start : start + CHUNK]
            record = partial(_record_prompt, count=len(part))
            last = start + CHUNK >= len(tokens)
            token = self._step(part, record, chooses=last, ids=np.array(part, np.int32))
        return token

    def _step(
        self,
        tokens: Sequence[int],
        record: Callable[[TextNetwork, int], RunnableStep],
        *,
        chooses: bool = True,
        **inputs: NDArray[np.int32],
    ) -> int:
        network, position, count = self.network, len(self._cached), len(tokens)
        start = time.perf_counter()
        before = network.counters_later()
        with record(network, position) as program:
            submitted = time.perf_counter()
            program.run(**inputs)
            finished = time.perf_counter()
        checked = 0
        beside = time.perf_counter()
        if self._twin is not None:
            with record(self._twin, position) as program:
                program.run(**inputs)
            checked = check_memory(network.tensors, self._twin.tensors)
        beside = time.perf_counter() - beside
        self._cached += tokens
        # A draw for each part would make the answer depend on where the text was cut.
        token = self._choose() if chooses else NO_TOKEN
        after = network.counters_later()
        seconds = time.perf_counter() - start
        step = GenerationStep(
            position,
            count,
            token,
            0,
            network.bound(position, count),
            seconds,
            seconds - beside,
            finished - submitted,
            checked,
        )
        self._unreported.append((step, before, after))
        self._report()
        return token

    def _report(self, *, wait: bool = False) -> None:
        """Report the steps whose cycles are known, in order; with `wait`, all of them."""
        while self._unreported:
            step, before, after = self._unreported[0]
            if not wait and not (before.known and after.known):
                return
            cycles = after.wait()["busy_cycles"] - before.wait()["busy_cycles"]
            self._unreported.popleft()
            self._on_step(replace(step, cycles=cycles))

    def _choose(self) -> int:
        network = self.network
        if self._sampling.greedy:
            return int(network.next.to_numpy()[0])
        token = self._draw()
        for each in (network, self._twin):
            if each is not None:
                each.set_next(token)
        return token

    def _draw(self) -> int:
        """Draw a token from the candidates, if the step has found as many as are needed; else from all."""
        sampling, found = self._sampling, self.network.candidates
        if found is not None and 0 < sampling.candidates(self.network.vocabulary) <= found[0].size:
            tokens, values = (each.to_numpy()[0] for each in found)
            return sampling.draw_among(tokens, values, self._random)
        return sampling.draw(self.network.logits.to_numpy()[0], self._random)


def _record_prompt(network: TextNetwork, position: int, count: int) -> RunnableStep:
    return network.record_prompt(position, count)


def _record_next(network: TextNetwork, position: int) -> RunnableStep:
    return network.record_next(position)
