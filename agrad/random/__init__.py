"""Seeded sampling: a seed and a counter in the core, one key per call for the backend's counter-based sampler."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from agrad import dtypes
from agrad.core import names as _names
from agrad.core.backend import spec_of
from agrad.core.buffers import check_leaf, rebind
from agrad.core.errors import called
from agrad.core.mode import Setting, batch_levels, is_grad_enabled, not_recorded, recorder, within
from agrad.core.once import lock
from agrad.core.tensor import Tensor, attached
from agrad.ops import data_type, elementwise
from agrad.ops.creation import check_chunked, leaf
from agrad.ops.docs import complete as _complete
from agrad.ops.extra.selecting import overwritten
from agrad.plugin import manager
from agrad.program.batching import drawn, sampled

__all__ = [
    "Generator", "default_generator", "manual_seed", "permutation", "rand", "rand_like", "randint", "randn", "randn_like",
    "randperm", "using",
]  # fmt: skip

T = TypeVar("T")

#: The seed, and the number of the key.
Key = tuple[int, int]

#: Held while any generator hands out a key.
_COUNTING = lock()

#: Where the keys drawn in this context are recorded, and the keys it draws instead of new ones.
_noted: ContextVar[tuple[list[Key], ...]] = ContextVar("agrad_noted_keys", default=())
_given: ContextVar[Iterator[Key] | None] = ContextVar("agrad_given_keys", default=None)


class Generator:
    """A source of keys: a seed, and the number of keys handed out.

    Parameters
    ----------
    seed : int, optional
        Default: from the operating system.

    Examples
    --------
    >>> import agrad as ag
    >>> g = ag.random.Generator(7)
    >>> bool(ag.all(ag.rand(3, generator=g) == ag.rand(3, generator=ag.random.Generator(7))))
    True
    """

    def __init__(self, seed: int | None = None) -> None:
        not_recorded("the function makes a random generator of its own at every call")
        self.seed: int = operator.index(int.from_bytes(os.urandom(8), "little") if seed is None else seed)
        self.counter: int = 0

    def manual_seed(self, seed: int) -> Generator:
        """Restart from a seed."""
        self.set_state((operator.index(seed), 0))
        return self

    def __repr__(self) -> str:
        seed, counter = self.get_state()
        return f"<Generator of seed {seed}, {counter} draws made>"

    def __getstate__(self) -> Key:
        return self.get_state()

    def __setstate__(self, state: Key) -> None:
        self.seed, self.counter = state

    def key(self) -> Key:
        """Return the next key: (seed, counter)."""
        given = _given.get()
        if given is None:
            with _COUNTING:
                self.counter += 1
                key = self.seed, self.counter
        else:
            found = next(given, None)
            if found is None:
                raise RuntimeError(
                    "a checkpointed function draws more random numbers when it is run again than it did in forward"
                )
            key = found
        for keys in _noted.get():
            keys.append(key)
        return key

    def get_state(self) -> Key:
        """Return the state: the seed and the counter."""
        not_recorded("Python gets the state of a random generator")
        with _COUNTING:
            return self.seed, self.counter

    def set_state(self, state: Key) -> None:
        """Restore a state."""
        if _given.get() is None:
            now = recorder()
            if now is not None:
                now.seed(self, state)
            with _COUNTING:
                self.seed, self.counter = state


#: The replacement of the default generator by `using`.
_chosen: ContextVar[Generator | None] = ContextVar("agrad_random_generator", default=None)


class _Default(Generator):
    """The default generator: that of an enclosing `using`, or this one."""

    def __reduce__(self) -> str:
        return "default_generator"

    def key(self) -> tuple[int, int]:
        chosen = _chosen.get()
        return super().key() if chosen is None else chosen.key()

    def get_state(self) -> tuple[int, int]:
        chosen = _chosen.get()
        return super().get_state() if chosen is None else chosen.get_state()

    def set_state(self, state: tuple[int, int]) -> None:
        chosen = _chosen.get()
        if chosen is None:
            super().set_state(state)
        else:
            not_recorded("the function seeds the default random generator where using() has put another in its place")
            chosen.set_state(state)


default_generator: Generator = _Default()


def noting(keys: list[Key], function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
    """Call a function and record every key that is drawn in this context, for `again`."""
    return within(_noted, (*_noted.get(), keys), function, *args, **kwargs)


def again(keys: Iterable[Key], function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
    """Call a function that draws these keys, whatever other threads draw; no generator changes its state."""
    result: T = within(_noted, (), within, _given, iter(keys), function, *args, **kwargs)
    return result


class using(Setting):  # noqa: N801 (a function to its users)
    """Draw from another generator wherever none is given, in this context.

    Unlike `manual_seed` it does not affect other threads, so that work distributed among threads draws the same numbers
    in any order.

    Parameters
    ----------
    generator : Generator
        The source of keys inside the block.

    Examples
    --------
    >>> import agrad as ag
    >>> with ag.random.using(ag.random.Generator(7)):
    ...     a = ag.rand(3)
    >>> bool(ag.all(a == ag.rand(3, generator=ag.random.Generator(7))))
    True
    """

    var = _chosen

    def __init__(self, generator: Generator) -> None:
        super().__init__(generator)

    def __enter__(self) -> Generator:
        not_recorded("random.using() puts another generator in the place of the default one")
        super().__enter__()
        return self._value  # type: ignore[no-any-return]


def manual_seed(seed: int) -> Generator:
    """Restart the default generator from a seed.

    seed : int
        The same seed gives the same numbers, on every run of one backend.
    Returns: The default generator.

    >>> _ = ag.manual_seed(0)
    >>> a = ag.randn(3)
    >>> _ = ag.manual_seed(0)
    >>> bool(ag.all(a == ag.randn(3)))
    True
    """
    return default_generator.manual_seed(seed)


def _sample(
    kind: str,
    shape: tuple[int, ...],
    *,
    dtype: Any,
    device: Any,
    generator: Generator | None,
    of: str = "float",
    requires_grad: bool = False,
    chunks: Any = None,
    **parameters: Any,
) -> Tensor:
    backend, where = manager.device_of(device)
    native = backend.default_dtype(of, where) if dtype is None else backend.dtype(dtype)
    if chunks is not None:
        check_chunked(backend, "a draw")
        parameters["chunks"] = chunks
    found = backend.kind(native)
    if kind in ("uniform", "normal") and found != "float":
        if found != "complex":
            raise TypeError(
                f"{kind} numbers are drawn as floating point ones, not as {native}\n  Draw integers by randint(), or"
                f" convert: rand(3).to(dtype).{called()}"
            )
        options = {"dtype": data_type.finfo(native).dtype, "device": device, "generator": generator, "chunks": chunks}
        real, imag = (_sample(kind, shape, **options) for _ in range(2))
        made = real + imag * 1j
        if kind == "normal":  # the variance of the complex number is 1
            made = made * math.sqrt(0.5)
        return made.requires_grad_() if requires_grad else made
    source = generator or default_generator
    key = source.key()
    recording = recorder()
    if recording is not None:
        recording.sources[id(key)] = source
    if batch_levels.get():
        raw = sampled(backend, kind, shape, key, dtype=native, device=where, **parameters)
        return leaf(spec_of(raw).backend, raw, requires_grad)
    raw = drawn(backend, kind, shape, key, dtype=native, device=where, **parameters)
    return leaf(backend, raw, requires_grad)


def _shape(shape: tuple[Any, ...]) -> tuple[int, ...]:
    if len(shape) == 1 and isinstance(shape[0], tuple | list):
        return tuple(shape[0])
    return tuple(operator.index(n) for n in shape)


def rand(
    *shape: Any,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    generator: Generator | None = None,
    chunks: Any = None,
    size: Any = None,
) -> Tensor:
    """Numbers uniform on [0, 1), of a complex dtype both parts of each.

    *shape : int or tuple
        The shape, as integers or one tuple.
    dtype: Default: `get_default_dtype`.
    device: ``"<backend>[:<device>]"``. Default: the default backend's.
    requires_grad : bool, optional
        Whether to record operations on the result.
    generator: The source of keys. Default: the generator of `manual_seed`.
    size : int or tuple, optional
        PyTorch's name for the shape.
    Returns: A new leaf. On Dask the numbers depend on the chunks.
    TypeError: If the dtype is neither real nor complex floating point.

    >>> x = ag.rand(2, 3)
    >>> x.shape
    (2, 3)
    >>> bool(ag.all((x >= 0) & (x < 1)))
    True
    """
    return _sample(
        "uniform",
        _shape(shape if size is None else (*shape, size)),
        dtype=dtype,
        device=device,
        generator=generator,
        requires_grad=requires_grad,
        chunks=chunks,
    )


def randn(
    *shape: Any,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    generator: Generator | None = None,
    chunks: Any = None,
    size: Any = None,
) -> Tensor:
    """Numbers of the standard normal distribution; of a complex dtype, both parts have the variance 1/2.

    *shape : int or tuple
        The shape, as integers or one tuple.
    dtype: Default: `get_default_dtype`.
    device: ``"<backend>[:<device>]"``. Default: the default backend's.
    requires_grad : bool, optional
        Whether to record operations on the result.
    generator: The source of keys. Default: the generator of `manual_seed`.
    size : int or tuple, optional
        PyTorch's name for the shape.
    Returns: A new leaf.
    TypeError: If the dtype is neither real nor complex floating point.

    >>> ag.randn((2, 3)).shape
    (2, 3)
    """
    return _sample(
        "normal",
        _shape(shape if size is None else (*shape, size)),
        dtype=dtype,
        device=device,
        generator=generator,
        requires_grad=requires_grad,
        chunks=chunks,
    )


def randint(
    low: int = 0,
    high: Any = None,
    size: int | tuple[int, ...] | None = None,
    *,
    dtype: Any = None,
    device: Any = None,
    generator: Generator | None = None,
    chunks: Any = None,
) -> Tensor:
    """Integers uniform from `low` (0 if omitted) to `high` - 1.

    low, high : int
        The range; a single number is `high`.
    size : int or tuple of int
        The shape.
    dtype: Default: int64.
    device: ``"<backend>[:<device>]"``. Default: the default backend's.
    generator: The source of keys. Default: the generator of `manual_seed`.
    Returns: A new leaf.
    TypeError: If no size is given.
    ValueError: If the range is empty.

    >>> x = ag.randint(3, 5, (100,))
    >>> sorted(set(x.tolist()))
    [3, 4]
    >>> ag.randint(1, size=(2,))
    tensor([0, 0])
    """
    if isinstance(high, tuple | list):
        low, high, size = 0, low, tuple(high)
    elif high is None and size is not None:
        low, high = 0, low
    if size is None:
        raise TypeError("randint() needs a size, as in randint(low, high, (3,))")
    if not isinstance(high, int) or low >= high:
        raise ValueError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    return _sample(
        "integers",
        (size,) if isinstance(size, int) else tuple(size),
        dtype=dtype,
        of="int",
        device=device,
        generator=generator,
        chunks=chunks,
        low=low,
        high=high,
    )


def randperm(n: int, *, dtype: Any = None, device: Any = None, generator: Generator | None = None) -> Tensor:
    """The integers 0 to n - 1 in random order; `permutation` is another name for it.

    n : int
        How many integers.
    dtype: Default: int64.
    device: ``"<backend>[:<device>]"``. Default: the default backend's.
    generator: The source of keys. Default: the generator of `manual_seed`.
    Returns: A new leaf.

    >>> sorted(ag.randperm(4).tolist())
    [0, 1, 2, 3]
    """
    return _sample("permutation", (n,), dtype=dtype, of="int", device=device, generator=generator, n=operator.index(n))


permutation = randperm


def rand_like(x: Tensor, **kwargs: Any) -> Tensor:
    """`rand` of the shape, dtype and device of a tensor.

    x: The tensor that determines shape, dtype and device.
    **kwargs : optional
        As for `rand`; a dtype or device overrides that of `x`.
    Returns: A new leaf.

    >>> ag.rand_like(ag.zeros((2, 3), dtype="float32")).dtype
    dtype('float32')
    """
    return rand(x.shape, **{"dtype": x.dtype, "device": x.device, **kwargs})


def randn_like(x: Tensor, **kwargs: Any) -> Tensor:
    """`randn` of the shape, dtype and device of a tensor.

    x: The tensor that determines shape, dtype and device.
    **kwargs : optional
        As for `randn`; a dtype or device overrides that of `x`.
    Returns: A new leaf.

    >>> ag.randn_like(ag.zeros((2, 3), dtype="float32")).dtype
    dtype('float32')
    """
    return randn(x.shape, **{"dtype": x.dtype, "device": x.device, **kwargs})


@attached
class Draws:
    """Methods that set a tensor to random numbers, which have no history."""

    def normal_(self: Any, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Tensor:
        """Set to numbers of a normal distribution.

        mean, std : float, optional
            Its mean and standard deviation. In complex tensors both parts have this mean, and half of the variance each.
        """
        _check(std >= 0, f"normal expects std >= 0.0, but found std {std}")
        return _drawn(self, "normal_()", randn_like(self, generator=generator) * std + in_both(mean, self))

    def uniform_(self: Any, a: float = 0.0, b: float = 1.0, *, generator: Any = None) -> Tensor:
        """Set to numbers uniform on [a, b).

        a, b : float, optional
            The bounds; in complex tensors those of both parts.
        """
        _check(a <= b, f"uniform_ expects to return a [from, to) range, but found from={a} > to={b}")
        return _drawn(self, "uniform_()", rand_like(self, generator=generator) * (b - a) + in_both(a, self))

    def exponential_(self: Any, lambd: float = 1.0, *, generator: Any = None) -> Tensor:
        """Set to numbers of an exponential distribution.

        lambd : float, optional
            The rate, one over the mean.
        """
        _check(lambd > 0, f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
        if self._spec.is_complex:
            raise TypeError(f"exponential_() draws real numbers, and {self.dtype} is complex{called()}")
        uniform = rand_like(self, generator=generator)
        return _drawn(self, "exponential_()", -elementwise.log1p(-uniform) / lambd)

    def bernoulli_(self: Any, p: Any = 0.5, *, generator: Any = None) -> Tensor:
        """Set to ones with a probability, zeros otherwise.

        p : float or Tensor, optional
            The probability, or that of each element.
        """
        if isinstance(p, int | float):
            _check(0 <= p <= 1, f"bernoulli_ expects p to be in [0, 1], but got p={p}")
        uniform = rand(self.shape, device=self.device, generator=generator)
        return _drawn(self, "bernoulli_()", data_type.astype(uniform < p, self.dtype))

    def random_(self: Any, low: int | None = None, to: int | None = None, *, generator: Any = None) -> Tensor:
        """Set to integers uniform from `low` (0 if omitted) to ``to - 1``; a single number is `to`.

        low, to : int, optional
            The range. Default: all integers from 0 on that the dtype holds, of a floating point one those without gaps.
        """
        least, largest = _integers_of(self)
        if to is None:
            low, to = 0, largest + 1 if low is None else low
        low = 0 if low is None else low
        _check(low < to, f"random_ expects 'from' to be less than 'to', but got from={low} >= to={to}")
        if not self.is_floating_point():
            _check(least <= low, f"from is out of bounds for {self.dtype}: from={low} < {least}")
            _check(to - 1 <= largest, f"to - 1 is out of bounds for {self.dtype}: to={to} > {largest} + 1")
        drawn = randint(low, min(to, 2**63 - 1), self.shape, device=self.device, generator=generator)
        return _drawn(self, "random_()", data_type.astype(drawn, self.dtype))


def _check(truth: Any, text: str) -> None:
    if not truth:
        raise RuntimeError(text)


def in_both(number: float, x: Any) -> complex:
    """Return a number as both parts of a complex one where `x` is complex, as PyTorch shifts complex draws."""
    return complex(number, number) if x._spec.is_complex else number


def _integers_of(x: Any) -> tuple[int, int]:
    """Return the least and the largest integer of the dtype of `x`, of a floating point one that without gaps below."""
    if x._spec.is_complex:
        raise TypeError(f"random_() draws integers, and {x.dtype} is complex{called()}")
    if x.dtype == dtypes.bool:
        return 0, 1
    if x.is_floating_point():
        largest = int(2 / data_type.finfo(x.dtype).eps)
        return -largest, largest
    info = data_type.iinfo(x.dtype)
    return int(info.min), int(info.max)


def _drawn(x: Tensor, what: str, value: Tensor) -> Tensor:
    """Replace the value of a tensor by random numbers: they do not depend on what it was, and its history gets zeros."""
    check_leaf(x, what)
    if x.requires_grad and is_grad_enabled():
        value = overwritten(x, value)
    rebind(x, value, what)
    return x


_GENERATOR = "Generator, optional\n    Default: the one that `manual_seed` seeds."
_complete(
    globals(),
    {
        "chunks": (
            "int, tuple or str, optional\n    The lengths of the chunks on a backend that has some, as ``(1000, -1)``; elsewhere a TypeError."
        ),
        "device": 'str, optional\n    ``"<backend>[:<device>]"``. Default: the default backend\'s.',
        "dtype": "DType, backend's dtype or str, optional",
        "generator": _GENERATOR,
    },
)
_complete(vars(Draws), {"generator": _GENERATOR}, methods=True)

if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
