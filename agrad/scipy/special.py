"""Special functions: all of `agrad.special`, and the other names of some of them in SciPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agrad.core import names as _names
from agrad.ops import special as _special
from agrad.ops.docs import refer as _refer
from agrad.ops.special import *  # noqa: F403 (its __all__)

if TYPE_CHECKING:
    from agrad.core.tensor import Tensor
else:
    __all__ = ["jn", "yn"]
    __all__ += _special.__all__


def jn(n: Any, z: Any, /) -> Tensor:
    """Return the Bessel function of the first kind; `jv` under its older name. There is no derivative with respect to the order.

    >>> import agrad as ag
    >>> from agrad.scipy import special
    >>> special.jn(0, ag.asarray([0.0, 1.0]))
    tensor([1.0000, 0.7652])
    """
    return _special.jv(n, z)


def yn(n: Any, x: Any, /) -> Tensor:
    """Return the Bessel function of the second kind; `yv` for integer orders. There is no derivative with respect to the order.

    >>> import agrad as ag
    >>> from agrad.scipy import special
    >>> special.yn(0, ag.asarray([1.0, 2.0]))
    tensor([0.0883, 0.5104])
    """
    return _special.yv(n, x)


if not TYPE_CHECKING:
    _refer(globals(), "scipy.special")

if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
