"""The cells of LSTM and GRU, whose fused forms PyTorch asks every accelerator for."""

from typing import Any

import torch

from echo_npu.torch.kernels import native


def _with(gates: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    return gates if bias is None else gates + bias


@native("_thnn_fused_lstm_cell")
def lstm_cell(
    input_gates: torch.Tensor,
    hidden_gates: torch.Tensor,
    cx: torch.Tensor,
    input_bias: torch.Tensor | None = None,
    hidden_bias: torch.Tensor | None = None,
) -> Any:
    gates = _with(_with(input_gates + hidden_gates, input_bias), hidden_bias)
    i, f, g, o = gates.chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cy = f * cx + i * g
    return o * cy.tanh(), cy, torch.cat([i, f, g, o], 1)


@native("_thnn_fused_lstm_cell_backward_impl")
def lstm_cell_backward(
    grad_hy: torch.Tensor | None,
    grad_cy: torch.Tensor | None,
    cx: torch.Tensor,
    cy: torch.Tensor,
    workspace: torch.Tensor,
    has_bias: bool,
) -> Any:
    i, f, g, o = workspace.chunk(4, 1)
    bent = cy.tanh()
    grad = torch.zeros_like(cy) if grad_cy is None else grad_cy
    grad_o = torch.zeros_like(o)
    if grad_hy is not None:
        grad = grad + torch.ops.aten.tanh_backward(grad_hy * o, bent)
        grad_o = torch.ops.aten.sigmoid_backward(grad_hy * bent, o)
    gates = torch.cat(
        [
            torch.ops.aten.sigmoid_backward(grad * g, i),
            torch.ops.aten.sigmoid_backward(grad * cx, f),
            torch.ops.aten.tanh_backward(grad * i, g),
            grad_o,
        ],
        1,
    )
    return gates, grad * f, gates.sum(0) if has_bias else None


@native("_thnn_fused_gru_cell")
def gru_cell(
    input_gates: torch.Tensor,
    hidden_gates: torch.Tensor,
    hx: torch.Tensor,
    input_bias: torch.Tensor | None = None,
    hidden_bias: torch.Tensor | None = None,
) -> Any:
    from_input, from_hidden = _with(input_gates, input_bias), _with(hidden_gates, hidden_bias)
    input_r, input_z, input_n = from_input.chunk(3, 1)
    hidden_r, hidden_z, hidden_n = from_hidden.chunk(3, 1)
    r, z = (input_r + hidden_r).sigmoid(), (input_z + hidden_z).sigmoid()
    n = (input_n + r * hidden_n).tanh()
    return n + z * (hx - n), torch.cat([r, z, n, hx, hidden_n], 1)


@native("_thnn_fused_gru_cell_backward")
def gru_cell_backward(grad: torch.Tensor, workspace: torch.Tensor, has_bias: bool) -> Any:
    r, z, n, hx, hidden_n = workspace.chunk(5, 1)
    grad_n = torch.ops.aten.tanh_backward(grad - grad * z, n)
    grad_z = torch.ops.aten.sigmoid_backward(grad * (hx - n), z)
    grad_r = torch.ops.aten.sigmoid_backward(grad_n * hidden_n, r)
    from_input = torch.cat([grad_r, grad_z, grad_n], 1)
    from_hidden = torch.cat([grad_r, grad_z, grad_n * r], 1)
    biases = (from_input.sum(0), from_hidden.sum(0)) if has_bias else (None, None)
    return from_input, from_hidden, grad * z, *biases
