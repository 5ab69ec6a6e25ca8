"""Ordinary differential equations, by SciPy's integrators, and integrals: differentiable by start, times, limits and arguments.

In reverse mode the adjoint equation is integrated (by the same integrator), from one output to the previous one; the
state is integrated backwards with it, and where that is unstable, forwards again from the previous output. In forward
mode the equation of the tangents is integrated. Both are flows as well, and so are differentiable themselves.
Alternatively (``gradient="discrete"``) the steps of a Runge-Kutta method are repeated in agrad's functions.
Source: Froehlich et al., Scalable inference of ordinary differential equation models of biochemical processes, 2017, section
2.4; Chen et al., Neural ordinary differential equations, 2018; Griewank, Achieving logarithmic growth of temporal and spatial
complexity in reverse automatic differentiation, 1992.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from agrad import tree
from agrad.compiled.adaptive import AdaptiveCFunction, AdaptiveFunction, AdaptivePlainFunction
from agrad.compiled.comparing import equal_in_bits
from agrad.core import names as _names
from agrad.core.errors import UnsupportedOp, called
from agrad.core.function import Function
from agrad.core.mode import recorder
from agrad.core.operands import from_raw
from agrad.core.tensor import Tensor, wrap
from agrad.func.grad import jvp, vjp
from agrad.func.implicit import check_closed, refuse_open
from agrad.func.vmap import vmap
from agrad.numpy import numerics
from agrad.numpy.common import axis_of, floatings
from agrad.ops import extra
from agrad.ops.creation import asarray, zeros_like
from agrad.ops.data_type import astype
from agrad.ops.docs import refer
from agrad.ops.elementwise import abs as absolute
from agrad.ops.elementwise import conj, imag, real
from agrad.ops.linalg import matmul
from agrad.ops.manipulation import broadcast_to, concat, moveaxis, permute_dims, reshape, stack
from agrad.ops.searching import where
from agrad.ops.statistical import max as largest
from agrad.ops.statistical import min as smallest
from agrad.ops.statistical import sum as total
from agrad.plugin.manager import scipys
from agrad.program.arguments import bare, is_raw, moves
from agrad.utils.checkpoint import checkpoint

__all__ = ["cumulative_trapezoid", "nquad", "odeint", "quad", "simpson", "solve_ivp", "trapezoid"]

#: ``rhs(y, t, *theta)``: the derivative of a state.
Rhs = Callable[..., Any]

#: A state that was integrated backwards may differ from its known value by this many times the tolerance.
SLACK = 30


def refuse_lazy(what: str, arguments: Any) -> None:
    """Refuse lazy arrays, as the steps of a solver depend on values."""
    for t in tree.flatten(arguments)[0]:
        if isinstance(t, Tensor) and not t._spec.backend.is_batched and t._spec.backend.is_lazy:
            raise UnsupportedOp(
                f"scipy.{what}",
                t._spec.backend.name,
                "steps depend on values: compute() the arguments and pass on to_device()",
            )


def _plain(t: Tensor) -> Tensor:
    """Return a tensor without history and tangents."""
    return wrap(t._raw, t._spec)


def _host(t: Tensor) -> Any:
    return t._spec.backend.to_host(t._raw)


# -- what integrates ------------------------------------------------------------------------------------------------------


class _NotArrivedError(RuntimeError):
    """An integration ended before its time."""


class _Odeint:
    """SciPy's `odeint`, which is ODEPACK's LSODA.

    Attributes
    ----------
    rtol, atol : float
        The tolerances.
    info : dict
        The report of the last integration.
    """

    def __init__(self, rtol: float, atol: float, options: dict[str, Any]) -> None:
        self.rtol, self.atol, self.options = rtol, atol, options
        self.info: dict[str, Any] = {}

    def __call__(self, fun: Callable[..., Any], y0: Any, times: Any) -> Any:
        """Return the states at times, a row each."""
        integrate = scipys("integrate")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", integrate.ODEintWarning)  # it is raised
            found, self.info = integrate.odeint(
                fun, y0, times, tfirst=True, full_output=True, rtol=self.rtol, atol=self.atol, **self.options
            )
        if self.info["message"] != "Integration successful.":
            raise _NotArrivedError(f"odeint: {self.info['message']}{called()}")
        return found

    def dense(self, fun: Callable[..., Any], y0: Any, span: tuple[float, float]) -> Callable[[float], Any]:
        """Return the states as a function of time."""
        return _Ivp("LSODA", self.rtol, self.atol, {}).dense(fun, y0, span)


class _Ivp:
    """SciPy's `solve_ivp`."""

    def __init__(self, method: Any, rtol: float, atol: float, options: dict[str, Any]) -> None:
        self.rtol, self.atol = rtol, atol
        self.options = {"method": method, "rtol": rtol, "atol": atol, **options}

    def __call__(self, fun: Callable[..., Any], y0: Any, times: Any) -> Any:
        """Return the states at times, a row each."""
        new = times[1:] != times[:-1]  # SciPy wants each once
        found = self._solved(fun, y0, (times[0], times[-1]), t_eval=times[[0, *(new.nonzero()[0] + 1)]])
        return found.y.T[[0, *new.cumsum()]]

    def dense(self, fun: Callable[..., Any], y0: Any, span: tuple[float, float]) -> Callable[[float], Any]:
        """Return the states as a function of time."""
        return self._solved(fun, y0, span, dense_output=True).sol

    def _solved(self, fun: Callable[..., Any], y0: Any, span: tuple[float, float], **more: Any) -> Any:
        found = scipys("integrate").solve_ivp(fun, span, y0, **self.options, **more)
        if not found.success:
            raise _NotArrivedError(f"solve_ivp: {found.message}{called()}")
        return found


# -- systems --------------------------------------------------------------------------------------------------------------


class _Parts:
    """Tensors as one vector, real or complex, and the conversion back."""

    def __init__(self, like: Sequence[Tensor], *, is_complex: bool) -> None:
        self.like, self.is_complex = [(t.shape, t._spec.is_complex) for t in like], is_complex

    def joined(self, parts: Sequence[Tensor]) -> Tensor:
        flat = []
        for part, (_, is_complex) in zip(parts, self.like, strict=True):
            halves = (real(part), imag(part)) if is_complex and not self.is_complex else (part,)
            flat += [reshape(half, (-1,)) for half in halves]
        return concat(flat)

    def opened(self, vector: Tensor) -> list[Tensor]:
        parts, at = [], 0
        for shape, is_complex in self.like:
            size = math.prod(shape)
            part = reshape(vector[at : at + size], shape)
            at += size
            if is_complex and not self.is_complex:
                part = part + 1j * reshape(vector[at : at + size], shape)
                at += size
            elif self.is_complex and not is_complex:
                part = real(part)
            parts.append(part)
        return parts


class _System:
    """Equations ``y' = rhs(y, t, *theta)`` of a vector, and their integrator.

    Attributes
    ----------
    run, first : _Odeint or _Ivp
        The integrator, for equations derived from these, and for these.
    leads : _System or None
        The system whose state is the first part of this one's, and does not depend on the rest.
    plain : callable or None
        ``plain(t, y)`` is the right side for plain arrays, if it accepts them: see `_InitialValueProblem.plain`.
    found : Tensor or None
        The states, a row each, if they are known already.
    alone : bool
        Whether the user integrates them: they are neither an adjoint nor the equation of a tangent.
    unstable : bool
        Integrated backwards, the leading system did not return to its starting point.
    """

    leads: _System | None = None
    plain: Callable[[float, Any], Any] | None = None
    alone = True
    unstable = False
    found: Any = None

    def __init__(self, rhs: Rhs, run: Any, first: Any = None) -> None:
        self.rhs, self.run, self.first = rhs, run, first or run
        self._adaptive = AdaptiveFunction(rhs)

    def numbers(self, theta: Sequence[Tensor], like: Tensor) -> Callable[[Any, Any], Any]:
        """Return the right side as SciPy calls it."""
        rhs, backend, device = self._adaptive, like._spec.backend, like._spec.device
        plain = self.plain

        def of(t: Any, y: Any) -> Any:
            held = from_raw(backend.from_host(y.copy(), device))  # SciPy writes to its own
            return _host(rhs(held, from_raw(backend.asarray(float(t), device=device)), *theta))

        def of_plain(t: Any, y: Any) -> Any:
            try:
                return plain(float(t), y.copy())  # type: ignore[misc] # it is none only below
            except Exception:  # noqa: BLE001 (what only tensors have, on a way not taken at the start; if not, it comes again)
                return of(t, y)

        return of if plain is None else of_plain

    def integrated(self, y0: Tensor, times: Tensor, known: Tensor | None, theta: Sequence[Tensor]) -> Tensor:
        """Return the states at times; for two times, that of the leading system may be known at the second."""
        found, self.found = self.found, None
        backend, device = y0._spec.backend, y0._spec.device
        at = _host(times)
        if found is None:
            if (at == at[0]).all():
                return broadcast_to(y0, (len(at), *y0.shape))
            if self.unstable and known is not None:
                return self._along(y0, at, known, theta)
            try:
                found = self.first(self.numbers(theta, y0), _host(y0), at)
            except (_NotArrivedError, ValueError):  # in SciPy's eliminations, if the state has overflowed
                if known is None or self.leads is None:
                    raise
        if found is not None:
            result = found if isinstance(found, Tensor) else from_raw(backend.from_host(found, device))
            if known is None or self._close(result[-1, : known.shape[0]], known):
                return result
        assert known is not None
        self.unstable = True
        return self._along(y0, at, known, theta)

    def _close(self, found: Tensor, known: Tensor) -> bool:
        """Return whether a state returned to its known value; if there is no other way to reach it, a larger difference is accepted."""
        size = float(largest(absolute(known)))
        tolerance = self.run.atol + self.run.rtol * size
        bound = SLACK * tolerance
        if self.leads is None:
            bound = max(bound, min(1000 * tolerance, 1e-3 * (1 + size)))
        return float(largest(absolute(found - known))) <= bound

    def _along(self, y0: Tensor, at: Any, known: Tensor, theta: Sequence[Tensor]) -> Tensor:
        """Integrate the rest of the state along the path of the leading system, which is integrated from its known end."""
        if self.leads is None:
            raise RuntimeError(
                "the equations cannot be integrated backwards: the state does not return to where it was.\n  More checkpoints="
                f" shorten the interval; gradient='discrete' of solve_ivp integrates nothing backwards{called()}"
            )
        path = self.leads.run.dense(self.leads.numbers(theta, known), _host(known), (at[-1], at[0]))
        backend, device, n = y0._spec.backend, y0._spec.device, known.shape[0]

        def rest(t: Any, w: Any) -> Any:
            whole = concat([from_raw(backend.from_host(part, device)) for part in (path(t), w.copy())])
            return _host(self._adaptive(whole, asarray(t, device=device), *theta)[n:])

        found = self.run(rest, _host(y0)[n:], at)[-1]
        return stack([y0, concat([known, from_raw(backend.from_host(found, device))])])


class _Adjoint(_System):
    """The adjoint equations: for the state, its cotangent, and the cotangents of parameters so far."""

    alone = False

    def __init__(self, base: _System, state: Tensor, theta: Sequence[Tensor], wanted: Sequence[int]) -> None:
        super().__init__(self._moved, base.run)
        self.base, self.wanted = base, wanted
        self.leads = base if base.alone else None
        self.parts = _Parts([state, state, *(theta[i] for i in wanted)], is_complex=state._spec.is_complex)

    def _moved(self, z: Tensor, t: Tensor, *theta: Tensor) -> Tensor:
        y, g, *_ = self.parts.opened(z)

        def of(y: Tensor, *chosen: Tensor) -> Tensor:
            values = list(theta)
            for i, value in zip(self.wanted, chosen, strict=True):
                values[i] = value
            return self.base.rhs(y, t, *values)

        slope, pull = vjp(of, y, *(theta[i] for i in self.wanted))
        return self.parts.joined([slope, *(-back for back in pull(g))])


class _Tangent(_System):
    """The equations of the state and of its tangent."""

    alone = False

    def __init__(self, base: _System, state: Tensor) -> None:
        super().__init__(self._moved, base.run)
        self.base, self.n = base, state.shape[0]

    def _moved(self, z: Tensor, t: Tensor, *both: Tensor) -> Tensor:
        theta, moves = both[: len(both) // 2], both[len(both) // 2 :]
        slope, push = jvp(lambda y, *theta: self.base.rhs(y, t, *theta), (z[: self.n], *theta), (z[self.n :], *moves))
        return concat([slope, push])


class _Mapped(_System):
    """The equations of every member of a batch, with one error control."""

    def __init__(self, base: _System, size: int, n: int, dims: Sequence[int | None]) -> None:
        super().__init__(self._moved, base.run)
        self.base, self.size, self.n, self.dims = base, size, n, (0, None, *dims)
        self.alone = base.alone

    def _moved(self, z: Tensor, t: Tensor, *theta: Tensor) -> Tensor:
        apart = reshape(z, (self.size, self.n))
        return reshape(vmap(self.base.rhs, in_dims=self.dims)(apart, t, *theta), (-1,))


class _Flow(Function):
    """The states of a system at times, one row each, given the state at the first."""

    @staticmethod
    def forward(ctx: Any, system: _System, y0: Tensor, times: Tensor, known: Tensor | None, *theta: Tensor) -> Tensor:
        bare = [None if t is None else _plain(t) for t in (known, *theta)]
        found = system.integrated(_plain(y0), _plain(times), bare[0], bare[1:])  # type: ignore[arg-type] # theta is not None
        ctx.system = system
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(found, times, *theta)
        return found

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
        ys, times, *theta = ctx.saved_tensors
        _, _, by_times, _, *needed = ctx.needs_input_grad
        system: _System = ctx.system
        wanted = [i for i, need in enumerate(needed) if need]
        adjoint = _Adjoint(system, ys[0, ...], theta, wanted)
        back, sums = g[-1, ...], [zeros_like(theta[i]) for i in wanted]
        moved: list[Tensor] = []

        def along(i: int, g: Tensor) -> Tensor:
            return total(real(conj(g) * system.rhs(ys[i, ...], times[i], *theta)))

        for i in range(ys.shape[0] - 1, 0, -1):
            if by_times:
                moved.append(along(i, g[i, ...]))
            start = adjoint.parts.joined([ys[i, ...], back, *sums])
            ended = _Flow.apply(adjoint, start, stack([times[i], times[i - 1]]), _plain(ys[i - 1, ...]), *theta)
            _, back, *sums = adjoint.parts.opened(ended[1, ...])
            if i == 1 and by_times:
                moved.append(-along(0, back))
            back = back + g[i - 1, ...]
        gradients: list[Any] = [None] * len(theta)
        for i, part in zip(wanted, sums, strict=True):
            gradients[i] = part
        of_times = (stack(moved[::-1]) if moved else zeros_like(times)) if by_times else None
        return (None, back, of_times, None, *gradients)

    @staticmethod
    def jvp(ctx: Any, _: Any, t_y0: Any, t_times: Any, __: Any, *t_theta: Any) -> Tensor:
        ys, times, *theta = ctx.saved_tensors
        system: _System = ctx.system
        moves = [zeros_like(t) if move is None else move for t, move in zip(theta, t_theta, strict=True)]
        start = zeros_like(ys[0, ...]) if t_y0 is None else t_y0
        first = start
        if t_times is not None:
            slopes = [system.rhs(ys[i, ...], times[i], *theta) * t_times[i] for i in range(ys.shape[0])]
            first = start - slopes[0]
        n = start.shape[0]
        tangent = _Tangent(system, start)
        pushed = _Flow.apply(tangent, concat([ys[0, ...], first]), times, None, *theta, *moves)[:, n:]
        if t_times is not None:
            pushed = pushed + stack(slopes)
        return pushed

    @staticmethod
    def vmap(
        info: Any, in_dims: Any, system: _System, y0: Tensor, times: Tensor, known: Tensor | None, *theta: Tensor
    ) -> tuple[Tensor, int]:
        _, of_y0, of_times, of_known, *dims = in_dims
        if of_times is not None:
            raise RuntimeError(
                f"vmap: the times of an integration must be the same for all members of the batch{called()}"
            )
        size = info.batch_size

        def rows(t: Tensor, dim: int | None) -> Tensor:
            return reshape(moveaxis(t, dim, 0) if dim is not None else broadcast_to(t, (size, *t.shape)), (-1,))

        moved = [t if d is None else moveaxis(t, d, 0) for t, d in zip(theta, dims, strict=True)]
        n = y0.shape[0] if of_y0 is None else y0.shape[1 - of_y0]
        mapped = _Mapped(system, size, n, [None if d is None else 0 for d in dims])
        found = _Flow.apply(mapped, rows(y0, of_y0), times, None, *moved)
        if known is not None:
            m = known.shape[0] if of_known is None else known.shape[1 - of_known]
            there = reshape(rows(known, of_known), (size, m))
            if not mapped._close(reshape(_plain(found)[-1, ...], (size, n))[:, :m], _plain(there)):
                mapped._along(y0, None, known, ())
        return reshape(found, (found.shape[0], size, n)), 1


# -- what users call ------------------------------------------------------------------------------------------------------


def _taken_apart(args: tuple[Any, ...]) -> tuple[list[Tensor], Callable[[Sequence[Tensor]], Any]]:
    """Return the tensors among arguments that have derivatives, and the function that substitutes others for them."""
    leaves, structure = tree.flatten(args)
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor) and leaf._spec.inexact]
    rest = [None if i in places else leaf for i, leaf in enumerate(leaves)]

    def arguments(theta: Sequence[Tensor]) -> Any:
        given = list(rest)
        for i, value in zip(places, theta, strict=True):
            given[i] = value
        return tree.unflatten(structure, given)

    return [leaves[i] for i in places], arguments


class _InitialValueProblem:
    """Start, times and arguments, as both functions take them.

    Attributes
    ----------
    y0 : Tensor
        The start, in double precision, with one axis.
    rhs : callable
        ``rhs(y, t, *theta)``.
    theta : list of Tensor
        The tensors among the arguments that have derivatives.
    raw : bool
        There is no tensor.
    arguments : callable
        Puts such tensors into the function's further arguments.
    """

    def __init__(self, what: str, function: Rhs, y0: Any, args: Any, beside: Sequence[Any], *, by_time: bool) -> None:
        args = args if isinstance(args, tuple) else (args,)
        self.theta, arguments = _taken_apart(args)
        self.raw = is_raw(y0, *beside, args)
        refuse_lazy(f"integrate.{what}", (y0, *beside, *self.theta))
        device = next((t.device for t in self.theta), None)
        start = y0 if isinstance(y0, Tensor) else asarray(y0, device=device)
        start = astype(start, "complex128" if start._spec.is_complex else "float64", copy=False)
        self.y0 = reshape(start, (-1,)) if not start.ndim else start
        self.device = device = self.y0.device

        def rhs(y: Tensor, t: Tensor, *theta: Tensor) -> Tensor:
            args = arguments(theta)
            found = function(t, y, *args) if by_time else function(y, t, *args)
            made = found if isinstance(found, Tensor) else asarray(found, device=device)
            return made if made.ndim else reshape(made, (-1,))

        self.function, self.by_time, self.rhs, self.arguments = function, by_time, rhs, arguments

    def numbers(self, function: Any, *, by_time: bool, is_event: bool = False) -> Any:
        """Return a Jacobian or an event in the form that SciPy calls; values that are not functions are returned unchanged."""
        if not callable(function):
            return function
        args = self.arguments([_plain(t) for t in self.theta])

        def of(t: Any, y: Any) -> Any:
            state, time = asarray(y, device=self.device, copy=True), asarray(t, device=self.device)
            found = function(time, state, *args) if by_time else function(state, time, *args)
            if is_event and isinstance(found, Tensor) and found._is_followed():
                refuse_open("solve_ivp: an event", function, "Its time has a derivative by func.implicit; detach {}")
            return _host(found) if isinstance(found, Tensor) else found

        for name in ("terminal", "direction"):
            if hasattr(function, name):
                setattr(of, name, getattr(function, name))
        return of

    def plain(self, t: Tensor, *, alone: bool) -> Any:
        """Return ``plain(t, y)``, the function for SciPy to call with plain arrays, which is several times as fast as with tensors.

        None if its results for plain arrays at the start are not arrays equal to those for tensors, or if other values
        than plain arrays are passed. If it is `alone`, the only user function that is called, a program may replace it.
        """
        y = self.y0
        if not self.raw or y._raw is not _host(y) or recorder() is not None:
            return None
        function, by_time, args = self.function, self.by_time, self.arguments([])

        def plain(t: float, y: Any) -> Any:
            found = function(t, y, *args) if by_time else function(y, t, *args)
            return found._raw if isinstance(found, Tensor) else found

        try:
            first = t.item(), y._raw.copy()
            found = function(*(first if by_time else first[::-1]), *args)
            if isinstance(found, Tensor) and (found._spec.backend is not y._spec.backend or found._is_followed()):
                return None
            raw = asarray(found)._raw
        except Exception:  # noqa: BLE001 (it takes tensors alone)
            return None
        if not equal_in_bits(y._spec.backend, raw, self.rhs(_plain(y), _plain(t))._raw):
            return None
        adaptive = AdaptivePlainFunction.of(function) if alone else None
        start = (_host(t), y._raw.copy()) if by_time else (y._raw.copy(), _host(t))
        return plain if adaptive is None else adaptive.during(plain, (*start, *args), int(by_time))

    def check(self, what: str, t: Tensor) -> None:
        """Refuse a function that uses tensors which are not its arguments."""
        values = (_plain(self.y0), _plain(t), *map(_plain, self.theta))
        cure = "Make {} an argument of the function, and give args=({},)"
        check_closed(self.rhs, values, f"{what}: the function", self.function, cure)

    def times(self, t: Any) -> Tensor:
        made = t if isinstance(t, Tensor) else asarray(t, device=self.device)
        return astype(made, "float64", copy=False)

    def flow(self, system: _System, times: Tensor, checkpoints: int) -> Tensor:
        """Return the states at times; with checkpoints between them."""
        if not checkpoints:
            return _Flow.apply(system, self.y0, times, None, *self.theta)
        at, shares = _plain(times), [i / (checkpoints + 1) for i in range(1, checkpoints + 1)]
        parts = [times[:1]]
        for i in range(times.shape[0] - 1):
            parts += [stack([at[i] + share * (at[i + 1] - at[i]) for share in shares]), times[i + 1 : i + 2]]
        found = _Flow.apply(system, self.y0, concat(parts), None, *self.theta)
        return found[:: checkpoints + 1, ...]

    def given(self, result: Tensor) -> Any:
        return bare(result) if self.raw else result


def odeint(
    func: Rhs,
    y0: Any,
    t: Any,
    args: tuple[Any, ...] = (),
    *,
    rtol: float | None = None,
    atol: float | None = None,
    full_output: bool = False,
    tfirst: bool = False,
    checkpoints: int = 0,
    **options: Any,
) -> Any:
    """Integrate ordinary differential equations by LSODA; differentiable by start, times and arguments.

    `func` is made of agrad's functions, and receives its `args` unchanged: tensors, containers of them. If all
    arguments are plain arrays, it is called with plain arrays, provided that at the start it returns plain arrays with
    the same values. The tolerances also apply to derivatives. States are a tensor in double precision; raw if all
    arguments are raw.

    Beyond SciPy: `checkpoints` is the number of additional states to keep between those requested, so that the adjoint
    is integrated over shorter intervals. `options` are SciPy's others: ``mxstep``, ``hmax``, ``Dfun``, ...

    Raises RuntimeError if the integration does not reach its end, here (where SciPy warns) or in a derivative, and if
    the equations cannot be integrated backwards for derivatives of higher order.

    In reverse mode the adjoint equations are integrated from one time to the previous one, together with the state
    backwards. Where the state does not return to its previous value, which is kept, that interval is integrated
    forwards again and the adjoint along it, so that stiff equations have gradients. A gradient is as accurate as the
    tolerances
    allow: it is that of the solution, not of its approximation. Source: Froehlich et al., 2017; Chen et al., Neural
    ordinary differential equations, 2018.

    >>> import agrad as ag
    >>> from agrad.scipy.integrate import odeint
    >>> rate = ag.tensor(0.5, requires_grad=True)
    >>> y = odeint(lambda y, t, rate: -rate * y, [1.0], [0.0, 1.0, 2.0], (rate,))
    >>> y.detach()[:, 0]
    tensor([1.0000, 0.6065, 0.3679])
    >>> ag.grad(y[-1, 0], rate)  # of exp(-2 rate)
    (tensor(-0.7358),)
    """
    problem = _InitialValueProblem("odeint", func, y0, args, (t,), by_time=tfirst)
    times = problem.times(t)
    rtol, atol = (1.49012e-8 if tol is None else tol for tol in (rtol, atol))
    if times.ndim != 1 or problem.y0.ndim != 1 or not times.shape[0]:
        raise ValueError(
            f"odeint: y0 and t have one axis, and t is not empty; got shapes {problem.y0.shape}, {times.shape}"
        )
    if "Dfun" in options:
        options["Dfun"] = problem.numbers(options["Dfun"], by_time=tfirst)
    first = _Odeint(rtol, atol, options)
    kept = {name: value for name, value in options.items() if name in ("mxstep", "hmax", "hmin", "mxordn", "mxords")}
    system = _System(problem.rhs, _Odeint(_least(rtol), _least(atol), kept), first)
    system.plain = problem.plain(times[0], alone="Dfun" not in options)
    if system.plain is None:
        problem.check("odeint", times[0])
    states = problem.given(problem.flow(system, times, checkpoints))
    return (states, first.info) if full_output else states


def _least(tolerance: Any) -> float:
    """Return the smallest tolerance, if there are more unknowns than tolerances."""
    return float(tolerance if isinstance(tolerance, float | int) else smallest(asarray(tolerance)))


def solve_ivp(
    fun: Rhs,
    t_span: tuple[Any, Any],
    y0: Any,
    method: Any = "RK45",
    t_eval: Any = None,
    dense_output: bool = False,
    events: Any = None,
    vectorized: bool = False,
    args: tuple[Any, ...] | None = None,
    *,
    rtol: Any = 1e-3,
    atol: Any = 1e-6,
    gradient: Literal["adjoint", "discrete"] = "adjoint",
    checkpoints: int = 0,
    **options: Any,
) -> Any:
    """Integrate ordinary differential equations by any of SciPy's methods; differentiable with respect to start, times and arguments.

    `fun` is made of agrad's functions, and receives its `args` unchanged: tensors, containers of them. If all arguments
    are plain arrays, it is called with plain arrays, provided that at the start it returns plain arrays with the same
    values. The tolerances `rtol` and `atol` also apply to derivatives. The result is SciPy's, where ``t``, ``y`` and
    the results of ``sol`` are tensors; raw if all arguments are raw. The solver's own steps count as constants, except
    the first and the last. The time of an event
    is a root: differentiate it by `agrad.func.implicit`.

    Beyond SciPy: `gradient` "adjoint" differentiates the solution, by integrating its adjoint equations; "discrete"
    differentiates the steps that were taken (RK23, RK45), by repeating them in agrad's functions: exact for the
    computed numbers, in memory that grows with the steps. `checkpoints`, adjoint: the number of additional states to
    keep between those requested. Discrete: the number of parts that the steps are divided into; only the states between
    them are kept, and backward repeats one part at a time.

    Raises RuntimeError in a derivative, if an integration does not reach its end, or the equations cannot be integrated
    backwards for derivatives of higher order. Raises UnsupportedOp with `events` if anything is differentiated; with
    "discrete", for other methods. ``success`` and ``message`` report an integration that does not reach its end; its
    results up to there have derivatives.

    Source: Chen et al., Neural ordinary differential equations, 2018; Griewank, 1992.

    >>> import agrad as ag
    >>> from agrad.scipy.integrate import solve_ivp
    >>> def swing(t, y, stiffness):
    ...     return ag.stack([y[1], -stiffness * y[0]])
    >>> k = ag.tensor(4.0, requires_grad=True)
    >>> found = solve_ivp(swing, (0.0, 1.0), [1.0, 0.0], args=(k,), rtol=1e-8, atol=1e-8)
    >>> found.y[0, -1].detach(), ag.grad(found.y[0, -1], k)  # cos(2), -sin(2) / 4
    (tensor(-0.4161), (tensor(-0.2273),))
    """
    _check_gradient(gradient, method)
    problem = _InitialValueProblem(
        "solve_ivp", _on_columns(fun) if vectorized else fun, y0, args or (), (t_span, t_eval), by_time=True
    )
    begin, end = (problem.times(t) for t in t_span)
    if problem.y0.ndim != 1:
        raise ValueError(f"`y0` must be 1-dimensional.{called()}")
    if events is not None and moves((problem.y0, begin, end, problem.theta)):
        raise UnsupportedOp(
            "scipy.integrate.solve_ivp with events, of what is differentiated,",
            "",
            f"an event's time has a derivative by func.implicit; detach the arguments{called()}",
        )
    options["jac"] = problem.numbers(options.get("jac"), by_time=True)
    kept = {name: options[name] for name in ("max_step",) if name in options}
    system = _System(problem.rhs, _Ivp(method, _least(rtol), _least(atol), kept))
    alone = events is None and not callable(options["jac"]) and isinstance(method, str)
    system.plain = problem.plain(begin, alone=alone)
    if system.plain is None:
        problem.check("solve_ivp", begin)
    wanted = None if t_eval is None else problem.times(t_eval)
    found = scipys("integrate").solve_ivp(
        system.numbers([_plain(t) for t in problem.theta], problem.y0),
        (float(_plain(begin)), float(_plain(end))),
        _host(problem.y0),
        method=method,
        t_eval=None if wanted is None else _host(_plain(wanted)),
        dense_output=dense_output or gradient == "discrete",
        events=_as_scipy_calls(problem, events),
        rtol=rtol,
        atol=atol,
        **{name: value for name, value in options.items() if value is not None},
    )
    repeated = _RungeKutta(problem, method, found.sol.ts) if gradient == "discrete" else None
    solution = _Solution(problem, system, (begin, end), found.sol, repeated, checkpoints)
    count = len(found.t)
    if count:
        arrived = found.success and events is None
        times = solution.steps(found.t, arrived=arrived) if wanted is None else wanted[:count]
        states = permute_dims(solution.states(times, found.y), (1, 0))
        found.t, found.y = problem.given(times), problem.given(states)
    found.sol = solution.sol if dense_output else None
    return found


def _check_gradient(gradient: str, method: Any) -> None:
    """Refuse an unknown `gradient`, or one that a method does not support."""
    if gradient not in ("adjoint", "discrete"):
        raise ValueError(f"solve_ivp: gradient is 'adjoint' or 'discrete', not {gradient!r}{called()}")
    if gradient == "discrete" and method not in ("RK23", "RK45"):
        how = f"scipy.integrate.solve_ivp with gradient='discrete' and method={method!r}"
        raise UnsupportedOp(how, "", "it repeats the steps of RK23 and RK45")


def _on_columns(fun: Rhs) -> Rhs:
    """Return a function of one state, given one that takes several as columns."""
    return lambda t, y, *args: reshape(fun(t, reshape(y, (-1, 1)), *args), (-1,))


def _as_scipy_calls(problem: _InitialValueProblem, events: Any) -> Any:
    """Return an event, or a list of them, as functions of arrays."""
    if isinstance(events, list | tuple):
        return [problem.numbers(event, by_time=True, is_event=True) for event in events]
    return problem.numbers(events, by_time=True, is_event=True)


class _Solution:
    """SciPy's solution of a problem, between two times, as differentiable tensors.

    Attributes
    ----------
    path : callable or None
        SciPy's solution at any time, if it was requested.
    repeated : _RungeKutta or None
        The steps, if they are differentiated.
    """

    def __init__(
        self,
        problem: _InitialValueProblem,
        system: _System,
        span: tuple[Tensor, Tensor],
        path: Any,
        repeated: _RungeKutta | None,
        checkpoints: int,
    ) -> None:
        self.problem, self.system, self.path, self.repeated = problem, system, path, repeated
        self.begin, self.end = span
        self.checkpoints = checkpoints
        self._moving = moves((problem.y0, *span, problem.theta))

    def steps(self, times: Any, *, arrived: bool) -> Tensor:
        """Return the times of the solver's own steps: the first is the start, the last the end if it was reached."""
        last = [reshape(self.end, (1,))] if arrived and len(times) > 1 else []
        inner = asarray(times[1 : len(times) - len(last)], device=self.problem.device)
        return concat([reshape(self.begin, (1,)), inner, *last])

    def states(self, times: Tensor, values: Any) -> Tensor:
        """Return the states at times, a row each; their values are known, a column each."""
        rows = asarray(values.T, device=self.problem.device)
        if not self._moving and not moves(times):
            return rows
        if self.repeated is not None:
            return self.repeated.states((self.begin, self.end), times, self.checkpoints)
        self.system.found = None if self.checkpoints else concat([stack([_plain(self.problem.y0)]), rows])
        every = concat([reshape(self.begin, (1,)), times])
        return self.problem.flow(self.system, every, self.checkpoints)[1:, ...]

    def sol(self, t: Any) -> Any:
        """Return the states at times within the span: of one time (unknowns,), of several (unknowns, times)."""
        problem, path = self.problem, self.path
        made = problem.times(t)
        asked = reshape(made, (-1,))
        numbers = asked.tolist()
        low, high = sorted((path.t_min, path.t_max))
        if not all(low <= number <= high for number in numbers):
            raise ValueError(f"sol: times must be within the span, from {low} to {high}{called()}")
        backwards = float(_plain(self.begin)) > float(_plain(self.end))
        order = sorted(range(len(numbers)), key=numbers.__getitem__, reverse=backwards)
        places = sorted(range(len(numbers)), key=order.__getitem__)
        ordered = asked[asarray(order, device=problem.device)]
        rows = self.states(ordered, path(_host(_plain(ordered))))[asarray(places, device=problem.device)]
        found = rows[0, ...] if not made.ndim else permute_dims(rows, (1, 0))
        return bare(found) if problem.raw and not isinstance(t, Tensor) else found


class _RungeKutta:
    """The steps taken by a Runge-Kutta method of SciPy, to be repeated in agrad's functions.

    Attributes
    ----------
    ends : array
        The start and end of each step. As fractions of the span they are constants.
    inner, weights, between : Tensor
        The coefficients of the method: of the slopes for each stage, for the step, and for the states within it.
    nodes : list of float
        The positions of its stages in a step, as fractions.
    """

    def __init__(self, problem: _InitialValueProblem, method: str, ends: Any) -> None:
        tableau = getattr(scipys("integrate"), method)
        self.problem, self.ends = problem, ends
        self.inner, self.weights, self.between = (
            asarray(getattr(tableau, name), device=problem.device) for name in "ABP"
        )
        self.nodes = tableau.C[: tableau.n_stages].tolist()
        whole = float(ends[-1]) - float(ends[0])
        self._shares = [(float(t) - float(ends[0])) / whole for t in ends] if whole else [0.0]
        self._ahead = whole >= 0

    def states(self, span: tuple[Tensor, Tensor], times: Tensor, checkpoints: int) -> Tensor:
        """Return the states at times, a row each.

        Parameters
        ----------
        checkpoints : int
            The number of parts that are repeated in backward. 0: everything is kept.
        """
        problem, steps = self.problem, len(self.ends) - 1
        places = [(place, self._step_of(t)) for place, t in enumerate(times.tolist())]
        y = problem.y0
        rows: list[Tensor] = []
        if steps > 0:
            f = problem.rhs(y, span[0], *problem.theta)
            parts = max(1, min(checkpoints, steps))
            cuts = [i * steps // parts for i in range(parts + 1)]
            for low, high in itertools.pairwise(cuts):
                mine = [(place, step) for place, step in places if low <= step < high]
                given: tuple[Any, ...] = (range(low, high), mine, y, f, *span, times, *problem.theta)
                y, f, *more = checkpoint(self._run, *given) if checkpoints else self._run(*given)
                rows += more
        return stack(rows or [y for _ in places])

    def _step_of(self, t: float) -> int:
        """Return the number of the step that contains a time."""
        ends = self.ends
        later = [i for i in range(1, len(ends)) if (t <= ends[i] if self._ahead else t >= ends[i])]
        return later[0] - 1 if later else len(ends) - 2

    def _run(
        self,
        numbers: range,
        places: list[tuple[int, int]],
        y: Tensor,
        f: Tensor,
        begin: Tensor,
        end: Tensor,
        times: Tensor,
        *theta: Tensor,
    ) -> tuple[Tensor, ...]:
        """Take some of the steps; return the last state, its slope, and the states at those times that lie in these steps."""
        rows = []
        for i in numbers:
            start, size = self._shares[i], self._shares[i + 1] - self._shares[i]
            t, h = begin + start * (end - begin), size * (end - begin)
            new, slopes = self._step(y, f, t, h, theta)
            for place, step in places:
                if step == i:
                    rows.append(y + h * self._within((times[place] - t) / h, slopes))
            y, f = new, slopes[-1]
        return (y, f, *rows)

    def _step(self, y: Tensor, f: Tensor, t: Tensor, h: Tensor, theta: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """Take a step from a state and its slope; return the next state, and the slopes of all stages and of that state."""
        rhs, slopes = self.problem.rhs, [f]
        for s in range(1, len(self.nodes)):
            slopes.append(rhs(y + h * matmul(self.inner[s, :s], stack(slopes)), t + self.nodes[s] * h, *theta))
        new = y + h * matmul(self.weights, stack(slopes))
        return new, [*slopes, rhs(new, t + h, *theta)]

    def _within(self, x: Tensor, slopes: list[Tensor]) -> Tensor:
        """Return the mean slope up to a fraction of a step."""
        powers = stack([x**p for p in range(1, self.between.shape[1] + 1)])
        return matmul(matmul(self.between, powers), stack(slopes))


# -- integrals --------------------------------------------------------------------------------------------------------


class _Integrand:
    """A function of a number and of tensors, ``of(x, *theta)``, to be integrated.

    Attributes
    ----------
    tolerances : dict
        The options for SciPy: ``epsabs``, ``epsrel``, ``limit``, ``points``.
    number : dict or None
        Further options of SciPy's `quad`, for a function that returns a number; None for vectors, by `quad_vec`.
    func, arguments : callable
        The user's function, if it is one; the conversion of `theta` to its further arguments.
    rest : list
        The report of the last integration besides the integral: an error estimate first.
    """

    def __init__(
        self,
        of: Callable[..., Tensor],
        tolerances: dict[str, Any],
        number: dict[str, Any] | None = None,
        func: Any = None,
        arguments: Callable[[Sequence[Tensor]], Any] = tuple,
    ) -> None:
        self.of, self.tolerances, self.number, self.func, self.arguments = of, tolerances, number, func, arguments
        self.rest: list[Any] = []
        self._adaptive = AdaptiveFunction(of)

    def integrated(self, a: Tensor, b: Tensor, theta: Sequence[Tensor]) -> Tensor:
        """Return the integral, a number or a vector."""
        backend, device = a._spec.backend, a._spec.device

        def at(x: Any) -> Tensor:
            return self._adaptive(from_raw(backend.asarray(float(x), device=device)), *theta)

        run, low, high = scipys("integrate"), float(a), float(b)
        if self.number is not None:
            place, args = asarray(_within(low, high), dtype="float64", device=device), self.arguments(theta)
            call, more = _called_as(self.func, lambda x: float(at(x)), (place,), args)
            found, *self.rest = run.quad(call, low, high, args=more, **self.tolerances, **self.number)
        elif low == high:  # `quad_vec` turns these into NaN
            return zeros_like(self.of(a, *theta))
        else:
            found, *self.rest, info = run.quad_vec(
                lambda x: _host(at(x)), low, high, full_output=True, **self.tolerances
            )
            if not info.success:
                raise _NotArrivedError(
                    f"quad: the integral of a derivative does not converge: {info.message}{called()}"
                )
        return from_raw(backend.asarray(found, device=device))


class _Integral(Function):
    """The integral of an `_Integrand` between limits."""

    @staticmethod
    def forward(ctx: Any, integrand: _Integrand, a: Tensor, b: Tensor, *theta: Tensor) -> Tensor:
        ctx.integrand = integrand
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(a, b, *theta)
        return integrand.integrated(_plain(a), _plain(b), [_plain(t) for t in theta])

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
        a, b, *theta = ctx.saved_tensors
        _, by_a, by_b, *needed = ctx.needs_input_grad
        integrand: _Integrand = ctx.integrand
        wanted = [i for i, need in enumerate(needed) if need]
        gradients: list[Any] = [None] * len(theta)
        if wanted:
            parts = _Parts([theta[i] for i in wanted], is_complex=False)

            def pulled(x: Tensor, g: Tensor, *theta: Tensor) -> Tensor:
                def of(*chosen: Tensor) -> Tensor:
                    values = list(theta)
                    for i, value in zip(wanted, chosen, strict=True):
                        values[i] = value
                    return integrand.of(x, *values)

                return parts.joined(vjp(of, *(theta[i] for i in wanted))[1](g))

            found = _Integral.apply(_Integrand(pulled, integrand.tolerances), a, b, g, *theta)
            for i, part in zip(wanted, parts.opened(found), strict=True):
                gradients[i] = part
        of_a = -total(g * integrand.of(a, *theta)) if by_a else None
        of_b = total(g * integrand.of(b, *theta)) if by_b else None
        return (None, of_a, of_b, *gradients)

    @staticmethod
    def jvp(ctx: Any, _: Any, t_a: Any, t_b: Any, *t_theta: Any) -> Tensor:
        a, b, *theta = ctx.saved_tensors
        integrand: _Integrand = ctx.integrand
        found: Any = 0.0
        if any(move is not None for move in t_theta):
            moves = [zeros_like(t) if move is None else move for t, move in zip(theta, t_theta, strict=True)]

            def pushed(x: Tensor, *both: Tensor) -> Tensor:
                theta, moves = both[: len(both) // 2], both[len(both) // 2 :]
                return jvp(lambda *theta: integrand.of(x, *theta), theta, moves)[1]

            found = _Integral.apply(_Integrand(pushed, integrand.tolerances), a, b, *theta, *moves)
        if t_a is not None:
            found = found - integrand.of(a, *theta) * t_a
        if t_b is not None:
            found = found + integrand.of(b, *theta) * t_b
        return found

    @staticmethod
    def vmap(
        info: Any, in_dims: Any, integrand: _Integrand, a: Tensor, b: Tensor, *theta: Tensor
    ) -> tuple[Tensor, int]:
        _, of_a, of_b, *dims = in_dims
        if of_a is not None or of_b is not None:
            raise RuntimeError(
                f"vmap: the limits of an integral must be the same for all members of the batch{called()}"
            )
        mapped = _Integrand(vmap(integrand.of, in_dims=(None, *dims)), integrand.tolerances)
        found = _Integral.apply(mapped, a, b, *theta)
        integrand.rest = mapped.rest
        return found, 0


def quad(
    func: Callable[..., Any],
    a: Any,
    b: Any,
    args: Any = (),
    full_output: int = 0,
    epsabs: float = 1.49e-8,
    epsrel: float = 1.49e-8,
    limit: int = 50,
    points: Any = None,
) -> tuple[Any, ...]:
    """Integrate a function of one variable between limits by QUADPACK; differentiable with respect to the limits and arguments.

    `func` is made of agrad's functions, if anything is differentiated, and receives its `args` unchanged: tensors,
    containers of them. The integral is a float if no argument is a tensor. With respect to arguments, the derivative of
    the function is integrated, for all of them at once, by SciPy's `quad_vec`; with respect to a limit, the derivative
    is the function there (Leibniz' rule). Raises RuntimeError if that integral does not converge.

    `weight` with `wvar`, `wopts`, `maxp1` and `limlst` is not supported: write the weight into the function. Instead of
    `complex_func`, integrate real and imaginary parts.

    >>> import agrad as ag
    >>> from agrad.scipy.integrate import quad
    >>> rate = ag.tensor(2.0, requires_grad=True)
    >>> y, error = quad(lambda x, rate: ag.exp(-rate * x), 0.0, ag.inf, (rate,))
    >>> y.detach(), ag.grad(y, rate)  # 1 / rate
    (tensor(0.5000), (tensor(-0.2500),))
    """
    args = args if isinstance(args, tuple) else (args,)
    theta, arguments = _taken_apart(args)
    refuse_lazy("integrate.quad", (a, b, *theta))
    device = next((t.device for t in (a, b, *theta) if isinstance(t, Tensor)), None)
    low, high = (
        astype(t if isinstance(t, Tensor) else asarray(t, device=device), "float64", copy=False) for t in (a, b)
    )
    tolerances = {"epsabs": epsabs, "epsrel": epsrel, "limit": limit, "points": points}

    def of(x: Any, *theta: Tensor) -> Tensor:
        found = func(x, *arguments(theta))
        return found if isinstance(found, Tensor) else asarray(found, device=device)

    def check() -> None:
        inside = next(
            (end for t, end in ((a, low), (b, high)) if isinstance(t, Tensor) or math.isfinite(t)), zeros_like(low)
        )
        check_closed(of, [_plain(inside), *map(_plain, theta)], "quad: the function", func)

    if is_raw(a, b, args):
        number, ends = _number_of(func, args, check), (float(low), float(high))
        call, more = _called_as(func, number, (_within(*ends),), args)
        found, *rest = scipys("integrate").quad(call, *ends, args=more, full_output=full_output, **tolerances)
        return (found, *rest)
    check()
    integrand = _Integrand(of, tolerances, {"full_output": full_output}, func, arguments)
    return (_Integral.apply(integrand, low, high, *theta), *integrand.rest)


def nquad(
    func: Callable[..., Any], ranges: Sequence[Any], args: Any = (), opts: Any = None, full_output: bool = False
) -> tuple[Any, ...]:
    """Integrate a function of several variables; differentiable with respect to limits and arguments.

    The value is that of SciPy's `nquad`; derivatives are those of nested integrals by `quad`, whose docstring says
    more. Arguments and limits are tensors or containers of them; a function among `ranges` receives the outer variables
    and the arguments, and returns limits made of agrad's functions. The integral is a float if no tensor is passed.

    Derivatives support ``epsabs``, ``epsrel``, ``limit`` and ``points`` of `opts`; other options only apply to
    integrals of numbers.

    >>> import agrad as ag
    >>> from agrad.scipy.integrate import nquad
    >>> side = ag.tensor(2.0, requires_grad=True)
    >>> area, error = nquad(lambda x, y, side: 1.0 + 0.0 * x, [lambda y, side: (0.0, y), (0.0, side)], (side,))
    >>> area.detach(), ag.grad(area, side)  # side**2 / 2
    (tensor(2.), (tensor(2.),))
    """
    args = args if isinstance(args, tuple) else (args,)
    whole = _Region(func, ranges, args, opts)
    if is_raw(args, [one for one in ranges if not callable(one)]):
        number = _number_of(func, args, whole.check)
        return whole.scipys(number, whole.within([]), args, [], full_output=full_output)
    whole.check()
    found = _NestedIntegral.apply(whole, *whole.theta)
    return (found, *whole.rest)


class _Region:
    """A function of several numbers and of tensors, and its region of integration.

    Attributes
    ----------
    theta : list of Tensor
        The differentiable parts of its arguments and of the limits.
    rest : list
        The report of the last integration besides the integral: an error estimate first.
    """

    def __init__(self, func: Callable[..., Any], ranges: Sequence[Any], args: tuple[Any, ...], opts: Any) -> None:
        self.func, self.count, self.rest = func, len(ranges), list[Any]()
        opts = {} if opts is None else opts
        self.opts = [opts] * self.count if isinstance(opts, dict) else list(opts)
        if len(self.opts) != self.count or not self.count:
            raise ValueError(f"nquad: there are {self.count} ranges and {len(self.opts)} opts{called()}")
        self.theta, self.put = _taken_apart((args, [one if callable(one) else tuple(one) for one in ranges]))
        limits = [t for t in tree.flatten(ranges)[0] if not callable(t)]
        refuse_lazy("integrate.nquad", (limits, *self.theta))
        self.device = next((t.device for t in self.theta), None)
        self._adaptive = AdaptiveFunction(self.of)

    def of(self, *given: Tensor) -> Tensor:
        """Return the function of numbers, one per variable, and of `theta`."""
        args, _ = self.put(given[self.count :])
        found = self.func(*given[: self.count], *args)
        return found if isinstance(found, Tensor) else asarray(found, device=self.device)

    def limits(self, at: int, outer: Sequence[Any], theta: Sequence[Tensor]) -> tuple[Any, Any]:
        """Return the limits of a variable, given the outer variables."""
        args, ranges = self.put(theta)
        low, high = ranges[at](*outer, *args) if callable(ranges[at]) else ranges[at]
        return low, high

    def options(self, at: int, outer: Sequence[Any], theta: Sequence[Tensor]) -> dict[str, Any]:
        """Return the options for SciPy of the integral over a variable."""
        found = self.opts[at]
        return dict(found(*outer, *self.put(theta)[0]) if callable(found) else found)

    def within(self, theta: Sequence[Tensor]) -> tuple[float, ...]:
        """Return a point in the region."""
        found: tuple[float, ...] = ()
        for at in reversed(range(self.count)):
            found = (_within(*map(_bare_float, self.limits(at, found, theta))), *found)
        return found

    def check(self) -> None:
        """Refuse functions that use tensors which are not their arguments."""
        plain = [_plain(t) for t in self.theta]
        place = [asarray(x, dtype="float64", device=self.device) for x in self.within(plain)]

        def at_place(*theta: Tensor) -> tuple[Any, ...]:
            ends = (self.limits(at, place[at + 1 :], theta) for at in range(self.count))
            seen = [asarray(end, device=self.device) for pair in ends for end in pair]
            return (self.of(*place, *theta), *seen)

        check_closed(at_place, plain, "nquad: the function", self.func)

    def scipys(
        self,
        number: Callable[..., float],
        place: tuple[Any, ...],
        args: tuple[Any, ...],
        theta: Sequence[Tensor],
        *,
        full_output: bool = False,
    ) -> tuple[Any, ...]:
        """Return the result of SciPy's `nquad`; see `_called_as`."""
        call, more = _called_as(self.func, number, place, args)

        def ends(at: int) -> Callable[..., tuple[float, float]]:
            outer = self.count - at - 1

            def of(*xs: float) -> tuple[float, float]:
                low, high = self.limits(at, xs[:outer], theta)
                return float(low), float(high)

            return of

        ranges = [ends(at) for at in range(self.count)]
        options = [lambda *xs, at=at: self.options(at, xs[: self.count - at - 1], theta) for at in range(self.count)]
        found: tuple[Any, ...] = scipys("integrate").nquad(
            call, ranges, args=more, opts=options, full_output=full_output
        )
        return found

    def value(self, theta: Sequence[Tensor]) -> Tensor:
        """Return the integral."""
        args, _ = self.put(theta)

        def tensors(xs: Sequence[float]) -> list[Tensor]:
            return [asarray(x, dtype="float64", device=self.device) for x in xs]

        def number(*xs: float) -> float:
            return float(self._adaptive(*tensors(xs), *theta))

        found, *self.rest = self.scipys(number, tuple(tensors(self.within(theta))), args, theta)
        return asarray(found, dtype="float64", device=self.device)

    def nested(self, *theta: Tensor) -> Tensor:
        """Return the integral as nested integrals, each over one variable."""
        return self._over(self.count - 1, (), theta)

    def _over(self, at: int, outer: tuple[Tensor, ...], theta: Sequence[Tensor]) -> Tensor:
        """Return the integral over a variable and the inner ones, given the outer ones."""
        if at < 0:
            return self.of(*outer, *theta)

        def of(*given: Tensor) -> Tensor:
            return self._over(at - 1, given[: len(outer) + 1], given[len(outer) + 1 :])

        low, high = (
            astype(t if isinstance(t, Tensor) else asarray(t, device=self.device), "float64", copy=False)
            for t in self.limits(at, outer, theta)
        )
        options = self.options(at, [*map(_plain, outer)], [*map(_plain, theta)])
        others = options.keys() - {"epsabs", "epsrel", "limit", "points"}
        if others:
            raise ValueError(
                f"nquad: derivatives of an integral with {', '.join(sorted(others))} are not there{called()}"
            )
        if "points" in options:
            ends = _bare_float(low), _bare_float(high)
            options["points"] = [x for x in options["points"] if ends[0] <= x <= ends[1]] or None
        integrand = _Integrand(of, {"epsabs": 1.49e-8, "epsrel": 1.49e-8, "limit": 50, "points": None, **options}, {})
        return _Integral.apply(integrand, low, high, *outer, *theta)


class _NestedIntegral(Function):
    """The integral over a region: its value in one call, its derivatives as those of nested integrals."""

    @staticmethod
    def forward(ctx: Any, whole: _Region, *theta: Tensor) -> Tensor:
        ctx.whole = whole
        ctx.save_for_backward(*theta)
        return whole.value([_plain(t) for t in theta])

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
        theta, needed = ctx.saved_tensors, ctx.needs_input_grad[1:]
        wanted = [i for i, need in enumerate(needed) if need]

        def of(*chosen: Tensor) -> Tensor:
            values = list(theta)
            for i, value in zip(wanted, chosen, strict=True):
                values[i] = value
            return ctx.whole.nested(*values)

        gradients: list[Any] = [None] * len(theta)
        for i, part in zip(wanted, vjp(of, *(theta[i] for i in wanted))[1](g), strict=True):
            gradients[i] = part
        return (None, *gradients)

    @staticmethod
    def jvp(ctx: Any, _: Any, *t_theta: Any) -> Tensor:
        theta = ctx.saved_tensors
        moves = tuple(zeros_like(t) if move is None else move for t, move in zip(theta, t_theta, strict=True))
        found: Tensor = jvp(ctx.whole.nested, tuple(theta), moves)[1]
        return found

    @staticmethod
    def vmap(info: Any, in_dims: Any, whole: _Region, *theta: Tensor) -> tuple[Tensor, int]:
        whole.rest = [math.nan]
        return vmap(whole.nested, in_dims=in_dims[1:])(*theta), 0


def _bare_float(x: Any) -> float:
    """Return a number as Python's, if nobody requests derivatives of it."""
    return float(_plain(x) if isinstance(x, Tensor) else x)


def _within(low: float, high: float) -> float:
    """Return a point between two limits, possibly infinite."""
    if math.isfinite(low) and math.isfinite(high):
        return low + 0.375 * (high - low)
    return low + 0.375 if math.isfinite(low) else high - 0.375 if math.isfinite(high) else 0.375


def _number_of(func: Callable[..., Any], args: tuple[Any, ...], check: Callable[[], None]) -> Callable[..., float]:
    """Return a function that returns Python numbers; `check` is called if a tensor that it returns is differentiated."""

    def number(*xs: float) -> float:
        found = func(*xs, *args)
        if isinstance(found, Tensor) and found._is_followed():
            check()
        return float(found)

    return number


def _called_as(
    func: Any, number: Callable[..., float], place: tuple[Any, ...], args: tuple[Any, ...]
) -> tuple[Any, tuple[float, ...]]:
    """Return the function for SciPy to integrate, `number` or a C function with the same bits, and the numbers to pass to it.

    Parameters
    ----------
    func : callable
        The user's.
    number : callable
        Its results for numbers.
    place : tuple
        Points in the region: numbers, or tensors if the user's function receives tensors.
    args : tuple
        Its further arguments.
    """
    known = AdaptiveCFunction.of(func)
    return (number, ()) if known is None else known.taken(number, place, args)


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Tensor:
    """Return the integral along an axis by the trapezoidal rule; see `agrad.numpy.trapezoid`.

    >>> from agrad.scipy.integrate import trapezoid
    >>> trapezoid([1.0, 2.0, 3.0], x=[4.0, 6.0, 8.0])
    tensor(8.)
    """
    return numerics.trapezoid(y, x, dx, axis)


def cumulative_trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1, initial: float | None = None) -> Tensor:
    """Return the running integral along an axis by the trapezoidal rule.

    >>> from agrad.scipy.integrate import cumulative_trapezoid
    >>> cumulative_trapezoid([1.0, 2.0, 3.0], initial=0)
    tensor([0.0000, 1.5000, 4.0000])
    """
    values, *places = floatings(*((y,) if x is None else (y, x)))
    at = axis_of(axis, values.ndim)
    return extra.cumulative_trapezoid(values, places[0] if places else None, dx=dx, axis=at, initial=initial)


def simpson(y: Any, x: Any = None, *, dx: Any = 1.0, axis: int = -1) -> Tensor:
    """Return the integral along an axis by Simpson's rule.

    >>> from agrad.scipy.integrate import simpson
    >>> simpson([0.0, 1.0, 4.0])
    tensor(2.6667)
    """
    values, *places = floatings(*((y,) if x is None else (y, x)))
    at = axis_of(axis, values.ndim)
    f, n = moveaxis(values, at, 0), values.shape[at]
    if places:
        place = places[0]
        if place.shape[-1:] != (n,) and place.shape != values.shape:
            raise ValueError(
                f"If given, length of x along axis must be the same as y, not of the shapes {place.shape} and {values.shape}"
                f"{called()}"
            )
        knots = reshape(place, (n, *(1 for _ in f.shape[1:]))) if place.ndim == 1 else moveaxis(place, at, 0)
        steps = knots[1:, ...] - knots[:-1, ...]
    else:
        steps = asarray(dx, device=f.device) + zeros_like(f[1:, ...])
    if n < 3:
        return total(steps * (f[1:, ...] + f[:-1, ...]) / 2, axis=0)
    last = n - 1 if n % 2 else n - 2  # the start of the remaining pairs of intervals
    before, after = steps[0:last:2, ...], steps[1:last:2, ...]
    both, product = before + after, before * after
    weights = 2 - _quotient(after, before), both * _quotient(both, product), 2 - _quotient(before, after)
    parts = (f[0:last:2, ...], f[1:last:2, ...], f[2 : last + 1 : 2, ...])
    inner = sum(weight * part for weight, part in zip(weights, parts, strict=True))
    found = total(both / 6 * inner, axis=0)
    if n % 2:
        return found
    g, h = steps[-2, ...], steps[-1, ...]
    return (
        found
        + _quotient(2 * h**2 + 3 * g * h, 6 * (g + h)) * f[-1, ...]
        + _quotient(h**2 + 3 * g * h, 6 * g) * f[-2, ...]
        - _quotient(h**3, 6 * g * (g + h)) * f[-3, ...]
    )


def _quotient(a: Tensor, b: Tensor) -> Tensor:
    """Return a quotient, 0 where two points coincide."""
    none = b == 0
    return where(none, 0.0, a / where(none, 1.0, b))


refer(
    globals(),
    "scipy.integrate",
    {  # as `fun` and `func` begin
        "f": "Raises ImplicitError if the function depends on a tensor that is being differentiated and is not one of its arguments,\n"
        "and UnsupportedOp on lazy arrays."
    },
)

if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
