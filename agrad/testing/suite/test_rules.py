"""Every rule in every mode: forward values, reverse, forward mode, second order, single operands, batches; composed.

One test per operation, mode and dtype runs all samples of the operation (`agrad.testing.samples`). Values are compared
with the NumPy backend's kernels, derivatives with finite differences of those; agrad's rules are never compared with
themselves. A rule whose test ends in `UnsupportedOp` for an operation that the backend declares to lack is expected to
fail; an operation that is declared and works is a failure.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import agrad as ag
from agrad.core.forward import level, tangent_of, with_tangent
from agrad.core.kernels import OWN
from agrad.core.op import OPS
from agrad.testing.calls import inner, library
from agrad.testing.suite.running import (
    FACTORS,
    FIRST,
    SECOND,
    SIGNS,
    VALUE,
    OfSamples,
    SampleRun,
    any_data,
    cases,
    changed,
    of_rules,
)


def composed(op: str) -> bool:
    """Return whether agrad composes an operation that no library has: a backend's kernel for it is then its own."""
    return op in OPS and op.partition(".")[0] in OWN and OPS[op].kernel is not None


of_composed: pytest.MarkDecorator = pytest.mark.parametrize(
    ("op", "dtype"), [case for case in cases() if composed(case.values[0])]
)


class TestRules(OfSamples):
    """Every rule in every mode."""

    # -- the modes ----------------------------------------------------------------------------------------------------

    @of_rules
    def test_values(self, op: str, dtype: str) -> None:
        """Forward: values, shapes and dtypes are those of the reference kernels; the operands are unchanged."""

        def check(run: SampleRun) -> None:
            operands = run.leaves(())
            results = run.results(operands)
            if not self.backend.is_lazy:  # of the same shapes: a kernel may overwrite its earlier buffers
                run.call.tensors([self.tensor(a * FACTORS[1]) for a in run.arrays], run.tensor)
            expected = run.call.raw(run.arrays, run.rounded)
            assert len(results) == len(expected), f"{len(results)} results, expected {len(expected)}"
            found = self.hosts([*results, *operands])
            for result, value, wanted in zip(results, found, expected, strict=False):
                assert result._spec.backend is self.backend, f"the result is on {result._spec.backend.name}"
                name = self.backend.dtype_name(result.dtype)
                assert name == str(wanted.dtype), f"the result has dtype {name}, expected {wanted.dtype}"
                assert value.dtype == wanted.dtype, f"the result is {value.dtype} on the host, expected {wanted.dtype}"
                self.check_spec(result, result._spec, "the result")
                self.close(value, wanted, VALUE[dtype], "the result")
            for value, array in zip(found[len(results) :], run.arrays, strict=True):
                self.close(value, array, 0.0, "the operand after the call")

        self.run(check, op, dtype)

    @of_rules
    def test_reverse(self, op: str, dtype: str) -> None:
        """Reverse: <gradient, direction> is <cotangent, slope> for every operand."""

        def check(run: SampleRun) -> None:
            leaves = run.leaves(run.every)
            results = run.results(leaves)
            if not results:
                return
            given, cotangents = run.cotangents(results)
            gradients = ag.autograd.grad(results, leaves, given)
            for gradient, leaf in zip(gradients, leaves, strict=True):
                self.check_spec(gradient, leaf._spec, "the gradient")
            for k, gradient in enumerate(self.hosts(gradients)):
                run.along(k, gradient, cotangents, f"the gradient by {run.call.names[k]}")

        self.run(check, op, dtype)

    @of_rules
    def test_forward_mode(self, op: str, dtype: str) -> None:
        """Forward mode: the tangents are the slopes; and both modes are adjoint to rounding."""

        def check(run: SampleRun) -> None:
            with level() as at:
                results = run.results(run.duals(at, run.leaves(())))
                pushed = [tangent_of(r, at) for r in results]
                plain = [r.detach() for r in results]
            if not results:
                return
            for tangent, result in zip(pushed, plain, strict=True):
                self.check_spec(tangent, result._spec, "the tangent")
            leaves = run.leaves(run.every)
            recorded = run.results(leaves)
            given, cotangents = run.cotangents(recorded)
            gradients = ag.autograd.grad(recorded, leaves, given)
            found = self.hosts([*pushed, *gradients])
            tangents, against = found[: len(pushed)], found[len(pushed) :]
            for tangent, wanted in zip(tangents, run.slopes.along(run.every), strict=True):
                self.close(tangent, wanted, FIRST[dtype], "the tangent")
            forward, backward = inner(tangents, cotangents), inner(against, run.call.tangents)
            scale = max(1.0, run.size(cotangents, tangents), run.size(against, run.call.tangents))
            apart = f"the modes are not adjoint: <v, forward> is {forward}, <reverse, v> is {backward}"
            assert abs(forward - backward) <= VALUE[dtype] * scale, apart

        self.run(check, op, dtype, once=self.quick)

    @of_rules
    def test_second_order(self, op: str, dtype: str) -> None:
        """Second order: reverse over reverse (by operands and cotangents), forward over reverse, forward over forward."""

        def check(run: SampleRun) -> None:
            leaves = run.leaves(run.every)
            results = run.results(leaves)
            if not results:
                return
            given, cotangents = run.cotangents(results, requires_grad=True)
            directions = run.directions()
            curved = inner(cotangents, run.slopes.curvature)
            scale = max(1.0, run.size(cotangents, run.slopes.curvature))

            gradients = ag.autograd.grad(results, leaves, given, create_graph=True)
            for gradient, leaf in zip(gradients, leaves, strict=True):
                self.check_spec(gradient, leaf._spec, "the recorded gradient")
            if any(n != n for g in gradients for n in g.shape):
                return  # of unknown size until it is computed: no direction can be created for it
            recorded = [(g, v) for g, v in zip(gradients, directions, strict=True) if g.requires_grad]
            inputs = [*leaves, *given]
            twice: Sequence[Any] = ()
            if recorded:
                twice = ag.autograd.grad(
                    [g for g, _ in recorded], inputs, [v for _, v in recorded], materialize_grads=True
                )
            with level() as at:
                duals = run.duals(at, leaves)
                plain = [g.detach() for g in given]
                over = ag.autograd.grad(run.results(duals), leaves, plain)
                mixed = [tangent_of(g, at) for g in over]
            with level() as outer:
                duals = run.duals(outer, run.leaves(()))
                with level() as deeper:
                    duals = [with_tangent(d, v, deeper) for d, v in zip(duals, directions, strict=True)]
                    once = [tangent_of(r, deeper) for r in run.results(duals)]
                nested = [None if t is None else tangent_of(t, outer) for t in once]

            parts = [list(gradients), list(twice), mixed, nested]
            flat = [t for part in parts for t in part if t is not None]
            found = iter(self.hosts([t.detach() for t in flat]))
            first, second, over, nested = ([None if t is None else next(found) for t in part] for part in parts)
            for k, gradient in enumerate(first):
                run.along(k, gradient, cotangents, f"the recorded gradient by {run.call.names[k]}")
            for got, wanted in zip(second[len(leaves) :], run.slopes.along(run.every), strict=False):
                self.close(got, wanted, FIRST[dtype], "the gradient by the cotangent")
            ways = {
                "reverse over reverse": run.dot(second[: len(leaves)], run.call.tangents),
                "forward over reverse": run.dot(over, run.call.tangents),
                "forward over forward": run.dot(nested, cotangents),
            }
            for way, value in ways.items():
                wrong = f"{way}: the second derivative along the direction is {value}, expected {curved}"
                assert abs(value - curved) <= SECOND[dtype] * scale, wrong

        self.run(check, op, dtype, once=True)

    @of_composed
    def test_composition(self, op: str, dtype: str) -> None:
        """The backend's own kernel, and the composition that it replaces: the same values, residuals and gradients.

        A fused operation represents a second composition, that of its higher derivatives; backends without a kernel of
        their own are compared with it too.
        """
        define, own, kernel = OPS[op].rule.define, self.owns(op), self.backend.kernel
        if not own and define is None:
            pytest.skip("it has no kernel of its own")
        if self.backend.is_lazy and op.startswith("special."):
            pytest.skip(
                "its composition is a series, hundreds of lazy operations; the kernel is that of the blocks' backend"
            )

        def check(run: SampleRun) -> None:
            leaves = run.leaves(run.every)
            given, _ = run.cotangents(run.results(leaves))

            def found(function: Callable[..., Any] | None = None) -> list[Any]:
                results = run.call.tensors(leaves, run.tensor, function)
                return self.hosts([*(r.detach() for r in results), *ag.autograd.grad(results, leaves, given)])

            def compare(first: Sequence[Any], second: Sequence[Any], names: Sequence[str]) -> None:
                for name, one, other in zip(names, first, second, strict=True):
                    if one is not None:  # a residual may be omitted if the rule allows it
                        self.close(one, other, VALUE[dtype], f"{name} by the backend's own kernel")

            names = ["the value", *(f"the gradient by {name}" for name in run.call.names)]
            values, residuals = found(), run.residuals()
            if own:
                with changed(self.backend, kernel=lambda name: None if composed(name) else kernel(name)):
                    try:
                        wanted = found()
                    except NotImplementedError as error:
                        pytest.skip(f"no composition: {error}")
                    compare(values, wanted, names)
                    compare(residuals, run.residuals(), [f"the residual {name}" for name in OPS[op].rule.residuals])
            if define is not None:
                compare(values, found(functools.partial(define, self.backend.functions)), names)

        self.run(check, op, dtype, once=True)

    def owns(self, op: str) -> bool:
        """Return whether the backend has a kernel for an operation or its derivatives, whose names share its prefix."""
        names = [name for name in OPS if composed(name) and (name == op or name.startswith(f"{op}_"))]
        return any(self.backend.kernel(name) is not None for name in names)

    @of_rules
    def test_batches(self, op: str, dtype: str) -> None:
        """Several cotangents at once (jacrev), and vmap over examples along several axes: to each its own."""
        np = library()

        def check(run: SampleRun) -> None:
            leaves = run.leaves(run.every)
            results = run.results(leaves)
            if not results or any(n != n for r in results for n in r.shape):
                return  # of unknown size until it is computed: nothing can be stacked
            pairs = [run.cotangents(results) for _ in FACTORS]
            given = [ag.stack(list(column)) for column in zip(*(made for made, _ in pairs), strict=True)]
            gradients = self.hosts(ag.autograd.grad(results, leaves, given, is_grads_batched=True))
            for k, rows in enumerate(gradients):
                for (_, cotangents), row in zip(pairs, rows, strict=True):
                    run.along(k, row, cotangents, f"of a batch of cotangents, the gradient by {run.call.names[k]}")
            keyed = any_data(run.call.sample.args, lambda data: not data.inexact)
            if op in SIGNS or (op == "setitem" and keyed):  # a value per example at arrays: not in the standard
                return

            runs = [run, *(SampleRun(self, run.call.sample, dtype, factor) for factor in FACTORS[1:])]
            axes = tuple(k % 2 - 1 for k in run.every)  # -1 and 0 by turns
            leaves = [
                self.tensor(np.stack([r.arrays[k] for r in runs], axis=axes[k]), requires_grad=True) for k in run.every
            ]
            results = list(ag.func.vmap(lambda *x: tuple(run.call.tensors(x, run.tensor)), axes)(*leaves))
            gradients = ag.autograd.grad(results, leaves, given)
            found = self.hosts([*(r.detach() for r in results), *gradients])
            values, gradients = found[: len(results)], found[len(results) :]
            for i, (example, (_, cotangents)) in enumerate(zip(runs, pairs, strict=True)):
                what = f"of example {i} under vmap, "
                for value, wanted in zip(values, example.call.raw(example.arrays, example.rounded), strict=True):
                    self.close(value[i], wanted, VALUE[dtype], f"{what}the value")
                for k, gradient in enumerate(gradients):
                    row = np.moveaxis(gradient, axes[k], 0)[i]
                    example.along(k, row, cotangents, f"{what}the gradient by {run.call.names[k]}")

        self.run(check, op, dtype, once=True, few=True)

    @of_rules
    def test_single_operands(self, op: str, dtype: str) -> None:
        """One operand at a time, and all but one: only they get gradients, equal to those before."""

        def check(run: SampleRun) -> None:
            count = len(run.call.arrays)
            if count == 1:
                return
            sizes = {1, count - 1}
            subsets = [s for size in sizes for s in itertools.combinations(run.every, size)]
            for subset in subsets:
                leaves = run.leaves(subset)
                results = run.results(leaves)
                if not results:
                    return
                given, cotangents = run.cotangents(results)
                followed = [k for k, result in enumerate(results) if result.requires_grad]
                if OPS[op].rule.follows is None:  # those of a loop may depend on other operands alone
                    assert len(followed) == len(results), f"with {subset} alone, some results require no gradient"
                ag.autograd.backward([results[k] for k in followed], [given[k] for k in followed])
                for k, leaf in enumerate(leaves):
                    assert (leaf.grad is None) == (k not in subset), f"operand {k} is {'not ' * (k in subset)}filled"
                gradients = self.hosts([leaves[k].grad for k in subset])
                for k, gradient in zip(subset, gradients, strict=True):
                    run.along(k, gradient, cotangents, f"with {subset} alone, the gradient by {run.call.names[k]}")
                with level() as at:
                    duals = run.duals(at, run.leaves(()), subset)
                    pushed = [tangent_of(r, at) for r in run.results(duals)]
                wanted = run.slopes.along(subset)
                known = iter(self.hosts([t for t in pushed if t is not None]))
                for tangent, slope in zip(pushed, wanted, strict=True):
                    got = library().zeros_like(slope) if tangent is None else next(known)
                    self.close(got, slope, FIRST[dtype], f"with {subset} alone, the tangent")

        self.run(check, op, dtype, once=True)
