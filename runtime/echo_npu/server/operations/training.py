"""Losses, gradients and the step of an optimizer."""

import math

from echo_npu.device import Device
from echo_npu.server.operations.base import Emitter, first, require, same_shape
from echo_npu.server.operations.table import GraphOperation
from echo_npu.server.protocol import GraphNode, GraphTensor


def _all_float32(node: GraphNode, count: int) -> list[GraphTensor]:
    sources = [first(node, index) for index in range(count)]
    require(all(each.type == "f32" for each in (*sources, node.destination)), "a type that is not float32")
    require(all(all(each.elements) for each in sources), "an empty operand")
    return sources


def check_pair(device: Device, node: GraphNode) -> None:
    """Take a gradient and a tensor of one shape."""
    sources = _all_float32(node, 2)
    require(same_shape(*sources, node.destination), "operands of different shapes")
    require(node.op != "SOFT_MAX_BACK" or node.number(1) == 0, "ALiBi")


def emit_silu_back(emitter: Emitter, node: GraphNode) -> None:
    """Compute the gradient of silu."""
    gradient, x = (emitter.view(first(node, index)) for index in range(2))
    emitter.device.silu_backward(gradient, x, out=emitter.view(node.destination))


def emit_softmax_back(emitter: Emitter, node: GraphNode) -> None:
    """Compute the gradient of a softmax from its result."""
    gradient, y = (emitter.view(first(node, index)) for index in range(2))
    emitter.device.softmax_backward(gradient, y, scale=node.number(0), out=emitter.view(node.destination))


def emit_rms_norm_back(emitter: Emitter, node: GraphNode) -> None:
    """Compute the gradient of a norm without weights."""
    gradient, x = (emitter.view(first(node, index)) for index in range(2))
    ones = emitter.device.full(x.shape[-1:], 1.0)
    out = emitter.view(node.destination)
    emitter.device.rms_norm_backward(gradient, x, ones, node.number(0), out=(out, None))


def check_cross_entropy(device: Device, node: GraphNode) -> None:
    """Take logits and shares of one shape, and leave one number."""
    sources = _all_float32(node, 2)
    require(same_shape(*sources), "operands of different shapes")
    require(node.destination.elements == (1, 1, 1, 1), "a result of another shape")


def emit_cross_entropy(emitter: Emitter, node: GraphNode) -> None:
    """Average the rows' sums of shares times logarithms of the softmax."""
    device = emitter.device
    logits, shares = (emitter.view(first(node, index)) for index in range(2))
    centred = device.sub(logits, device.max(logits, -1, True))
    total = device.log(device.sum(device.exp(centred), -1, True))
    weighted = device.mul(device.sub(centred, total), shares)
    rows = math.prod(logits.shape[:-1])
    device.mul(device.sum(weighted, None, True), -1 / rows, out=emitter.view(node.destination))


def check_cross_entropy_back(device: Device, node: GraphNode) -> None:
    """Take the loss's gradient, logits and shares."""
    gradient, logits, shares = _all_float32(node, 3)
    require(same_shape(logits, shares, node.destination), "operands of different shapes")
    require(gradient.elements == (1, 1, 1, 1), "a gradient of another shape")


def emit_cross_entropy_back(emitter: Emitter, node: GraphNode) -> None:
    """Scale the difference of softmax and shares."""
    device = emitter.device
    gradient, logits, shares = (emitter.view(first(node, index)) for index in range(3))
    rows = math.prod(logits.shape[:-1])
    difference = device.sub(device.softmax(logits), shares)
    device.mul(difference, device.mul(gradient, 1 / rows), out=emitter.view(node.destination))


def check_adamw(device: Device, node: GraphNode) -> None:
    """Take weights, gradient, both averages, and seven numbers: rate, betas, eps, decay, corrections."""
    weights, gradient, first_moment, second_moment, numbers = _all_float32(node, 5)
    same = same_shape(weights, gradient, first_moment, second_moment, node.destination)
    require(same, "operands of different shapes")
    require(numbers.elements == (7, 1, 1, 1) and numbers.steps[0] == 4, "numbers of another shape")


def emit_adamw(emitter: Emitter, node: GraphNode) -> None:
    """Move the averages and the weights (Loshchilov and Hutter 2019)."""
    device = emitter.device
    weights, gradient, mean, square = (emitter.view(first(node, index)) for index in range(4))
    numbers = emitter.view(first(node, 4))
    rate, beta1, beta2, eps, decay, mean_scale, square_scale = (
        numbers[..., index : index + 1] for index in range(7)
    )
    for average, beta, value in ((mean, beta1, gradient), (square, beta2, device.mul(gradient, gradient))):
        share = device.mul(value, device.sub(1.0, beta))
        device.add(device.mul(average, beta), share, out=average)
    root = device.add(device.sqrt(device.mul(square, square_scale)), eps)
    move = device.div(device.mul(device.mul(mean, mean_scale), rate), root)
    kept = device.mul(weights, device.sub(1.0, device.mul(rate, decay)))
    device.sub(kept, move, out=emitter.view(node.destination))


OPERATIONS = {
    "SILU_BACK": GraphOperation(check_pair, emit_silu_back),
    "SOFT_MAX_BACK": GraphOperation(check_pair, emit_softmax_back),
    "RMS_NORM_BACK": GraphOperation(check_pair, emit_rms_norm_back),
    "CROSS_ENTROPY_LOSS": GraphOperation(check_cross_entropy, emit_cross_entropy),
    "CROSS_ENTROPY_LOSS_BACK": GraphOperation(check_cross_entropy_back, emit_cross_entropy_back),
    "OPT_STEP_ADAMW": GraphOperation(check_adamw, emit_adamw),
}
