"""Classify device states counted by npu_cover.sv into the plan's bins."""

import ctypes
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from echo_npu.spec.contract import ERROR_STAGES
from echo_npu.spec.status import ErrorCode
from tb.functional.plan import CAUSES, PHASES, RING
from tb.functional.samples import Sample

SEEN = np.dtype([("state", np.uint32), ("events", np.uint32), ("count", np.uint64)])
"""A state of the device, the events in it, and the number of clocks."""

# Fields of npu_cover.sv: lowest bit and width.
PHASE, LEVEL, RING_CLASS, WRAPPED = (0, 4), (4, 5), (9, 3), (12, 1)
SLOT_VALID, SLOT_VECTOR, IRQ_STATUS, IRQ_ENABLE = (13, 3), (16, 3), (19, 3), (22, 3)
FROM_RING, IS_FENCE, IS_MATMUL, CONFLICT, ENGINE_FREE = (25, 1), (26, 1), (27, 1), (28, 1), (29, 1)
HOST_WRITES, HOST_READS = (30, 1), (31, 1)
HARD_RESET, SOFT_RESET, CLEAR_ERROR, DOORBELL, TAIL, ISSUE = ((bit, 1) for bit in range(6))
IRQ_EVENT, IRQ_CLEAR, HOST_AW, HOST_AR = (6, 3), (9, 3), (12, 1), (13, 1)
HOST_B, HOST_R, FAULT, ENGINE_FAULT = (14, 2), (16, 2), (18, 5), (23, 5)

Field = tuple[int, int]
_FULL_LEVEL = 16


def take() -> NDArray[np.void]:
    """Return what the board has counted since the last call, as an array of SEEN."""
    lib = ctypes.CDLL(None)
    lib.echo_cover_pending.restype = ctypes.c_uint64
    lib.echo_cover_take.argtypes = (ctypes.c_void_p,)
    seen = np.empty(lib.echo_cover_pending(), SEEN)
    lib.echo_cover_take(seen.ctypes.data)
    return seen


def samples(seen: NDArray[np.void]) -> Iterator[Sample]:
    """Yield each distinct situation once for each group that samples it."""
    yield from _queues(seen)
    yield from _starts(seen)
    yield from _errors(seen)
    yield from _resets(seen)
    yield from _controls(seen)
    yield from _interrupts(seen)
    yield from _host(seen)


def under_way(state: int) -> str:
    """Return the engines ("M", "V") of the commands in progress, oldest first, or "idle"."""
    valid, vector = _get(state, SLOT_VALID), _get(state, SLOT_VECTOR)
    return "".join("MV"[vector >> i & 1] for i in range(3) if valid >> i & 1) or "idle"


def _get(word: int, field: Field) -> int:
    return int(word) >> field[0] & ((1 << field[1]) - 1)


def _mask(*fields: Field) -> int:
    return sum(((1 << width) - 1) << low for low, width in fields)


def _different(
    seen: NDArray[np.void], state: tuple[Field, ...], events: tuple[Field, ...] = ()
) -> Iterator[tuple[int, int]]:
    """Yield the distinct values of these fields; with `events`, only where one of the events happened."""
    happened = seen["events"] & np.uint32(_mask(*events))
    words = (seen["state"] & np.uint32(_mask(*state))).astype(np.uint64) << np.uint64(32) | happened
    for word in np.unique(words[happened != 0] if events else words).tolist():
        yield word >> 32, word & 0xFFFF_FFFF


def _window(state: int) -> str:
    level = _get(state, LEVEL)
    return "empty" if not level else "full" if level >= _FULL_LEVEL else "some"


def _ring(state: int) -> str:
    return RING[_get(state, RING_CLASS)]


def _phase(state: int) -> str:
    return PHASES[_get(state, PHASE)]


def _engines(state: int) -> str:
    used = set(under_way(state)) & {"M", "V"}
    return "both" if len(used) == 2 else {"M": "matrix", "V": "vector"}["".join(used)] if used else "idle"


def _queues(seen: NDArray[np.void]) -> Iterator[Sample]:
    for state, _ in _different(seen, (LEVEL, RING_CLASS, WRAPPED, SLOT_VALID, SLOT_VECTOR)):
        yield Sample(
            "queues",
            {
                "level": str(_get(state, LEVEL)),
                "window": _window(state),
                "ring": _ring(state),
                "wrapped": ("straight", "wrapped")[_get(state, WRAPPED)],
                "under_way": under_way(state),
            },
        )


def _starts(seen: NDArray[np.void]) -> Iterator[Sample]:
    for state, _ in _different(seen, (IS_MATMUL, FROM_RING, SLOT_VALID, SLOT_VECTOR), (ISSUE,)):
        what = ("vector", "matrix")[_get(state, IS_MATMUL)]
        source = ("window", "ring")[_get(state, FROM_RING)]
        yield Sample("starts", {"what": what, "source": source, "under_way": under_way(state)})
    for state, _ in _different(seen, (PHASE, IS_FENCE, IS_MATMUL, CONFLICT, ENGINE_FREE, SLOT_VALID)):
        if _phase(state) != "issue":
            continue
        conflict, busy = _get(state, CONFLICT), not _get(state, ENGINE_FREE)
        if _get(state, IS_FENCE):
            if _get(state, SLOT_VALID):
                yield Sample("starts", {"held": "fence", "reason": "all_before"})
        elif conflict or busy:
            reason = "both" if conflict and busy else "bytes" if conflict else "engine"
            held = ("vector", "matrix")[_get(state, IS_MATMUL)]
            yield Sample("starts", {"held": held, "reason": reason})


def _errors(seen: NDArray[np.void]) -> Iterator[Sample]:
    # An engine's error or a reset in the same clock takes precedence and suppresses this error.
    alone = seen[(seen["events"] & np.uint32(_mask(ENGINE_FAULT, SOFT_RESET, HARD_RESET))) == 0]
    fields = (PHASE, LEVEL, RING_CLASS, SLOT_VALID, SLOT_VECTOR, FROM_RING)
    for state, events in _different(alone, fields, (FAULT,)):
        code = ErrorCode(_get(events, FAULT))
        values = {"engines": _engines(state)}
        if code == ErrorCode.READ_RESPONSE:
            values["fetch"] = "extension" if _phase(state) == "extension" else "packet"
        elif "submit" in ERROR_STAGES[code]:
            values |= {"submit": code.name, "window": _window(state)}
        else:
            source = ("window", "ring")[_get(state, FROM_RING)]
            values |= {"check": code.name, "source": source, "behind": _behind(state)}
        yield Sample("errors", values)
    for state, events in _different(seen, fields, (ENGINE_FAULT,)):
        failing, *younger = list(under_way(state))
        one = "same" if younger == [failing] else "other"
        values = {
            "engine": ErrorCode(_get(events, ENGINE_FAULT)).name,
            "failing": {"M": "matrix", "V": "vector"}[failing],
            "behind": _behind(state),
            "younger": ("none", one, "several")[min(len(younger), 2)],
        }
        yield Sample("errors", values)


def _behind(state: int) -> str:
    return "more" if _get(state, LEVEL) or _get(state, RING_CLASS) else "nothing"


def _resets(seen: NDArray[np.void]) -> Iterator[Sample]:
    fields = (PHASE, LEVEL, RING_CLASS, SLOT_VALID, SLOT_VECTOR, HOST_READS, HOST_WRITES)
    for state, events in _different(seen, fields, (HARD_RESET, SOFT_RESET)):
        host = ("none", "reads", "writes", "both")[_get(state, HOST_READS) + 2 * _get(state, HOST_WRITES)]
        yield Sample(
            "resets",
            {
                "reset": "hard" if _get(events, HARD_RESET) else "soft",
                "phase": _phase(state),
                "under_way": under_way(state),
                "window": _window(state),
                "ring": _ring(state),
                "host": host,
            },
        )


def _controls(seen: NDArray[np.void]) -> Iterator[Sample]:
    actions = (("doorbell", DOORBELL), ("tail", TAIL), ("clear_error", CLEAR_ERROR))
    for name, event in actions:
        for state, _ in _different(seen, (PHASE, LEVEL, RING_CLASS), (event,)):
            values = {"action": name, "phase": _phase(state)}
            if name == "clear_error" and _phase(state) == "error":
                values |= {"window": _window(state), "ring": _ring(state)}
            yield Sample("controls", values)


def _interrupts(seen: NDArray[np.void]) -> Iterator[Sample]:
    for state, _ in _different(seen, (IRQ_STATUS, IRQ_ENABLE)):
        status, enable = _get(state, IRQ_STATUS), _get(state, IRQ_ENABLE)
        yield Sample("interrupts", {"status": _letters(status), "enable": _letters(enable)})
    for state, events in _different(seen, (IRQ_STATUS, IRQ_ENABLE), (IRQ_EVENT,)):
        for bit in _set_bits(_get(events, IRQ_EVENT)):
            mask = ("masked", "enabled")[_get(state, IRQ_ENABLE) >> bit & 1]
            pending = ("new", "pending")[_get(state, IRQ_STATUS) >> bit & 1]
            yield Sample("interrupts", {"cause": CAUSES[bit], "mask": mask, "pending": pending})
    for _, events in _different(seen, (), (IRQ_EVENT, IRQ_CLEAR)):
        for bit in _set_bits(_get(events, IRQ_EVENT)):
            clear = ("alone", "cleared")[_get(events, IRQ_CLEAR) >> bit & 1]
            yield Sample("interrupts", {"cause": CAUSES[bit], "clear": clear})


def _set_bits(value: int) -> list[int]:
    return [bit for bit in range(len(CAUSES)) if value >> bit & 1]


def _letters(value: int) -> str:
    return "".join(CAUSES[bit][0] for bit in _set_bits(value)) or "-"


def _host(seen: NDArray[np.void]) -> Iterator[Sample]:
    for name, event in (("write", HOST_AW), ("read", HOST_AR)):
        for state, _ in _different(seen, (PHASE, SLOT_VALID, SLOT_VECTOR), (event,)):
            yield Sample("host", {"request": name, "engines": _engines(state), "phase": _phase(state)})
    for name, event in (("write", HOST_B), ("read", HOST_R)):
        for state, events in _different(seen, (SLOT_VALID, SLOT_VECTOR), (event,)):
            answer = f"{name}_{('okay', 'exokay', 'slverr', 'decerr')[_get(events, event)]}"
            yield Sample("host", {"answer": answer, "engines": _engines(state)})
