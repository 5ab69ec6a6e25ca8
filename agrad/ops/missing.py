"""What rules of arrays with missing elements are made of: those that count elements, count the ones that are there.

Such rules stand beside the op's own (`Facts.missing`), whose place they take on backends whose `missing` is True. They ask of the
library that a result is missing where an operand is, that reductions and running sums leave out what is missing, that
``ones_like`` misses what its operand does, and that the kernel `extra.filled` gives an array without missing elements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agrad.core.declare import linear
from agrad.core.facts import Facts
from agrad.ops.batch_rules import pointwise

if TYPE_CHECKING:
    from agrad.core.tensor import Tensor


def there(xp: Any, g: Any, x: Any) -> Any:
    """Return a cotangent, or a tangent, as the value it belongs to: broadcast to it, and missing where that is."""
    return g * xp.ones_like(x)


def asked(xp: Any, g: Any, ans: Any) -> Any:
    """Return the cotangent of a result with 0 where the result is missing: there is nothing that could be asked for."""
    return xp.extra.filled(there(xp, g, ans), 0.0)


def how_many(xp: Any, x: Any, axis: Any) -> Any:
    """Return how many elements a reduction combines into one, with length 1 along the axes it takes away."""
    return xp.sum(xp.ones_like(x), axis=axis, keepdims=True)


@linear(
    name="extra.filled",
    kernel=lambda xp, x, _value: xp.positive(x),  # of a library whose elements are all there
    x=lambda xp, g, x: there(xp, g, x),
    batch=pointwise,
    facts=Facts(missing=True, sparsity="elements"),
)
def filled(x: Any, value: float, /) -> Tensor:
    """The array with a value in the place of each missing element."""
