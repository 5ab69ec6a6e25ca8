"""gradcheck: derivatives against finite differences, with PyTorch's arguments and words.

Written using agrad only: values are transferred as Python numbers, so it runs on every backend.

A Jacobian here has a row per input number and a column per output number. In reverse mode an entry is the gradient,
dL/dRe + i dL/dIm of L = Re(conj(v) y), for v = 1 and (complex outputs) v = i; in forward mode it is the derivative of
the output along 1 and (complex inputs) along i. For real functions both are the ordinary Jacobian.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from agrad.autograd.backward import grad
from agrad.core import forward
from agrad.core.backend import backend_of
from agrad.core.tensor import Tensor
from agrad.dtypes import name_of
from agrad.func.vmap import vmap
from agrad.ops.creation import asarray, zeros_like
from agrad.ops.docs import complete as _complete
from agrad.ops.manipulation import reshape, stack
from agrad.tree import flatten, unflatten

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]

Matrix = list[list[complex]]


class GradcheckError(RuntimeError):
    """A derivative differs from its finite differences, or a backward function breaks a rule."""


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
) -> bool:
    """Check the derivatives of a function against central finite differences.

    func : callable
        Takes the inputs and returns a Tensor or a container of them. It is called many times and must be deterministic.
        Results without a history (including arrays and floats) must not depend on the inputs, except in steps like
        those of ``sign``.
    inputs : Tensor or sequence
        Its arguments, with tensors anywhere in containers. Those that require grad are checked; they should be float64
        or complex128.
    eps : float, optional
        Step of the finite differences.
    atol, rtol : float, optional
        An entry is right if ``|analytical - numerical| <= atol + rtol * |numerical|``.
    raise_exception : bool, optional
        False returns False where a check fails.
    nondet_tol : float, optional
        How much two backward passes may differ.
    check_undefined_grad : bool, optional
        Leave the cotangents of the other outputs undefined while one is checked; otherwise they are zeros.
    check_grad_dtypes : bool, optional
        Gradients must have the dtype of their input.
    check_batched_grad, check_batched_forward_grad : bool, optional
        Batched cotangents, or tangents, must give the same results as one by one.
    check_forward_ad, check_backward_ad : bool, optional
        Which modes to check.
    fast_mode : bool, optional
        Compare one random projection of each Jacobian instead of every entry.
    Returns: Whether all is right.
    GradcheckError: If not; the message shows both Jacobians and the worst entry.
    ValueError: If no input requires grad, or a batched check is requested for a mode that is not checked.

    >>> x = ag.tensor([0.5, -1.0], requires_grad=True)
    >>> ag.autograd.gradcheck(ag.sin, x)
    True
    """
    if not (check_forward_ad or check_backward_ad):
        raise ValueError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    if check_batched_grad and not check_backward_ad:
        raise ValueError("Setting check_batched_grad=True requires check_backward_ad to be True")
    if check_batched_forward_grad and not check_forward_ad:
        raise ValueError("Setting check_batched_forward_grad=True requires check_forward_ad to be True")
    arguments, on_leaves = _flattened(func, inputs)
    check = _Check(on_leaves, arguments, eps=eps, atol=atol, rtol=rtol)
    try:
        if check_backward_ad:
            check.backward(undefined=check_undefined_grad, fast=fast_mode)
            check.repeated(nondet_tol)
            check.multiplied()
            if check_grad_dtypes:
                check.dtypes()
            if check_batched_grad:
                check.batched()
        if check_forward_ad:
            check.forward(fast=fast_mode)
            if check_batched_forward_grad:
                check.batched_forward()
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Tensor | Sequence[Tensor] | None = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
) -> bool:
    """Check the second derivatives of a function: `gradcheck` of its gradients, with respect to inputs and cotangents.

    func, inputs: As for `gradcheck`.
    grad_outputs : Tensor or sequence of Tensor, optional
        The cotangents; random ones by default.
    eps, atol, rtol, raise_exception, nondet_tol, check_undefined_grad, check_grad_dtypes, check_batched_grad, fast_mode: As for `gradcheck`.
    check_fwd_over_rev, check_rev_over_rev : bool, optional
        How to differentiate the gradients.
    Returns: Whether all is right.
    GradcheckError: If not.
    ValueError: If no input requires grad.

    >>> x = ag.tensor([0.5, -1.0], requires_grad=True)
    >>> ag.autograd.gradgradcheck(lambda x: x**3, x)
    True
    """
    arguments, func = _flattened(func, inputs)
    try:
        _Check(func, arguments, eps=eps, atol=atol, rtol=rtol).without_history()
    except GradcheckError:
        if raise_exception:
            raise
        return False
    chosen = [i for i, a in enumerate(arguments) if _is_checked(a)]
    if grad_outputs is None:
        numbers = random.Random(0)  # noqa: S311 (directions, not secrets)
        cotangents = [_make([_draw(numbers, y) for _ in range(y.size)], y) for y in _outputs(func(*arguments))]
    else:
        given = [grad_outputs] if isinstance(grad_outputs, Tensor) else grad_outputs
        cotangents = [g if g.requires_grad else g.detach().requires_grad_() for g in given]
    count = len(arguments)

    def gradients(*args: Any) -> tuple[Tensor, ...]:
        outputs = _outputs(func(*args[:count]))
        pairs = [(y, g) for y, g in zip(outputs, args[count:], strict=True) if y.requires_grad]
        if not pairs:
            return ()
        wanted = [args[i] for i in chosen]
        found = grad([y for y, _ in pairs], wanted, [g for _, g in pairs], create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    return gradcheck(
        gradients,
        (*arguments, *cotangents),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
    )


# -- tensors as Python numbers ----------------------------------------------------------------------------------------


def _flat(values: Any) -> Iterator[Any]:
    if isinstance(values, list):
        for value in values:
            yield from _flat(value)
    else:
        yield values


def _numbers(tensor: Tensor) -> list[Any]:
    """Return the elements of a tensor in row-major order."""
    return list(_flat(tensor.detach().tolist()))


def _make(numbers: Sequence[Any], like: Tensor, *, requires_grad: bool = True) -> Tensor:
    """Return a leaf with these elements and the shape, dtype and device of another tensor."""
    made = reshape(asarray(list(numbers), dtype=like.dtype, device=like.device), like.shape)
    return made.detach().requires_grad_(requires_grad)


def _draw(numbers: random.Random, like: Tensor) -> complex:
    part = numbers.uniform(0.5, 1.5) * numbers.choice((-1, 1))
    return complex(part, numbers.uniform(-1.0, 1.0)) if like.is_complex() else part


def _one_hot(size: int, place: int, value: complex) -> list[complex]:
    return [value if i == place else 0.0 for i in range(size)]


def _units(tensor: Tensor) -> tuple[complex, ...]:
    """Return the directions in which one element of a tensor can vary."""
    return (1.0, 1j) if tensor.is_complex() else (1.0,)


def _dot(a: Sequence[complex], b: Sequence[complex]) -> float:
    """Return the inner product Re<a, b>."""
    return sum((x.conjugate() * y).real for x, y in zip(a, b, strict=True))


def _is_inexact(value: Any) -> bool:
    return isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex())


def _is_checked(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad


def _flattened(func: Callable[..., Any], inputs: Any) -> tuple[tuple[Any, ...], Callable[..., Any]]:
    """Return the leaves of a function's arguments, and the function of them."""
    leaves, treedef = flatten(tuple(inputs) if isinstance(inputs, list | tuple) else (inputs,))
    return tuple(leaves), lambda *args: func(*unflatten(treedef, args))


def _outputs(result: Any) -> list[Tensor]:
    """Return the results of a function that can have a derivative."""
    return [y for y in flatten(result)[0] if _is_inexact(y)]


def _every_output(result: Any) -> list[Tensor]:
    """Return those, and arrays and numbers among the results as tensors without history, which may have been lost."""
    found = []
    for y in flatten(result)[0]:
        backend = None if isinstance(y, Tensor) else backend_of(y)
        if isinstance(y, float | complex) or (backend is not None and backend.spec(y).inexact):
            found.append(asarray(y))
        elif _is_inexact(y):
            found.append(y)
    return found


# -- the check --------------------------------------------------------------------------------------------------------


class _Check:
    """One function at one point.

    Attributes
    ----------
    arguments : tuple
        The function's arguments.
    chosen : list of int
        Which of them are checked.
    outputs : list of Tensor
        The differentiable results, with a history or not.
    """

    def __init__(
        self, func: Callable[..., Any], arguments: tuple[Any, ...], *, eps: float, atol: float, rtol: float
    ) -> None:
        self.func = func
        self.arguments = arguments
        self.eps, self.atol, self.rtol = eps, atol, rtol
        self.chosen = [i for i, a in enumerate(arguments) if _is_checked(a)]
        if not self.chosen:
            raise ValueError(
                "gradcheck expects at least one input tensor to require gradient, but none of them have"
                " requires_grad=True."
            )
        for i in self.chosen:
            if name_of(arguments[i].dtype) not in ("float64", "complex128"):
                warnings.warn(
                    f"Input #{i} requires gradient and is not a double precision floating point or complex. This check"
                    " will likely fail if all the inputs are not of double precision floating point or complex.",
                    UserWarning,
                    stacklevel=3,
                )
        self.outputs = _every_output(func(*arguments))

    def values(self, place: int, numbers: Sequence[complex]) -> list[list[complex]]:
        """Return the outputs, as numbers, with other numbers for one argument."""
        return [_numbers(y) for y in self.outputs_with(place, _make(numbers, self.arguments[place]))]

    def outputs_with(self, place: int, value: Tensor) -> list[Tensor]:
        """Return the outputs with another value for one argument, wherever it is passed."""
        old = self.arguments[place]
        return _every_output(self.func(*(value if argument is old else argument for argument in self.arguments)))

    def slope(self, place: int, direction: Sequence[complex]) -> list[list[complex]]:
        """Return the derivatives of the outputs along a direction of one argument, by central differences."""
        start = _numbers(self.arguments[place])
        ahead, behind = (
            self.values(place, [x + sign * self.eps * d for x, d in zip(start, direction, strict=True)])
            for sign in (1, -1)
        )
        return [
            [(a - b) / (2 * self.eps) for a, b in zip(above, below, strict=True)]
            for above, below in zip(ahead, behind, strict=True)
        ]

    def gradients(self, outputs: Sequence[Tensor], cotangents: Sequence[Tensor]) -> list[Tensor | None]:
        """Return the gradients with respect to the checked arguments, None if there is none."""
        pairs = [(y, g) for y, g in zip(outputs, cotangents, strict=True) if y.requires_grad]
        if not pairs:
            return [None] * len(self.chosen)
        wanted = [self.arguments[i] for i in self.chosen]
        found = grad([y for y, _ in pairs], wanted, [g for _, g in pairs], retain_graph=True, allow_unused=True)
        for gradient, argument in zip(found, wanted, strict=True):
            if gradient is not None and gradient.shape != argument.shape:
                raise GradcheckError(f"Analytical gradient has incorrect size: {gradient.shape}, not {argument.shape}")
        return list(found)

    def pulled(self, k: int, cotangent: Sequence[complex], *, undefined: bool) -> list[list[complex]]:
        """Return the gradients, as numbers, for a cotangent of one output."""
        output = self.outputs[k]
        ours = _make(cotangent, output, requires_grad=False)
        if undefined:
            found = self.gradients([output], [ours])
        else:
            zeros = [_make([0.0] * y.size, y, requires_grad=False) for y in self.outputs]
            found = self.gradients(self.outputs, [ours if i == k else z for i, z in enumerate(zeros)])
        return [
            [0.0] * self.arguments[i].size if g is None else _numbers(g)
            for i, g in zip(self.chosen, found, strict=True)
        ]

    def pushed(self, place: int, tangent: Sequence[complex]) -> list[list[complex]]:
        """Return the tangents of the outputs, as numbers, for a tangent of one argument."""
        primal = self.arguments[place]

        def push(at: int) -> list[list[complex]]:
            dual = forward.with_tangent(primal, _make(tangent, primal, requires_grad=False), at)
            outputs = self.outputs_with(place, dual)
            tangents = [forward.tangent_of(y, at) for y in outputs]
            return [[0.0] * y.size if t is None else _numbers(t) for y, t in zip(outputs, tangents, strict=True)]

        return forward.in_level(push)

    # -- what is checked ----------------------------------------------------------------------------------------------

    def backward(self, *, undefined: bool, fast: bool) -> None:
        """Compare reverse mode with finite differences."""
        if fast:
            self._backward_projected(undefined=undefined)
            return
        numerical = self._numerical()
        for k, output in enumerate(self.outputs):
            columns = [
                self.pulled(k, _one_hot(output.size, j, unit), undefined=undefined)
                for j in range(output.size)
                for unit in _units(output)
            ]
            for at, place in enumerate(self.chosen):
                x = self.arguments[place]
                slopes = numerical[at]
                steps = _units(x)
                expected: Matrix = [
                    [
                        sum(step * _dot([unit], [slopes[i * len(steps) + s][k][j]]) for s, step in enumerate(steps))
                        for j in range(output.size)
                        for unit in _units(output)
                    ]
                    for i in range(x.size)
                ]
                analytical: Matrix = [[column[at][i] for column in columns] for i in range(x.size)]
                self._compare(expected, analytical, k, place, "", per_output=len(_units(output)))

    def _backward_projected(self, *, undefined: bool) -> None:
        """Compare v^T J u for one random v per output and u per input."""
        numbers = random.Random(1)  # noqa: S311 (directions, not secrets)
        us = [[_draw(numbers, self.arguments[i]) for _ in range(self.arguments[i].size)] for i in self.chosen]
        slopes = [self.slope(place, u) for place, u in zip(self.chosen, us, strict=True)]
        for k, output in enumerate(self.outputs):
            v = [_draw(numbers, output) for _ in range(output.size)]
            pulled = self.pulled(k, v, undefined=undefined)
            for place, u, slope, gradient in zip(self.chosen, us, slopes, pulled, strict=True):
                self._compare([[_dot(v, slope[k])]], [[_dot(gradient, u)]], k, place, "", fast=True)

    def forward(self, *, fast: bool) -> None:
        """Compare forward mode with finite differences."""
        if fast:
            numbers = random.Random(1)  # noqa: S311 (directions, not secrets)
            for place in self.chosen:
                x = self.arguments[place]
                u = [_draw(numbers, x) for _ in range(x.size)]
                for k, pair in enumerate(zip(self.slope(place, u), self.pushed(place, u), strict=True)):
                    self._compare([pair[0]], [pair[1]], k, place, _FORWARD, fast=True)
            return
        numerical = self._numerical()
        for at, place in enumerate(self.chosen):
            x = self.arguments[place]
            rows = [self.pushed(place, _one_hot(x.size, i, unit)) for i in range(x.size) for unit in _units(x)]
            for k in range(len(self.outputs)):
                expected = [row[k] for row in numerical[at]]
                self._compare(expected, [row[k] for row in rows], k, place, _FORWARD, per_input=len(_units(x)))

    def without_history(self) -> None:
        """Check that results without a history do not depend on the inputs."""
        lost = [k for k, y in enumerate(self.outputs) if not y.requires_grad]
        if not lost:
            return
        for place, slopes in zip(self.chosen, self._numerical(), strict=True):
            for k in lost:
                expected = [slope[k] for slope in slopes]
                zeros: Matrix = [[0.0] * len(row) for row in expected]
                self._compare(expected, zeros, k, place, "", per_input=len(_units(self.arguments[place])))

    def _numerical(self) -> list[list[list[list[complex]]]]:
        """Return, per checked argument, element and direction, the slopes of all outputs."""
        return [
            [
                self.slope(place, _one_hot(self.arguments[place].size, i, unit))
                for i in range(self.arguments[place].size)
                for unit in _units(self.arguments[place])
            ]
            for place in self.chosen
        ]

    def _compare(
        self,
        numerical: Matrix,
        analytical: Matrix,
        output: int,
        argument: int,
        mode: str,
        *,
        per_output: int = 1,
        per_input: int = 1,
        fast: bool = False,
    ) -> None:
        """Raise if two Jacobians differ."""
        worst: tuple[float, int, int] | None = None
        for (i, row), other in zip(enumerate(numerical), analytical, strict=True):
            for (j, n), a in zip(enumerate(row), other, strict=True):
                if a == n or (a != a and n != n):  # both NaN, or the same infinity
                    continue
                excess = abs(a - n) - (self.atol + self.rtol * abs(n))
                excess = float("inf") if excess != excess else excess
                if excess > 0 and (worst is None or excess > worst[0]):
                    worst = excess, i, j
        if worst is None:
            return
        _, i, j = worst
        n, a = numerical[i][j], analytical[i][j]
        title = f"Jacobian{mode} mismatch for output {output} with respect to input {argument},\n"
        if not self.outputs[output].requires_grad and not mode:
            title += (
                "Numerical gradient for function expected to be zero: the output has no history (it left the graph on the"
                " way, or was never in it), but depends on the input.\n"
            )
        if fast:
            title += "(projections of both on random directions; run with fast_mode=False to see the Jacobians)\n"
            where = "The projections are"
        else:
            from_, to = self.arguments[argument], self.outputs[output]
            where = f"The worst entry is at element {_index(i // per_input, from_.shape)} of the input"
            where += ", along i" if i % per_input else ""
            where += f" and {_index(j // per_output, to.shape)} of the output"
            where += ", for the cotangent i" if j % per_output else ""
        raise GradcheckError(
            f"{title}numerical:{_text(numerical)}\nanalytical:{_text(analytical)}\n"
            f"{where}: numerical {n}, analytical {a}, which differ by {abs(a - n)}"
            f" (allowed: {self.atol + self.rtol * abs(n)})."
        )

    def multiplied(self) -> None:
        """Check that zero cotangents give zero gradients."""
        zeros = [_make([0.0] * y.size, y, requires_grad=False) for y in self.outputs]
        for gradient in self.gradients(self.outputs, zeros):
            if gradient is not None and any(value != 0 for value in _numbers(gradient)):
                raise GradcheckError("backward not multiplied by grad_output")

    def repeated(self, tolerance: float) -> None:
        """Check that a repeated backward pass gives the same gradients."""
        numbers = random.Random(2)  # noqa: S311 (directions, not secrets)
        cotangents = [_make([_draw(numbers, y) for _ in range(y.size)], y, requires_grad=False) for y in self.outputs]
        first, second = (self.gradients(self.outputs, cotangents) for _ in range(2))
        for one, other in zip(first, second, strict=True):
            if one is None or other is None:
                same = one is other
            else:
                pairs = zip(_numbers(one), _numbers(other), strict=True)
                same = all(a == b or abs(a - b) <= tolerance or (a != a and b != b) for a, b in pairs)
            if not same:
                raise GradcheckError(
                    "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times"
                    " gives different values, although analytical gradient matches numerical gradient. The tolerance"
                    f" for nondeterminism was {tolerance}."
                )

    def batched(self) -> None:
        """Check that batched cotangents give the same gradients as one by one."""
        wanted = [self.arguments[i] for i in self.chosen]
        for k, output in enumerate(self.outputs):
            if not output.requires_grad:
                continue
            draw, cotangents = self._drawn(output)
            alone = [self.gradients([output], [g]) for g in cotangents]
            with self._mentioned("batched gradients"):
                together = grad(output, wanted, draw, retain_graph=True, allow_unused=True, is_grads_batched=True)
            for at, i in enumerate(self.chosen):
                self._same_rows(
                    together[at], [row[at] for row in alone], f"batched gradient of output {k} by input {i}"
                )

    def batched_forward(self) -> None:
        """Check that batched tangents give the same tangents as one by one."""
        for place in self.chosen:
            x = self.arguments[place]

            def push(t: Tensor, place: int = place, x: Tensor = x) -> list[Tensor]:
                def run(at: int) -> list[Tensor]:
                    outputs = self.outputs_with(place, forward.with_tangent(x, t, at))
                    tangents = [forward.tangent_of(y, at) for y in outputs]
                    return [
                        zeros_like(y.detach()) if t is None else t.detach()
                        for y, t in zip(outputs, tangents, strict=True)
                    ]

                return forward.in_level(run)

            draw, tangents = self._drawn(x)
            alone = [push(t) for t in tangents]
            with self._mentioned("batched tangents"):
                together = vmap(push)(draw)
            for k, rows in enumerate(together):
                self._same_rows(rows, [row[k] for row in alone], f"batched tangent of output {k} along input {place}")

    def _drawn(self, like: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Draw two directions: in a batch, and one by one."""
        numbers = random.Random(3)  # noqa: S311 (directions, not secrets)
        rows = [_make([_draw(numbers, like) for _ in range(like.size)], like, requires_grad=False) for _ in range(2)]
        return stack(rows), rows

    @contextlib.contextmanager
    def _mentioned(self, what: str) -> Iterator[None]:
        """Note on an error what was being computed when the function failed."""
        try:
            yield
        except Exception as error:
            raise GradcheckError(f"While computing {what}, got: {error}") from error

    def _same_rows(self, got: Tensor | None, expected: Sequence[Tensor | None], what: str) -> None:
        """Raise if the rows of a batch differ from the results computed one by one."""
        rows = [x for row in expected if row is not None for x in _numbers(row)]
        found = [] if got is None else _numbers(got)
        if len(rows) != len(found) or any(
            not (a == b or abs(a - b) <= self.atol + self.rtol * abs(b) or (a != a and b != b))
            for a, b in zip(found, rows, strict=True)
        ):
            raise GradcheckError(
                f"The {what} differs from the results computed one by one.\nGot:\n{got}\nExpected:\n{list(expected)}"
            )

    def dtypes(self) -> None:
        """Check that gradients have the dtype of their input."""
        ones = [_make([1.0] * y.size, y, requires_grad=False) for y in self.outputs]
        for i, gradient in zip(self.chosen, self.gradients(self.outputs, ones), strict=True):
            expected = self.arguments[i].dtype
            if gradient is not None and gradient.dtype != expected:
                raise GradcheckError(
                    f"Expected the gradient of input {i} to have dtype {expected}, but it has {gradient.dtype}"
                )


_FORWARD = " computed with forward mode"


def _index(place: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the index of an element from its position in row-major order."""
    return next(itertools.islice(itertools.product(*map(range, shape)), place, None))


def _text(matrix: Matrix) -> str:
    """Return a Jacobian as text, a row per line."""
    cells = [[f"{x:.6g}" for x in row] for row in matrix]
    width = max((len(cell) for row in cells for cell in row), default=0)
    lines = ["[" + ", ".join(cell.rjust(width) for cell in row) + "]" for row in cells]
    return "[" + ",\n ".join(lines) + "]"


_complete(globals(), {})
