"""PyTorch's ``torch.autograd.graph``: nodes and edges of the recorded graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from agrad.core.node import Node

if TYPE_CHECKING:
    from agrad.core.tensor import Tensor


class GradientEdge(NamedTuple):
    """Where a tensor's gradient is computed: a node and which of its results."""

    node: Node
    output_nr: int


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Give the edge of a tensor, which stands for it in `grad` and `backward` without keeping its value.

    Raises
    ------
    RuntimeError
        If the tensor does not require grad.
    """
    if tensor._node is None:
        message = "It is not possible to get the gradient edge for a Tensor that does not require gradients"
        raise RuntimeError(message)
    return GradientEdge(*tensor._node.address())


__all__ = ["GradientEdge", "Node", "get_gradient_edge"]
