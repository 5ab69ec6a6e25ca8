"""PyTorch's ``torch.autograd.forward_ad``: forward mode through dual tensors, with levels that nest."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from agrad.core import forward, mode
from agrad.core import names as _names
from agrad.core.errors import called
from agrad.core.tensor import Tensor
from agrad.func.grad import dual_of
from agrad.ops.docs import complete as _complete

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]

F = TypeVar("F", bound=Callable[..., Any])


class UnpackedDualTensor(NamedTuple):
    """The result of `unpack_dual`.

    Parameters
    ----------
    primal : Tensor
        The value, without a tangent at the level.
    tangent : Tensor or None
        Its tangent.
    """

    primal: Tensor
    tangent: Tensor | None


class _Level(mode.ModeContext):
    """A level entered through this module, which owns its mode."""

    def __init__(self) -> None:
        self.number = forward.next_level()


def _entered() -> list[_Level]:
    """Return the levels entered through this module, outermost first; callers know them by their position."""
    found: list[_Level] = []
    now = mode.current()
    while now is not None:
        if isinstance(now.owner, _Level):
            found.insert(0, now.owner)
        now = now.previous
    return found


def enter_dual_level() -> int:
    """Open a level of forward mode; `dual_level` also closes it.

    Returns: The level, counted from 0.
    Unlike PyTorch's, levels nest.
    """
    return _enter(_Level())


def _enter(level: _Level) -> int:
    place = len(_entered())
    now = mode.current()
    mode.push(levels=(*(now.levels if now else ()), level.number), owner=level)
    return place


def exit_dual_level(*, level: int | None = None) -> None:
    """Close the innermost level; its tangents vanish.

    level : int, optional
        Must be the innermost, which is the default.
    RuntimeError: If it is not the innermost, or none is open.
    """
    entered = _entered()
    if not entered or level not in (None, len(entered) - 1):
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is not supported."
            + called()
        )
    mode.pop(entered[-1])


class dual_level(mode.ModeContext):  # noqa: N801 (PyTorch's name)
    """Open a level of forward mode for a block.

    Examples
    --------
    >>> import agrad as ag
    >>> import agrad.autograd.forward_ad as fwAD
    >>> with fwAD.dual_level():
    ...     x = fwAD.make_dual(ag.tensor(3.0), ag.tensor(1.0))
    ...     fwAD.unpack_dual(x * x).tangent
    tensor(6.)
    """

    def __enter__(self) -> int:
        level = _Level()
        level.watch = self.watch
        self.watch: Any = None
        return _enter(level)

    def leave(self, *exc: object) -> None:
        exit_dual_level()

    def __call__(self, function: F) -> F:
        """Decorate a function to run in a new level."""
        import functools  # noqa: PLC0415 (only here)

        @functools.wraps(function)
        def within(*args: Any, **kwargs: Any) -> Any:
            with dual_level():
                return function(*args, **kwargs)

        return within  # type: ignore[return-value]


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """Return a tensor with a tangent.

    tensor: The primal: real or complex floating point.
    tangent: A tensor of the same shape.
    level : int, optional
        Default: the innermost.
    Returns: A new tensor; results of operations on it carry tangents too.
    RuntimeError: If no level is open, the shapes differ, or the tangent has a tangent of this level itself.
    ValueError: If the primal is neither real nor complex floating point.
    TypeError: If either is not a tensor.
    """
    at = _number(level)
    if at is None:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
            + called()
        )
    for one in (tensor, tangent):
        if not isinstance(one, Tensor):
            raise TypeError(f"make_dual() takes two Tensors, not {type(one).__name__}{called()}")
    if forward.tangent_of(tangent, at) is not None:
        raise RuntimeError(
            "Setting a forward grad that itself has a forward gradient at the same level"
            f"{len(_entered()) - 1 if level is None else level} is not supported.{called()}"
        )
    return dual_of(tensor, tangent, at)


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """Return the primal and tangent of a tensor.

    tensor: Any tensor.
    level : int, optional
        Default: the innermost.
    Returns: ``(primal, tangent)``; the tangent is None if there is none.
    """
    at = _number(level)
    if at is None:
        return UnpackedDualTensor(tensor, None)
    return UnpackedDualTensor(forward.strip(tensor, at), forward.tangent_of(tensor, at))


def _number(level: int | None) -> int | None:
    """Return the number of a level from its public index; None if none is open."""
    entered = _entered()
    if not entered:
        return None
    if level is None:
        return entered[-1].number
    if not 0 <= level < len(entered):
        raise RuntimeError(f"there is no forward AD level {level}; open are {len(entered)}{called()}")
    return entered[level].number


_complete(globals(), {})

if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
