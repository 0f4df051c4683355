"""Stimulus for the AXI checkers: traffic that breaks one rule each, and legal traffic of every kind."""

import random
import re
from collections import deque
from dataclasses import dataclass

from echo_sim.designs import AXI_CHECKERS

CHANNELS = ("AW", "W", "B", "AR", "R")
ADDRESS = (
    ("id", 2),
    ("addr", 32),
    ("len", 8),
    ("size", 3),
    ("burst", 2),
    ("lock", 1),
    ("cache", 4),
    ("prot", 3),
    ("qos", 4),
)
SIGNALS: tuple[tuple[str, int], ...] = (
    *(("scenario", 16), ("rst_n", 1), ("awvalid", 1), ("awready", 1)),
    *((f"aw{name}", width) for name, width in ADDRESS),
    *(("wvalid", 1), ("wready", 1), ("wdata", 64), ("wstrb", 8), ("wlast", 1)),
    *(("bvalid", 1), ("bready", 1), ("bid", 2), ("bresp", 2), ("arvalid", 1), ("arready", 1)),
    *((f"ar{name}", width) for name, width in ADDRESS),
    *(("rvalid", 1), ("rready", 1), ("rid", 2), ("rdata", 64), ("rresp", 2), ("rlast", 1)),
    *(("lite_awvalid", 1), ("lite_awready", 1), ("lite_awaddr", 16)),
    *(("lite_wvalid", 1), ("lite_wready", 1), ("lite_wdata", 32)),
    *(("lite_bvalid", 1), ("lite_bready", 1), ("lite_bresp", 2)),
    *(("lite_arvalid", 1), ("lite_arready", 1), ("lite_araddr", 16)),
    *(("lite_rvalid", 1), ("lite_rready", 1), ("lite_rdata", 32), ("lite_rresp", 2)),
)
"""Names and widths as axi_checkers_tb.sv unpacks them, from the highest bit down."""

Clock = dict[str, int]
"""The nonzero signals of one clock."""

Stimulus = list[Clock]

RESET: Stimulus = [{"rst_n": 0}] * 3
IDLE: Clock = {"rst_n": 1}

MAX_WRITES, MAX_READS, MAX_EARLY, MAX_WAIT, MAX_RESPONSE, MAX_DATA_WAIT = 4, 2, 4, 3, 5, 40
"""The parameters of the checkers in axi_checkers_tb.sv."""


def packed(clock: Clock, scenario: int) -> str:
    """Return one line of the vector file."""
    value = 0
    known = {**clock, "scenario": scenario}
    for name, width in SIGNALS:
        field = known.pop(name, 0)
        assert 0 <= field < 1 << width, (name, field)
        value = value << width | field
    assert not known, f"no such signal: {known}"
    return f"{value:x}"


def aw(**fields: int) -> Clock:
    """Return a write address that is taken at once: INCR, one beat of 8 bytes, ID 0."""
    return _address("aw", fields)


def ar(**fields: int) -> Clock:
    """Return the same for reading."""
    return _address("ar", fields)


def _address(channel: str, fields: dict[str, int]) -> Clock:
    values = {"valid": 1, "ready": 1, "size": 3, "burst": 1, "addr": 0x1000, **fields}
    return {"rst_n": 1, **{channel + name: value for name, value in values.items()}}


def w(**fields: int) -> Clock:
    """Return a full last beat of write data that is taken at once."""
    values = {"valid": 1, "ready": 1, "strb": 0xFF, "last": 1, **fields}
    return {"rst_n": 1, **{"w" + name: value for name, value in values.items()}}


def b(**fields: int) -> Clock:
    """Return a write response that is taken at once."""
    return {"rst_n": 1, **{"b" + name: value for name, value in {"valid": 1, "ready": 1, **fields}.items()}}


def r(**fields: int) -> Clock:
    """Return a last beat of read data that is taken at once."""
    values = {"valid": 1, "ready": 1, "last": 1, **fields}
    return {"rst_n": 1, **{"r" + name: value for name, value in values.items()}}


def lite(*channels: str, **fields: int) -> Clock:
    """Return beats of AXI4-Lite on these channels, taken at once unless `fields` say otherwise."""
    taken = {f"lite_{channel}{wire}": 1 for channel in channels for wire in ("valid", "ready")}
    return {"rst_n": 1, **taken, **{f"lite_{name}": value for name, value in fields.items()}}


def both(*clocks: Clock) -> Clock:
    """Merge clocks into one."""
    return {name: value for clock in clocks for name, value in clock.items()}


def _handshake(channel: str, before: Stimulus, payload: str, prefix: str = "") -> dict[str, Stimulus]:
    """Yield breaches of the rules of every channel. `before` makes a beat on it legal."""
    ready = f"{prefix}{channel}ready"
    beat = {"aw": aw(), "w": w(), "b": b(), "ar": ar(), "r": r()}[channel]
    if prefix:
        beat = lite(channel)
    waiting = {**beat, ready: 0}
    owner, other = ("S", "M") if channel in ("b", "r") else ("M", "S")
    name = "AXI4LITE" if prefix else "AXI4"
    changed = {**waiting, payload: waiting.get(payload, 0) ^ 1}
    return {
        f"{name}_ERR{owner}_{channel.upper()}VALID_RESET": [{**beat, "rst_n": 0, ready: 0}],
        f"{name}_ERR{owner}_{channel.upper()}VALID_STABLE": [*before, waiting, IDLE],
        f"{name}_ERR{owner}_{channel.upper()}PAYLOAD_STABLE": [*before, waiting, {**changed, ready: 1}],
        f"{name}_REC{other}_{channel.upper()}READY_MAX_WAIT": [*before, *[waiting] * (MAX_WAIT + 1), beat],
    }


def broken_rules() -> dict[str, Stimulus]:
    """Return for each rule traffic that breaks it and no other."""
    found: dict[str, Stimulus] = {}
    for channel, before, payload in (
        ("aw", [], "awqos"),
        ("w", [aw()], "wdata"),
        ("b", [aw(), w()], "bresp"),
        ("ar", [], "arprot"),
        ("r", [ar()], "rdata"),
    ):
        found |= _handshake(channel, before, payload)
    found["AXI4_ERRS_BPAYLOAD_STABLE"] = [aw(), w(), b(ready=0, resp=2), b(resp=3)]
    for channel, before, payload in (
        ("aw", [], "lite_awaddr"),
        ("w", [], "lite_wdata"),
        ("b", [lite("aw", "w")], "lite_bresp"),
        ("ar", [], "lite_araddr"),
        ("r", [lite("ar")], "lite_rdata"),
    ):
        found |= _handshake(channel, before, payload, "lite_")
    found["AXI4LITE_ERRS_BPAYLOAD_STABLE"] = [
        lite("aw", "w"),
        lite("b", bready=0, bresp=2),
        lite("b", bresp=3),
    ]
    for name, address in (("AW", aw), ("AR", ar)):
        found |= {
            f"AXI4_ERRM_{name}BURST": [address(burst=3)],
            f"AXI4_ERRM_{name}SIZE": [address(size=4)],
            f"AXI4_ERRM_{name}ADDR_BOUNDARY": [address(addr=0x1FF8, len=1)],
            f"AXI4_ERRM_{name}LEN_FIXED": [address(burst=0, len=16)],
            f"AXI4_ERRM_{name}LEN_WRAP": [address(burst=2, len=2)],
            f"AXI4_ERRM_{name}ADDR_WRAP_ALIGN": [address(burst=2, len=3, addr=0x1004)],
            f"AXI4_ERRM_{name}LEN_LOCK": [address(lock=1, len=16)],
            f"AXI4_ERRM_{name}CACHE": [address(cache=4)],
        }
    found |= {
        "AXI4_ERRM_WDATA_NUM": [aw(len=1), w()],
        "AXI4_ERRM_WSTRB": [aw(addr=0x1002, size=1), w(strb=0b1000_0000)],
        "AXI4_RECM_W_MAX_WAIT": [aw(len=1), w(last=0), *[IDLE] * (MAX_DATA_WAIT + 1), w()],
        "AXI4_AUX_W_EARLY": [w()] * (MAX_EARLY + 1),
        "AXI4_AUX_AW_OUTSTANDING": [both(aw(), w())] * (MAX_WRITES + 1),
        "AXI4_ERRS_BRESP_AW": [aw(id=1), w(), b(id=2)],
        "AXI4_ERRS_BRESP_WLAST": [aw(len=1), w(last=0), b()],
        "AXI4_ERRS_BRESP_EXOKAY": [aw(), w(), b(resp=1)],
        "AXI4_AUX_AR_OUTSTANDING": [ar(id=3)] * (MAX_READS + 1),
        "AXI4_ERRS_RID": [ar(id=1), r(id=0)],
        "AXI4_ERRS_RDATA_NUM": [ar(len=2), r(last=0), r()],
        "AXI4_ERRS_RRESP_EXOKAY": [ar(), r(resp=1)],
        "AXI4LITE_ERRS_BRESP_AW": [lite("w"), lite("b")],
        "AXI4LITE_ERRS_BRESP_W": [lite("aw"), lite("b")],
        "AXI4LITE_ERRS_BRESP_EXOKAY": [lite("aw", "w"), lite("b", bresp=1)],
        "AXI4LITE_ERRS_RDATA_NUM": [lite("ar"), lite("r"), lite("r")],
        "AXI4LITE_ERRS_RRESP_EXOKAY": [lite("ar"), lite("r", rresp=1)],
        "AXI4LITE_RECS_BVALID_MAX_WAIT": [lite("aw", "w"), *[IDLE] * (MAX_RESPONSE + 1), lite("b")],
        "AXI4LITE_RECS_RVALID_MAX_WAIT": [lite("ar"), *[IDLE] * (MAX_RESPONSE + 1), lite("r")],
    }
    return found


def corner_cases() -> dict[str, tuple[str, Stimulus]]:
    """Return more ways to break a rule: description, rule, traffic."""
    return {
        "VALID in the first clock after reset": ("AXI4_ERRM_AWVALID_RESET", [aw()]),
        "a second response": ("AXI4_ERRS_BRESP_AW", [aw(), w(), b(), b()]),
        "a response in the clock of the last beat": ("AXI4_ERRS_BRESP_WLAST", [aw(), both(w(), b())]),
        "a response to the burst whose data comes second": (
            "AXI4_ERRS_BRESP_WLAST",
            [aw(id=0), aw(id=1), w(), b(id=1)],
        ),
        "data in the clock of its address": ("AXI4_ERRS_RID", [both(ar(), r())]),
        "no WLAST": ("AXI4_ERRM_WDATA_NUM", [aw(len=1), w(last=0), w(last=0)]),
        "data before its address, one beat too many": (
            "AXI4_ERRM_WDATA_NUM",
            [w(last=0), w(last=0), w(), aw(len=1)],
        ),
        "data before its address, in a wrong lane": ("AXI4_ERRM_WSTRB", [w(strb=1), aw(addr=0x1001)]),
        "a lane in front of an unaligned start": ("AXI4_ERRM_WSTRB", [aw(addr=0x1003), w(strb=0b0000_0100)]),
        "the second narrow beat in the lane of the first": (
            "AXI4_ERRM_WSTRB",
            [aw(len=1, size=0), w(strb=1, last=0), w(strb=1)],
        ),
        "a beat that comes round": (
            "AXI4_ERRM_WSTRB",
            [aw(addr=0x1002, size=1, len=1, burst=2), w(strb=0b1100, last=0), w(strb=0b11_0000)],
        ),
        "the second FIXED beat in the lane behind": (
            "AXI4_ERRM_WSTRB",
            [aw(addr=0x1001, size=0, len=1, burst=0), w(strb=0b10, last=0), w(strb=0b100)],
        ),
        "no RLAST": ("AXI4_ERRS_RDATA_NUM", [ar(len=1), r(last=0), r(last=0)]),
        "the second burst of an ID by the first one's length": (
            "AXI4_ERRS_RDATA_NUM",
            [ar(id=2, len=1), ar(id=2), r(id=2, last=0), r(id=2), r(id=2, last=0)],
        ),
        "unaligned INCR that ends in the next 4 KiB": ("AXI4_ERRM_ARADDR_BOUNDARY", [ar(addr=0x1FF1, len=2)]),
        "WVALID falls while the address waits": (
            "AXI4_ERRM_WVALID_STABLE",
            [both(aw(ready=0), w(ready=0)), aw()],
        ),
    }


def all_rules() -> set[str]:
    """Return the names of all rules in the checkers' sources."""
    rules = set()
    for path in AXI_CHECKERS:
        protocols = {"axil_checker": ("AXI4LITE",), "axi_channel_checker": ("AXI4", "AXI4LITE")}
        for prefix, name in re.findall(r"`AXI_RULE\(([\w\"]+), (\w+),", path.read_text(encoding="utf-8")):
            for protocol in protocols.get(path.stem, ("AXI4",)):
                for channel in CHANNELS if path.stem == "axi_channel_checker" else ("AW", "AR"):
                    driver = "S" if channel in ("B", "R") else "M"
                    receiver = "M" if driver == "S" else "S"
                    text = {
                        "DriverRule": f"ERR{driver}_{channel}",
                        "ReceiverRule": f"REC{receiver}_{channel}",
                        "Rule": f"ERRM_{channel}",
                    }.get(prefix, prefix.strip('"'))
                    rules.add(f"{protocol}_{text}{name}")
    return rules


@dataclass
class _Burst:
    id: int
    fields: Clock
    strobes: list[int]
    asked: bool = False
    sent: int = 0


def legal_traffic(seed: int, clocks: int) -> Stimulus:
    """Draw legal AXI4 traffic: all kinds of bursts, data before and after its address, responses in any order
    of the IDs, interleaved read data, READY at any time."""
    rng = random.Random(seed)
    writes: deque[_Burst] = deque()  # not all sent
    unanswered: list[_Burst] = []  # completely sent; their address may still be missing
    reads: list[_Burst] = []
    offered: dict[str, Clock] = {}
    waited = dict.fromkeys(("aw", "w", "b", "ar", "r"), 0)
    stimulus: Stimulus = [*RESET, IDLE]
    for _ in range(clocks):
        in_flight = [*unanswered, *writes]
        if len(in_flight) < MAX_WRITES and rng.random() < 0.5:
            writes.append(_random_burst(rng))
            in_flight.append(writes[-1])
        silent = [burst for burst in in_flight if not burst.asked]
        if "aw" not in offered and silent and rng.random() < 0.2:
            offered["aw"] = {"awvalid": 1, **{"aw" + k: v for k, v in silent[0].fields.items()}}
        early = sum(burst.sent for burst in silent)
        if "w" not in offered and writes and (writes[0].asked or early < MAX_EARLY) and rng.random() < 0.7:
            burst = writes[0]
            offered["w"] = {
                "wvalid": 1,
                "wstrb": burst.strobes[burst.sent] & rng.getrandbits(8),
                "wlast": int(burst.sent == len(burst.strobes) - 1),
                "wdata": rng.getrandbits(64),
            }
        complete = [burst for burst in unanswered if burst.asked]
        if "b" not in offered and complete and rng.random() < 0.4:
            first = {burst.id: burst for burst in reversed(complete)}
            offered["b"] = {"bvalid": 1, "bid": rng.choice(list(first)), "bresp": rng.choice((0, 2, 3))}
        fields = _random_burst(rng)
        same = sum(burst.id == fields.id for burst in reads)
        if "ar" not in offered and same < MAX_READS and rng.random() < 0.4:
            offered["ar"] = {"arvalid": 1, **{"ar" + k: v for k, v in fields.fields.items()}}
        asked = {burst.id: burst for burst in reversed([burst for burst in reads if burst.asked])}
        if "r" not in offered and asked and rng.random() < 0.7:
            burst = rng.choice(list(asked.values()))
            last = burst.sent == len(burst.strobes) - 1
            offered["r"] = {"rvalid": 1, "rid": burst.id, "rlast": int(last), "rdata": rng.getrandbits(64)}
        clock: Clock = {"rst_n": 1}
        for channel in waited:
            taken = rng.random() < 0.5 or waited[channel] == MAX_WAIT
            clock |= {f"{channel}ready": int(taken)} | offered.get(channel, {})
            if channel not in offered:
                continue
            waited[channel] = 0 if taken else waited[channel] + 1
            if not taken:
                continue
            beat = offered.pop(channel)
            if channel == "aw":
                silent[0].asked = True
            elif channel == "w":
                writes[0].sent += 1
                if beat["wlast"]:
                    unanswered.append(writes.popleft())
            elif channel == "b":
                unanswered.remove(next(x for x in unanswered if x.id == beat["bid"] and x.asked))
            elif channel == "ar":
                length = beat["arlen"] + 1
                reads.append(_Burst(beat["arid"], {}, [0] * length, asked=True))
            else:
                burst = asked[beat["rid"]]
                burst.sent += 1
                if beat["rlast"]:
                    reads.remove(burst)
        stimulus.append(clock)
    ending = both({"rst_n": 1}, *offered.values(), {f"{channel}ready": 1 for channel in waited})
    return [*stimulus, ending]


def _random_burst(rng: random.Random) -> _Burst:
    """Draw a legal burst on a bus of 8 bytes, and the lanes of its beats."""
    size = rng.choice((3, 3, rng.randrange(4)))
    step = 1 << size
    kind = rng.choice((1, 1, 0, 2))
    length = rng.choice((2, 4, 8, 16)) if kind == 2 else rng.choice((1, 1, 2, rng.randint(1, 16)))
    address = rng.randrange(4096 - 16 * 8 + 1)
    if rng.random() < 0.2 and kind == 1:
        address = 4096 - length * step  # up to the border
    if kind == 2:
        address -= address % step
    identity = rng.randrange(4)
    fields = {"id": identity, "addr": 0x5000 + address, "len": length - 1, "size": size, "burst": kind}
    strobes = []
    for beat in range(length):
        start = address
        if beat and kind == 1:
            start = address // step * step + beat * step
        elif kind == 2:
            span = length * step
            start = address // span * span + (address + beat * step) % span
        end = start // step * step + step
        strobes.append(sum(1 << byte % 8 for byte in range(start, end)))
    return _Burst(identity, fields, strobes)
