"""Rules for arrays with missing elements: reductions that count elements count those that are present.

Such rules are declared next to the op's own (`Facts.missing`), which they replace on backends whose `missing` is True.
They require of the library that a result is missing where an operand is, that reductions and running sums skip missing
elements, that ``ones_like`` misses the same elements as its operand, and that the kernel `extra.filled` returns an
array without missing elements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agrad.core.declare import linear
from agrad.core.facts import Facts
from agrad.ops.batch_rules import pointwise

if TYPE_CHECKING:
    from agrad.core.tensor import Tensor


def there(xp: Any, g: Any, x: Any) -> Any:
    """Return a cotangent, or a tangent, in the form of its value: broadcast to it, and missing where it is."""
    return g * xp.ones_like(x)


def asked(xp: Any, g: Any, ans: Any) -> Any:
    """Return the cotangent of a result with 0 where the result is missing: no gradient can come from there."""
    return xp.extra.filled(there(xp, g, ans), 0.0)


def how_many(xp: Any, x: Any, axis: Any) -> Any:
    """Return how many elements a reduction combines into one, with length 1 along the reduced axes."""
    return xp.sum(xp.ones_like(x), axis=axis, keepdims=True)


@linear(
    name="extra.filled",
    kernel=lambda xp, x, _value: xp.positive(x),  # a library's array without missing elements
    x=lambda xp, g, x: there(xp, g, x),
    batch=pointwise,
    facts=Facts(missing=True, sparsity="elements"),
)
def filled(x: Any, value: float, /) -> Tensor:
    """Return the array with a value in place of each missing element."""
