"""Commands: their packets, and how a submission is divided into them."""

from echo_npu.commands.builders import memcpy_command, memcpy_packets, nop_packet
from echo_npu.commands.command import Command, as_commands
from echo_npu.commands.matmul_command import matmul_packets
from echo_npu.commands.packets import ExtensionPacket, Flags, NpuCommandPacket, Opcode
from echo_npu.commands.vector_command import Stream, vector_command
from tests.refusals import refuses

VECTOR = vector_command(0, rows=1, cols=1, output=Stream(0x40)).command()
STRIDED = memcpy_command(0, 0x1000, 8, rows=2, row_strides=(16, 32))


def test_a_command_has_the_packets_that_it_was_made_of() -> None:
    main, extension = memcpy_packets(0, 0x1000, 8, rows=2, row_strides=(16, 32))
    assert STRIDED.slots == (main.pack(), extension.pack())
    assert STRIDED.packets() == [main, extension]
    assert STRIDED.packet == main
    assert (STRIDED.needed, STRIDED.complete) == (2, True)
    assert str(STRIDED) == f"{main}, {extension}"
    assert Command.of(main).needed == 2
    assert not Command.of(main).complete


def test_a_packet_takes_as_many_slots_as_it_announces() -> None:
    assert Command.of(nop_packet()).needed == 1
    assert Command.of(NpuCommandPacket(Opcode.MATMUL, Flags.EXT)).needed == 2
    assert Command.of(NpuCommandPacket(Opcode.VECTOR, Flags.EXT)).needed == 4
    assert Command.of(NpuCommandPacket(Opcode.NOP, Flags.EXT)).needed == 1
    assert Command.of(NpuCommandPacket(0x77, Flags.EXT)).needed == 1


def test_extensions_follow_their_packet_in_a_submission() -> None:
    dense = matmul_packets(64, 128, 192, 2, 3, 4)
    given = [nop_packet(), *STRIDED.packets(), *VECTOR.slots, *dense]
    assert as_commands(given) == [Command.of(nop_packet()), STRIDED, VECTOR, Command.of(*dense)]


def test_commands_and_packets_may_be_mixed() -> None:
    main, extension = STRIDED.packets()
    assert as_commands([STRIDED, nop_packet(), main, extension]) == [
        STRIDED, Command.of(nop_packet()), STRIDED,
    ]  # fmt: skip
    assert as_commands(STRIDED) == [STRIDED]
    assert as_commands(nop_packet()) == as_commands(nop_packet().pack()) == [Command.of(nop_packet())]
    assert as_commands([]) == []


def test_the_last_command_may_lack_extensions_and_gets_them_later() -> None:
    main, extension = STRIDED.packets()
    lacking = Command.of(main)
    assert as_commands([nop_packet(), lacking]) == [Command.of(nop_packet()), lacking]
    assert as_commands([lacking, extension]) == [STRIDED]
    # What follows is the extension, whatever it is.
    assert as_commands([lacking, nop_packet()]) == [Command.of(main, nop_packet())]


def test_what_is_no_packet_is_refused() -> None:
    refuses(TypeError, "str", as_commands, ["NOP"])
    refuses(ValueError, "63", as_commands, [bytes(63)])
    refuses(TypeError, "int", Command.of, nop_packet(), 5)
    refuses(ValueError, "65", Command.of, nop_packet(), bytes(65))


def test_a_command_with_unusual_extensions_is_shown_as_bytes() -> None:
    assert str(VECTOR) == ", ".join([str(VECTOR.packet), *(slot.hex() for slot in VECTOR.slots[1:])])
    assert isinstance(STRIDED.packets()[1], ExtensionPacket)
