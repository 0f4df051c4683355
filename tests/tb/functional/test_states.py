"""Words counted by the board become samples of the plan."""

from typing import Any

import numpy as np
import pytest

from tb.functional import states
from tb.functional.plan import PLAN
from tb.functional.samples import Sample
from tb.functional.states import SEEN, samples


def word(**fields: int) -> int:
    """Pack a state or a set of events from fields of tb.functional.states, by their names in lower case."""
    value = 0
    for name, number in fields.items():
        low, width = getattr(states, name.upper())
        assert number < 1 << width
        value |= number << low
    return value


def seen(*pairs: tuple[int, int]) -> Any:
    return np.array([(state, events, 1) for state, events in pairs], SEEN)


def of(group: str, *pairs: tuple[int, int]) -> list[Any]:
    """Return the values of a group's samples."""
    return [dict(sample.values) for sample in samples(seen(*pairs)) if sample.group == group]


PHASE = {name: number for number, name in enumerate(states.PHASES)}
MATRIX_BESIDE_VECTOR = {"slot_valid": 0b011, "slot_vector": 0b010}


def test_queues() -> None:
    full = word(level=16, ring_class=4, wrapped=1, slot_valid=0b111, slot_vector=0b010)
    ring = {"ring": "full", "wrapped": "wrapped"}
    assert of("queues", (full, 0)) == [{"level": "16", "window": "full", **ring, "under_way": "MVM"}]


def test_the_same_situation_is_sampled_once() -> None:
    assert len(of("queues", (word(level=1, phase=1), 0), (word(level=1, phase=2), 0))) == 1


def test_starts_and_waits() -> None:
    state = word(phase=PHASE["check"], is_matmul=1, from_ring=1, slot_valid=1, slot_vector=1)
    found = of("starts", (state, word(issue=1)))
    assert {"what": "matrix", "source": "ring", "under_way": "V"} in found
    waits = {
        word(phase=PHASE["issue"], is_fence=1, slot_valid=1): ("fence", "all_before"),
        word(phase=PHASE["issue"], is_matmul=1, conflict=1, engine_free=1): ("matrix", "bytes"),
        word(phase=PHASE["issue"], slot_valid=1, slot_vector=1): ("vector", "engine"),
        word(phase=PHASE["issue"], conflict=1): ("vector", "both"),
    }
    for state, (held, reason) in waits.items():
        assert of("starts", (state, 0)) == [{"held": held, "reason": reason}]
    assert not of("starts", (word(phase=PHASE["issue"], engine_free=1), 0)), "it waits for nothing"


def test_refused_packets() -> None:
    state = word(phase=PHASE["check"], level=3, **MATRIX_BESIDE_VECTOR)
    (values,) = of("errors", (state, word(fault=7)))
    assert values == {"check": "OVERLAP", "source": "window", "behind": "more", "engines": "both"}
    (values,) = of("errors", (word(phase=PHASE["extension"], from_ring=1), word(fault=9)))
    assert values == {"fetch": "extension", "engines": "idle"}
    (values,) = of("errors", (word(level=16), word(fault=11)))
    assert values == {"submit": "QUEUE_FULL", "window": "full", "engines": "idle"}


def test_a_refusal_that_something_overtakes_does_not_count() -> None:
    """A soft reset, or the error of an older command, in the same clock."""
    state = word(phase=PHASE["check"], slot_valid=1)
    assert not of("errors", (state, word(fault=7, soft_reset=1)))
    (values,) = of("errors", (state, word(fault=7, engine_fault=9)))
    assert values["engine"] == "READ_RESPONSE"


@pytest.mark.parametrize(
    ("slots", "failing", "younger"),
    [
        ({"slot_valid": 1}, "matrix", "none"),
        ({"slot_valid": 3}, "matrix", "same"),
        (MATRIX_BESIDE_VECTOR, "matrix", "other"),
        ({"slot_valid": 7, "slot_vector": 4}, "matrix", "several"),
        ({"slot_valid": 3, "slot_vector": 1}, "vector", "other"),
        ({"slot_valid": 7, "slot_vector": 1}, "vector", "several"),
    ],
)
def test_failing_commands(slots: dict[str, int], failing: str, younger: str) -> None:
    (values,) = of("errors", (word(**slots), word(engine_fault=10)))
    assert values == {"engine": "WRITE_RESPONSE", "failing": failing, "younger": younger, "behind": "nothing"}


def test_resets() -> None:
    (values,) = of("resets", (word(phase=PHASE["drain"], host_writes=1, ring_class=2), word(hard_reset=1)))
    assert values == {
        **{"reset": "hard", "phase": "drain", "under_way": "idle", "window": "empty", "ring": "fetched"},
        "host": "writes",
    }


def test_controls() -> None:
    """Clearing an error drops what is queued; in other states it does nothing, so no queue is sampled."""
    error = word(phase=PHASE["error"], level=2, ring_class=1)
    assert of("controls", (error, word(clear_error=1))) == [
        {"action": "clear_error", "phase": "error", "window": "some", "ring": "one"}
    ]
    assert of("controls", (word(level=2), word(clear_error=1, doorbell=1))) == [
        {"action": "doorbell", "phase": "wait"},
        {"action": "clear_error", "phase": "wait"},
    ]


def test_interrupts() -> None:
    state, events = word(irq_status=0b010, irq_enable=0b110), word(irq_event=0b011, irq_clear=0b001)
    assert of("interrupts", (state, events)) == [
        {"status": "e", "enable": "ec"},
        {"cause": "done", "mask": "masked", "pending": "new"},
        {"cause": "error", "mask": "enabled", "pending": "pending"},
        {"cause": "done", "clear": "cleared"},
        {"cause": "error", "clear": "alone"},
    ]


def test_host() -> None:
    values = of("host", (word(slot_valid=1, phase=PHASE["error"]), word(host_ar=1, host_b=2, host_r=3)))
    assert values == [
        {"request": "read", "engines": "matrix", "phase": "error"},
        {"answer": "write_slverr", "engines": "matrix"},
        {"answer": "read_decerr", "engines": "matrix"},
    ]


def test_the_plan_has_all_labels() -> None:
    """The plan has a label for everything that the board can count."""
    groups = {group.name: group for group in PLAN}
    rng = np.random.default_rng(7)
    for _ in range(300):
        valid, vector = rng.choice([(0, 0), (1, 0), (1, 1), (3, 0), (3, 2), (7, 1), (7, 4)])
        counts = {"phase": 10, "level": 17, "ring_class": 5, "irq_status": 8}
        drawn = {name: int(rng.integers(count)) for name, count in counts.items()}
        state = word(slot_valid=int(valid), slot_vector=int(vector), **drawn)
        events = word(irq_event=int(rng.integers(8)), doorbell=1, host_aw=1, soft_reset=int(rng.integers(2)))
        found: list[Sample] = list(
            samples(seen((state, events), (state, word(fault=int(rng.integers(1, 9))))))
        )
        for group, values in found:
            for axis, label in values.items():
                assert label in groups[group].axis(axis).labels, f"{group}.{axis}: {label}"
