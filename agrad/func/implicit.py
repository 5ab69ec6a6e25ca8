"""``implicit``: derivatives of a solver's result, from the equations it solves, whatever the solver.

If ``F(x, a) = 0`` then ``dx/da = -(dF/dx)^-1 dF/da``. A `Function` of x and the parameters has this derivative in both
modes; the linear equations in it are again of this kind, which gives derivatives of any order. They are solved using
products only.
Source: Blondel et al., Efficient and modular implicit differentiation, 2021; Griewank and Walther, Evaluating derivatives,
2008, chapter 15.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NoReturn

from agrad import tree
from agrad.core import mode
from agrad.core.blank import Blank
from agrad.core.errors import called
from agrad.core.function import Function
from agrad.core.tensor import Tensor, wrap
from agrad.func import krylov
from agrad.func.grad import Tape, grad, jvp, linearize, vjp
from agrad.func.krylov import Method, SingularError
from agrad.func.vmap import vmap
from agrad.lazy import compute
from agrad.ops.creation import arange, asarray
from agrad.ops.data_type import astype
from agrad.ops.elementwise import imag, real, sin
from agrad.ops.linalg import vector_norm
from agrad.ops.manipulation import broadcast_to, concat, moveaxis, reshape
from agrad.program.arguments import argument_of, bare_all, is_raw, split_aux
from agrad.program.closures import search

Residual = Callable[..., Any]


#: Why no function of blocks has one, and what to do.
_NO_VALUES = (
    "func.implicit runs a solver on values and looks at what it found, but this function is captured without values, as those"
    " of agrad_dask.map_blocks are.\n  Solve without gradients, x = map_blocks(solve, a.detach()), and take one step of"
    " Newton's method from there with them, as map_blocks(lambda x, a: x - residual(x, a) / slope(x, a), x, a): it has the"
    " derivative of the solution, and does not move x"
)


class ImplicitError(RuntimeError):
    """The solver's result is not a solution, or its equations have no derivative there."""


def implicit(
    solve: Callable[..., Any],
    residual: Residual,
    *,
    kind: Literal["root", "fixed_point", "minimum"] = "root",
    has_aux: bool = False,
    tol: float = 1e-4,
    linear: str | Callable[..., Any] = "auto",
    rtol: float | None = None,
    maxiter: int | None = None,
) -> Callable[..., Any]:
    """Return a solver as a differentiable function of its arguments.

    The solver may be any Python code: a loop, SciPy, an external program. It is neither recorded nor differentiated.
    Derivatives come from the equations that its result satisfies, in reverse and forward mode and of any order; each
    costs the solution of a linear system.

    Parameters
    ----------
    solve : callable
        ``solve(*args, **kwargs)`` returns the solution ``x``: an array, a number, a tensor or a container of these. It
        receives tensors without history.
    residual : callable
        A function of ``(x, *args, **kwargs)``, made of agrad's functions. `kind` says what it returns.
    kind : {"root", "fixed_point", "minimum"}, optional
        `residual` returns values that are 0 at the solution, in a container of the shapes of x; or values that equal x
        at the solution; or a real number whose minimum (or a point of zero gradient) is the solution.
    has_aux : bool, optional
        The solver returns ``(x, aux)``, and so does the new function, with ``aux`` unchanged.
    tol : float, optional
        How exact the solution must be: the residual may be as large as the change that a relative change of x by `tol`
        causes. ``math.inf`` disables the check.
    linear : str or callable, optional
        The solver of the linear equations, which are known only by products: "gmres", "bicgstab", or "cg" if they are
        symmetric and positive definite; "dense" builds the matrix. "auto": "dense" up to 128 unknowns, then "cg" for a
        minimum, otherwise "gmres". A callable ``linear(product, b)`` gets the product, a function of a vector, and the
        right side.
    rtol : float, optional
        The largest residual of the linear equations, relative to the right side. Default: 7e-11 in double and 3e-5 in
        single precision.
    maxiter : int, optional
        The largest number of products. Default: ten times the number of unknowns, and at least 1000.

    Returns
    -------
    callable
        Takes the arguments of `solve`, returns x: tensors in the structure that `solve` returned; raw arrays if all
        arguments are raw.

    Raises
    ------
    ImplicitError
        When called: if the residual is not small at the result of `solve`, if it depends on a tensor that requires a
        gradient and is not an argument, or if x and residual differ in shape. In a derivative: if the linear equations
        are singular, or no solution of them was found.
    TypeError
        If x is not floating-point, or `residual` returns anything but tensors.
    ValueError
        If `kind` or `linear` is unknown.

    Notes
    -----
    Where the solution jumps, branches or is not isolated, there is no derivative: the linear equations are singular,
    which is an error. With more than 128 unknowns, singularity is detected by also solving them for a random right
    side.

    Under `vmap` the solver gets batched tensors, so it must consist of agrad's functions. All derivatives can be
    mapped.

    Source: Blondel et al., Efficient and modular implicit differentiation, 2021.

    Examples
    --------
    >>> import agrad as ag
    >>> def newton(a):
    ...     x = 1.0
    ...     for _ in range(30):
    ...         x = x - (x**3 + x - float(a)) / (3 * x**2 + 1)
    ...     return x
    >>> root = ag.func.implicit(newton, lambda x, a: x**3 + x - a)
    >>> a = ag.tensor(10.0, requires_grad=True)
    >>> x = root(a)
    >>> x.detach(), ag.grad(x, a)[0] * (3 * 2**2 + 1)
    (tensor(2.), tensor(1.))
    """
    if kind not in ("root", "fixed_point", "minimum"):
        raise ValueError(f"implicit: kind is 'root', 'fixed_point' or 'minimum', not {kind!r}{called()}")
    if not callable(linear) and linear not in ("auto", "dense", "cg", "gmres", "bicgstab"):
        raise ValueError(
            f"implicit: linear is 'auto', 'dense', 'cg', 'gmres', 'bicgstab' or a function, not {linear!r}{called()}"
        )
    method = Method(linear, rtol, maxiter, kind == "minimum")

    @functools.wraps(solve)
    def solution(*args: Any, **kwargs: Any) -> Any:
        leaves, arguments = tree.flatten((args, kwargs))
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor) and leaf._spec.inexact]
        theta = [leaves[i] for i in places]
        if any(isinstance(t._raw, Blank) for t in theta):
            mode.not_recorded(_NO_VALUES)

        def with_values(values: Sequence[Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
            given = list(leaves)
            for i, value in zip(places, values, strict=True):
                given[i] = value
            return tree.unflatten(arguments, given)  # type: ignore[no-any-return] # the structure it had before it was flattened

        args, kwargs = with_values([_plain(t) for t in theta])
        found, aux = solve(*args, **kwargs), None
        if has_aux:
            found, aux = split_aux(found, "implicit(solve, residual)")
        form = _Form(found, theta)

        def of(vector: Tensor, *values: Tensor) -> Tensor:
            args, kwargs = with_values(values)
            if kind == "minimum":
                return grad(lambda v: residual(form.opened(v), *args, **kwargs))(vector)  # type: ignore[no-any-return]
            made = form.joined(residual(form.opened(vector), *args, **kwargs))
            return made - vector if kind == "fixed_point" else made

        equations = _Equations(of, form.n, method, tol)
        check_closed(of, (form.vector, *map(_plain, theta)), "implicit: the residual", residual)
        root = form.opened(_Root.apply(equations, form.vector, *theta))
        result = bare_all(root) if is_raw(*args, *kwargs.values()) else root
        return (result, aux) if has_aux else result

    return solution


def _plain(t: Tensor) -> Tensor:
    """Return a tensor without history and tangents."""
    return wrap(t._raw, t._spec)


class _Form:
    """A solution as a real vector, and its conversion back.

    Attributes
    ----------
    vector : Tensor
        The solution.
    n : int
        Its length.
    """

    def __init__(self, found: Any, beside: Sequence[Tensor]) -> None:
        leaves, self.structure = tree.flatten(found)
        device = beside[0].device if beside else None
        values = [_plain(self._placed(leaf, device)) for leaf in leaves]
        for t in values:
            if not t._spec.inexact:
                raise TypeError(
                    f"implicit: the solution must be real or complex floating-point, but solve returned {t.dtype}{called()}"
                )
        if not values:
            raise TypeError(f"implicit: solve returned nothing that holds numbers{called()}")
        self.like = [t._spec for t in values]
        self.vector = _joined(values)
        (self.n,) = self.vector.shape

    @staticmethod
    def _placed(leaf: Any, device: Any) -> Tensor:
        if isinstance(leaf, Tensor):
            return leaf
        return argument_of(leaf, "implicit(solve, residual)") if device is None else asarray(leaf, device=device)

    def joined(self, values: Any) -> Tensor:
        """Return a residual as a vector, in the structure of the solution."""
        leaves, structure = tree.flatten(values)
        shapes = [getattr(leaf, "shape", None) for leaf in leaves]
        if structure != self.structure or shapes != [t.shape for t in self.like]:
            raise ImplicitError(
                f"implicit: the residual must have the structure and the shapes of the solution, {self.structure} of"
                f" {[t.shape for t in self.like]}, but is {structure} of {shapes}{called()}"
            )
        for leaf, like in zip(leaves, self.like, strict=True):
            if not isinstance(leaf, Tensor):
                raise TypeError(f"implicit: the residual must consist of tensors, not {type(leaf).__name__}{called()}")
            if leaf._spec.is_complex and not like.is_complex:
                raise ImplicitError(f"implicit: the residual is {leaf.dtype}, but the solution {like.dtype}{called()}")
        return _joined([astype(leaf, like.dtype, copy=False) for leaf, like in zip(leaves, self.like, strict=True)])

    def opened(self, vector: Tensor) -> Any:
        """Return a vector in the structure of the solution."""
        parts, at = [], 0
        for like in self.like:
            size = math.prod(like.shape)
            part = reshape(vector[at : at + size], like.shape)
            at += size
            if like.is_complex:
                part = part + 1j * reshape(vector[at : at + size], like.shape)
                at += size
            parts.append(astype(part, like.dtype, copy=False))
        return tree.unflatten(self.structure, parts)


def _joined(leaves: Sequence[Tensor]) -> Tensor:
    """Return tensors as one real vector: a residual that is not holomorphic has a derivative only in this form."""
    parts = [part for t in leaves for part in ((real(t), imag(t)) if t._spec.is_complex else (t,))]
    flat = [reshape(part, (-1,)) for part in parts]
    return flat[0] if len(flat) == 1 else concat(flat)


def check_closed(
    function: Callable[..., Any],
    values: Sequence[Tensor],
    what: str,
    users: Callable[..., Any],
    cure: str = "Make {} an argument",
) -> None:
    """Refuse a function of tensors that are not its arguments: their gradients would be lost.

    Parameters
    ----------
    function : callable
        Returns tensors.
    values : sequence of Tensor
        Its arguments, without history and tangents.
    what : str
        Its name in the message.
    users : callable
        The user's functions that it calls, which are searched for the tensor.
    cure : str, optional
        The fix to suggest, with ``{}`` for the tensor's name.
    """
    now = mode.current()
    if not (mode.is_grad_enabled() or (now is not None and now.levels)):
        return
    tape = Tape(function, values, what, has_aux=False)
    moved = now is not None and any(at in now.levels for t in tape.outputs for at in t._tangents or ())
    if tape.outward or moved:
        refuse_open(what, users, cure)


def refuse_open(what: str, users: Callable[..., Any], cure: str = "Make {} an argument") -> NoReturn:
    """Refuse a function that was seen to depend on a tensor that is not an argument; `check_closed` knows the names."""
    seen = next(search([users], lambda v: isinstance(v, Tensor) and v._is_followed()), None)
    name = "it" if seen is None else str(seen.origin)
    raise ImplicitError(
        f"{what} depends on {'a tensor' if seen is None else name}, which is being differentiated and is not one of its"
        f" arguments: the gradient would be lost.\n  {cure.replace('{}', name)}.{called()}"
    )


# -- equations ------------------------------------------------------------------------------------------------------------


class _Equations:
    """Equations ``of(x, *theta) = 0`` of a real vector.

    Attributes
    ----------
    n : int
        The number of unknowns.
    rows : int
        The number of independent systems of equations, all of one size.
    probed : bool
        Whether their derivative has been checked not to be singular.
    """

    rows = 1

    def __init__(self, of: Callable[..., Tensor], n: int, method: Method, tol: float) -> None:
        self.of, self.n, self.method, self.tol = of, n, method, tol
        self.probed = False

    def residual(self, x: Tensor, theta: Sequence[Tensor]) -> Tensor:
        return self.of(x, *theta)

    def product(self, x: Tensor, theta: Sequence[Tensor], v: Tensor, *, transposed: bool) -> Tensor:
        """Return the product of a vector and the derivative with respect to x, or its transpose: a function of all three."""
        found: Tensor
        if transposed or self.method.symmetric:
            (found,) = vjp(lambda x: self.residual(x, theta), x)[1](v)
        else:
            found = jvp(lambda x: self.residual(x, theta), (x,), (v,))[1]
        return found

    def operator(self, x: Tensor, theta: Sequence[Tensor], *, transposed: bool) -> krylov.Product:
        """Return the same product at one point, for many vectors."""
        if transposed or self.method.symmetric:
            pull = vjp(lambda x: self.residual(x, theta), x)[1]
            return lambda v: pull(v)[0]
        return linearize(lambda x: self.residual(x, theta), x)[1]

    def solved(self, b: Tensor, x: Tensor, theta: Sequence[Tensor], *, transposed: bool) -> Tensor:
        """Return the solution of linear equations whose matrix is the derivative with respect to x, as a function of all three."""
        found: Tensor = _Root.apply(_Linear(self, transposed), None, b, x, *theta)
        return found

    def solve(self, theta: Sequence[Tensor]) -> Tensor:
        raise AssertionError

    def check(self, x: Tensor, theta: Sequence[Tensor]) -> None:
        """Refuse an x that is not a solution: its residual is larger than the change that a small step from there causes."""
        if self.tol == math.inf or not self.n:
            return
        step = (1 + abs(x)) * self.tol * sin(arange(1, self.n + 1, dtype=x.dtype, device=x.device) * 12.9898)
        left, change = jvp(lambda x: self.residual(x, theta), (x,), (step,))
        left, change = compute(*(vector_norm(reshape(t, (self.rows, -1)), axis=1) for t in (left, change)))
        for size, scale in zip(left.tolist(), change.tolist(), strict=True):
            if not size <= scale:
                raise ImplicitError(
                    f"implicit: the residual at what solve returned is not small: {size:.2e}, where a relative change of x by"
                    f" {self.tol:g} makes it {scale:.2e}. The solver has not converged, or it solves other equations.\n"
                    f"  Tighten the solver's tolerance; or pass tol= to say how exact the solution must be{called()}"
                )


class _Linear(_Equations):
    """The equations ``A u = b``, or ``A^T u = b``, where A is the derivative of other equations with respect to x; ``theta = (b, x, *others)``."""

    def __init__(self, base: _Equations, transposed: bool) -> None:
        super().__init__(base.of, base.n, base.method, math.inf)
        self.base, self.transposed, self.rows = base, transposed, base.rows

    def residual(self, x: Tensor, theta: Sequence[Tensor]) -> Tensor:
        b, at, *others = theta
        return self.base.product(at, others, x, transposed=self.transposed) - b

    def product(self, x: Tensor, theta: Sequence[Tensor], v: Tensor, *, transposed: bool) -> Tensor:
        _, at, *others = theta
        return self.base.product(at, others, v, transposed=transposed ^ self.transposed)

    def operator(self, x: Tensor, theta: Sequence[Tensor], *, transposed: bool) -> krylov.Product:
        _, at, *others = theta
        return self.base.operator(at, others, transposed=transposed ^ self.transposed)

    def solved(self, b: Tensor, x: Tensor, theta: Sequence[Tensor], *, transposed: bool) -> Tensor:
        _, at, *others = theta
        return self.base.solved(b, at, others, transposed=transposed ^ self.transposed)

    def solve(self, theta: Sequence[Tensor]) -> Tensor:
        """Return the solution as a number, without history."""
        return _numbers(self, theta[0], self.operator(theta[0], theta, transposed=False))


class _Batched(_Equations):
    """The equations of every member of a batch, with all unknowns in one vector."""

    def __init__(self, base: _Equations, size: int, dims: tuple[int | None, ...]) -> None:
        super().__init__(base.of, base.n * size, base.method, base.tol)
        self.base, self.size, self.dims = base, size, dims
        self.rows = base.rows * size

    def _mapped(self, function: Callable[..., Tensor], vectors: Sequence[Tensor], theta: Sequence[Tensor]) -> Tensor:
        apart = [reshape(v, (self.size, self.base.n)) for v in vectors]
        dims = (*(0 for _ in apart), *self.dims)
        return reshape(vmap(function, in_dims=dims)(*apart, *theta), (self.n,))

    def residual(self, x: Tensor, theta: Sequence[Tensor]) -> Tensor:
        return self._mapped(lambda x, *theta: self.base.residual(x, theta), [x], theta)

    def product(self, x: Tensor, theta: Sequence[Tensor], v: Tensor, *, transposed: bool) -> Tensor:
        def one(x: Tensor, v: Tensor, *theta: Tensor) -> Tensor:
            return self.base.product(x, theta, v, transposed=transposed)

        return self._mapped(one, [x, v], theta)

    def operator(self, x: Tensor, theta: Sequence[Tensor], *, transposed: bool) -> krylov.Product:
        return lambda v: self.product(x, theta, v, transposed=transposed)

    def solve(self, theta: Sequence[Tensor]) -> Tensor:
        b = theta[0] if self.dims[0] is not None else broadcast_to(theta[0], (self.size, self.base.n))
        b = reshape(b, (self.n,))
        return _numbers(self, b, self.operator(b, theta, transposed=False))


def _numbers(equations: _Equations, b: Tensor, product: krylov.Product) -> Tensor:
    """Solve linear equations, or say why they cannot be solved."""
    probed = getattr(equations, "base", equations)
    try:
        found = krylov.solve(equations.method, product, b, equations.rows, probe=not probed.probed)
    except SingularError as error:
        raise ImplicitError(
            "implicit: there is no derivative, or it was not found: the linear equations of the residual's derivative by x"
            f" have no single solution, {error}.\n  A root that is not isolated, or that vanishes when an argument changes,"
            " has none. Otherwise try another linear= ('dense' for few unknowns), a larger rtol= or maxiter=, or a residual that"
            f" is better conditioned.{called()}"
        ) from None
    probed.probed = True
    return found


class _Root(Function):
    """The solution of equations as a function of their parameters: passed by a solver, or (None) found using products."""

    @staticmethod
    def forward(ctx: Any, equations: _Equations, x: Tensor | None, *theta: Tensor) -> Tensor:
        bare = [_plain(t) for t in theta]
        if x is None:
            found = equations.solve(bare)
        else:
            found = _plain(x)
            equations.check(found, bare)
        ctx.equations = equations
        ctx.save_for_backward(found, *theta)
        return found

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
        x, *theta = ctx.saved_tensors
        equations: _Equations = ctx.equations
        pulled = equations.solved(-g, x, theta, transposed=True)
        wanted = [i for i, needed in enumerate(ctx.needs_input_grad[2:]) if needed]

        def of(*chosen: Tensor) -> Tensor:
            values = list(theta)
            for i, t in zip(wanted, chosen, strict=True):
                values[i] = t
            return equations.residual(x, values)

        gradients: list[Any] = [None] * len(theta)
        for i, found in zip(wanted, vjp(of, *(theta[i] for i in wanted))[1](pulled), strict=True):
            gradients[i] = found
        return (None, None, *gradients)

    @staticmethod
    def jvp(ctx: Any, _: Any, __: Any, *tangents: Tensor) -> Tensor:
        x, *theta = ctx.saved_tensors
        equations: _Equations = ctx.equations
        moved = jvp(lambda *theta: equations.residual(x, theta), tuple(theta), tangents)[1]
        return equations.solved(-moved, x, theta, transposed=False)

    @staticmethod
    def vmap(info: Any, in_dims: Any, equations: _Equations, x: Tensor | None, *theta: Tensor) -> tuple[Tensor, int]:
        _, of_x, *dims = in_dims
        size = info.batch_size
        moved = [t if d is None else moveaxis(t, d, 0) for t, d in zip(theta, dims, strict=True)]
        batched = _Batched(equations, size, tuple(None if d is None else 0 for d in dims))
        if x is not None:
            whole = moveaxis(x, of_x, 0) if of_x is not None else broadcast_to(x, (size, equations.n))
            x = reshape(whole, (batched.n,))
        return reshape(_Root.apply(batched, x, *moved), (size, equations.n)), 0
