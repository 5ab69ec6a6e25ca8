"""Programs: the capture of an operation, its derivatives and transforms, gives the same results as the calls themselves.

Every sample is captured with some values and replayed with others: the result is the eager one, bit for bit, or to
rounding on lazy backends, if `Harness.exact` is False, and by an executor that is not exact.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import agrad as ag
from agrad.core.facts import WITHOUT_OP
from agrad.core.op import OPS, facts_of
from agrad.plugin.manager import executor_named, use_executor
from agrad.testing.calls import SampleCall, library
from agrad.testing.samples import Sample
from agrad.testing.suite.running import FACTORS, VALUE, OfSamples, SampleRun, any_data, is_mask, of_rules
from agrad.testing.suite.test_creation import CREATED, EMPTY, MADE_OF
from agrad.testing.suite.test_in_place import START, WRITES

#: The tolerance of a product of complex numbers: how libraries round it depends on the memory layout of the numbers.
#: That of real numbers which are computed by complex ones, or by kernels that draw numbers, is that of their precision.
COMPLEX = {"complex128": 1e-14, "complex64": 1e-5}

#: The complex dtype of the precision of a real one.
OF_COMPLEX = {"float64": "complex128", "float32": "complex64"}

#: Functions whose results have shapes that depend on values.
DATA_DEPENDENT = tuple(name for name in (*OPS, *WITHOUT_OP) if facts_of(name).dynamic is True)

#: Draws, with a shape.
DRAWN: dict[str, Callable[..., Any]] = {
    "rand": lambda **how: ag.rand((2, 3), **how),
    "randn": lambda **how: ag.randn((2, 3), **how),
    "randint": lambda **how: ag.randint(0, 9, (4,), device=how["device"]),
    "randperm": lambda **how: ag.randperm(5, device=how["device"]),
    "dropout": lambda **how: ag.nn.functional.dropout(ag.ones((3, 4), **how)),
}


def through_complex(op: str) -> bool:
    """Return whether results or derivatives are complex, also for real matrices."""
    return "complex linalg" in facts_of(op).needs


def refused(sample: Sample) -> bool:
    """Return whether the shape of a result or gradient depends on values: a mask, or an array of counts, decides."""
    return (sample.op in ("getitem", "scatter_add", "setitem") and any_data(sample.args, is_mask)) or (
        sample.op == "repeat" and any_data(sample.args[1:], lambda _: True)
    )


class SampleFunction:
    """A sample's call as a function of all its inputs: operands, cotangents and other arguments."""

    def __init__(self, run: SampleRun) -> None:
        self.call: SampleCall = run.call
        self.extras: list[Any] = []

        def make(array: Any) -> Any:
            self.extras.append(run.tensor(array))
            return self.extras[-1]

        self.first: list[Any] = run.call.tensors(
            run.leaves(run.every), make
        )  # the other arguments are the same for all values

    def replays(self, run: SampleRun) -> bool:
        """Return whether a program can hold the call: no shape in it depends on values. Otherwise count it as refused."""
        if refused(run.call.sample):
            run.outcome = "refused"
        elif not self.first or unknown(self.first):
            run.outcome = "left out"
        return run.outcome == "ran"

    def results(self, operands: Sequence[Any], extras: Sequence[Any]) -> list[Any]:
        """Return the results."""
        given = iter(extras)
        return self.call.tensors(operands, lambda _: next(given))

    def gradients(self, operands: Sequence[Any], cotangents: Sequence[Any], extras: Sequence[Any]) -> list[Any]:
        """Return the results, and the gradients by all operands."""
        results = self.results(operands, extras)
        return [*results, *ag.autograd.grad(results, list(operands), list(cotangents))]

    def twice(
        self, operands: Sequence[Any], cotangents: Sequence[Any], directions: Sequence[Any], extras: Sequence[Any]
    ) -> list[Any]:
        """Return the gradients, and the gradients of their products with directions, with respect to operands and cotangents."""
        results = self.results(operands, extras)
        gradients = ag.autograd.grad(results, list(operands), list(cotangents), create_graph=True)
        pairs = [(g, v) for g, v in zip(gradients, directions, strict=True) if g.requires_grad]
        if not pairs:
            return list(gradients)
        inputs = [*operands, *cotangents]
        found = ag.autograd.grad([g for g, _ in pairs], inputs, [v for _, v in pairs], materialize_grads=True)
        return [*gradients, *found]

    def pushed(self, operands: Sequence[Any], directions: Sequence[Any], extras: Sequence[Any]) -> list[Any]:
        """Return the results, and their tangents along directions of the operands."""
        results, tangents = ag.func.jvp(lambda *x: tuple(self.results(x, extras)), tuple(operands), tuple(directions))
        return [*results, *tangents]

    def pulled(self, operands: Sequence[Any], cotangents: Sequence[Any], extras: Sequence[Any]) -> list[Any]:
        """Return the results, and the gradients, as the functional transforms have them."""
        results, pull = ag.func.vjp(lambda *x: tuple(self.results(x, extras)), *operands)
        return [*results, *pull(tuple(cotangents))]


class TestPrograms(OfSamples):
    """Captured and replayed is as run."""

    @pytest.fixture(autouse=True)
    def _by_executor(self, _backend_under_test: None) -> Iterator[None]:
        with contextlib.nullcontext() if self.executor is None else use_executor(self.executor):
            yield

    @property
    def exact(self) -> bool:
        """Whether replays give the same bits as the calls."""
        whole = self.executor is None or getattr(executor_named(self.executor), "exact", False)
        return whole and self.harness.exact and not self.backend.is_lazy

    # -- comparing ----------------------------------------------------------------------------------------------------

    def same(self, found: Any, wanted: Any, dtype: str, what: str, *, rounded: bool = False) -> None:
        """Compare containers of tensors: bit for bit, if the backend must be exact; `rounded`: see COMPLEX."""
        np = library()
        pairs = [[t for t in ag.tree.flatten(part)[0] if isinstance(t, ag.Tensor)] for part in (found, wanted)]
        assert len(pairs[0]) == len(pairs[1]), f"{what}: {len(pairs[0])} results, expected {len(pairs[1])}"
        for one, other in zip(*pairs, strict=True):
            self.check_spec(one, other._spec, what)
            assert one.requires_grad == other.requires_grad, f"{what}: requires_grad is {one.requires_grad}"
        hosts = self.hosts([t.detach() for part in pairs for t in part])
        for one, other in zip(hosts[: len(pairs[0])], hosts[len(pairs[0]) :], strict=True):
            is_complex = np.isdtype(other.dtype, "complex floating")
            if not self.exact or is_complex or rounded:
                near = COMPLEX.get(OF_COMPLEX.get(dtype, dtype) if rounded else dtype, 0.0)
                self.close(one, other, near if self.exact else VALUE.get(dtype, 1e-12), what)
            else:
                assert one.shape == other.shape
                assert one.tobytes() == other.tobytes(), f"{what}: {one!r} is not, bit for bit, {other!r}"

    def replayed(
        self,
        function: Callable[..., Any],
        dtype: str,
        first: Sequence[Any],
        then: Sequence[Any],
        *,
        rounded: bool = False,
    ) -> Any:
        """Capture a function with some arguments, replay it with others and again, and compare; return the program."""
        program = ag.func.capture(function)(*first)
        wanted = function(*then)
        self.same(program(*then), wanted, dtype, "the replay", rounded=rounded)
        program(*first)  # by now the backend may have compiled it to other code than the first time
        self.same(program(*then), wanted, dtype, "the replay after others", rounded=rounded)
        return program

    # -- operations ---------------------------------------------------------------------------------------------------

    @of_rules
    def test_forward_and_backward(self, op: str, dtype: str) -> None:
        """An operation with its gradients; and the program of the operation alone is differentiated to the same gradients."""

        def check(run: SampleRun) -> None:
            body, other = SampleFunction(run), SampleRun(self, run.call.sample, dtype, FACTORS[1])
            if refused(run.call.sample):
                with pytest.raises(ag.func.CaptureError, match="depends on values"):
                    ag.func.capture(body.pulled)(run.leaves(()), run.cotangents(body.first)[0], body.extras)
            if not body.replays(run):
                return
            leaves, moved = run.leaves(run.every), other.leaves(run.every)
            cotangents, _ = run.cotangents(body.first)
            given = (leaves, cotangents, body.extras), (moved, cotangents, body.extras)
            rounded = run.call.sample.draws
            self.replayed(body.gradients, dtype, *given, rounded=rounded)
            program = ag.func.capture(body.results)(leaves, body.extras)
            plain = other.leaves(())
            without = program(plain, body.extras), body.results(plain, body.extras)
            self.same(*without, dtype, "without gradients", rounded=rounded)
            found, wanted = (
                ag.autograd.grad(list(function(moved, body.extras)), moved, cotangents)
                for function in (program, body.results)
            )
            self.same(found, wanted, dtype, "the gradient of the program", rounded=rounded)

        self.run(check, op, dtype, once=self.quick)

    @of_rules
    def test_forward_mode(self, op: str, dtype: str) -> None:
        """Tangents."""

        def check(run: SampleRun) -> None:
            body, other = SampleFunction(run), SampleRun(self, run.call.sample, dtype, FACTORS[1])
            if not body.replays(run):
                return
            rest = run.directions(), body.extras
            given = ((each.leaves(()), *rest) for each in (run, other))
            self.replayed(body.pushed, dtype, *given, rounded=run.call.sample.draws)

        self.run(check, op, dtype, once=True, few=True)

    @of_rules
    def test_second_order(self, op: str, dtype: str) -> None:
        """Gradients of gradients, with respect to operands and cotangents."""

        def check(run: SampleRun) -> None:
            body, other = SampleFunction(run), SampleRun(self, run.call.sample, dtype, FACTORS[1])
            if not body.replays(run):
                return
            cotangents, _ = run.cotangents(body.first, requires_grad=True)
            rest = cotangents, run.directions(), body.extras
            given = ((each.leaves(run.every), *rest) for each in (run, other))
            self.replayed(body.twice, dtype, *given, rounded=through_complex(op) or run.call.sample.draws)

        self.run(check, op, dtype, once=True, few=True)

    @of_rules
    def test_batches(self, op: str, dtype: str) -> None:
        """Gradients per example within a program, and the program of one example over a batch."""
        np = library()

        def check(run: SampleRun) -> None:
            body, other = SampleFunction(run), SampleRun(self, run.call.sample, dtype, FACTORS[1])
            keyed = op == "setitem" and any_data(run.call.sample.args, lambda data: not data.inexact)
            if keyed:
                run.outcome = "left out"
            if keyed or not body.replays(run):
                return
            cotangents, _ = run.cotangents(body.first)
            batches = [
                [self.tensor(np.stack([a, b])) for a, b in zip(one.arrays, two.arrays, strict=True)]
                for one, two in ((run, other), (other, run))
            ]
            pulled = ag.func.vmap(body.pulled, (0, None, None))
            given = ((batch, cotangents, body.extras) for batch in batches)
            self.replayed(pulled, dtype, *given, rounded=through_complex(op) or run.call.sample.draws)
            single = ag.func.capture(body.pulled)(run.leaves(()), cotangents, body.extras)
            found, wanted = (
                ag.func.vmap(function, (0, None, None))(batches[0], cotangents, body.extras)
                for function in (single, body.pulled)
            )
            for one, two in zip(self.hosts(found), self.hosts(wanted), strict=True):
                self.close(one, two, VALUE[dtype], "the program over a batch")

        self.run(check, op, dtype, once=True, few=True)

    @of_rules
    def test_exact_batches(self, op: str, dtype: str) -> None:
        """Gradients per example with ``exact=True``: batched last, and summed, so that their memory layout matters."""
        if self.backend.is_lazy or not self.harness.exact or dtype.startswith("complex") or through_complex(op):
            pytest.skip("bits are compared of real arrays that are not lazy: see COMPLEX")
        np = library()

        def check(run: SampleRun) -> None:
            body = SampleFunction(run)
            keyed = op == "setitem" and any_data(run.call.sample.args, lambda data: not data.inexact)
            left_out = keyed or run.call.sample.draws
            if left_out:
                run.outcome = "left out"
            if left_out or not body.replays(run):
                return
            rows = [SampleRun(self, run.call.sample, dtype, factor) for factor in 3 * FACTORS]
            batch = [self.tensor(np.stack(of, axis=-1)) for of in zip(*(row.call.arrays for row in rows), strict=True)]
            cotangents, _ = run.cotangents(body.first)
            zeros = functools.partial(ag.zeros, dtype=getattr(self.xp, dtype), device=self.device)

            def totals(batch: Any, cotangents: Any, extras: Any) -> list[Any]:
                found = ag.func.vmap(body.pulled, (-1, None, None))(batch, cotangents, extras)
                floats = [part for part in found if ag.isdtype(part.dtype, "real floating")]
                return [*found, *(ag.sum(ag.where(part > 0, part, zeros(part.shape))) for part in floats)]

            given = batch, cotangents, body.extras
            replay = ag.func.capture(totals)(*given).runner(self.backend, executor=self.executor, exact=True)
            raws = [leaf._raw for leaf in ag.tree.flatten(given)[0] if isinstance(leaf, ag.Tensor)]
            wanted = self.hosts([part.detach() for part in totals(*given)])
            for call in range(2):
                for one, other in zip(self.hosts(replay(*raws)), wanted, strict=True):
                    assert one.tobytes() == other.tobytes(), f"replay {call}: {one!r} is not, bit for bit, {other!r}"

        self.run(check, op, dtype, once=True, few=True)

    @pytest.mark.parametrize("op", DATA_DEPENDENT)
    def test_shapes_that_depend_on_values(self, op: str) -> None:
        """No program holds them, and the error names the operation."""
        self.require("data-dependent shapes")
        with pytest.raises(ag.func.CaptureError, match=op.partition("_")[0]):
            ag.func.capture(getattr(ag, op))(self.tensor([1.0, 0.0, 1.0]))

    # -- what is made -------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("function", CREATED)
    def test_created(self, function: str) -> None:
        """Arrays created from nothing, and combined with an operand."""
        self.require(*(["empty arrays"] if function in EMPTY else []))
        make, _ = CREATED[function]
        dtype = getattr(self.xp, self.real)

        def combined(x: Any) -> Any:
            made = make(self.xp, dtype)
            return made, made * x

        self.replayed(combined, self.real, [self.tensor(2.0)], [self.tensor(3.0)])

    @pytest.mark.parametrize("function", MADE_OF)
    def test_made_of_another(self, function: str) -> None:
        """Arrays created like an operand, or from it."""
        make, _ = MADE_OF[function]
        first, then = self.tensor([[1.0, 2.0], [3.0, 4.0]]), self.tensor([[2.0, 5.0], [7.0, -1.0]])
        self.replayed(lambda x: make(self.xp, x) * x, self.real, [first], [then])

    @pytest.mark.parametrize("function", DRAWN)
    def test_drawn(self, function: str) -> None:
        """Draws go on with the generator's sequence as the calls would."""
        how = {"dtype": self.real, "device": self.device}
        drawn = lambda x: (DRAWN[function](**how), x * 2.0, DRAWN[function](**how))
        program = ag.func.capture(drawn)(self.tensor(1.0))
        x = self.tensor(2.0)
        for seed in (5, 6):
            made = []
            for run in (program, drawn):
                ag.manual_seed(seed)
                made.append((run(x), run(x)))
            self.same(made[0], made[1], self.real, f"draws of seed {seed}")

    @pytest.mark.parametrize("write", WRITES)
    def test_in_place(self, write: str) -> None:
        """Writes to an inner value, to an argument, and to an outer tensor."""
        change, _ = WRITES[write]

        def within(x: Any) -> Any:
            y = x * 1.0
            change(y)
            change(x)
            return y * x

        def start(factor: float = 1.0) -> Any:
            return self.tensor([[factor * value for value in row] for row in START])

        program = ag.func.capture(within)(start())
        first, second = start(0.5), start(0.5)
        self.same(program(first), within(second), self.real, "the result")
        self.same(first, second, self.real, "the argument")

        outside = start()

        def beside(x: Any) -> Any:
            change(outside)
            return outside * x

        program = ag.func.capture(beside)(start())
        for _ in range(2):
            before = outside.detach().clone()
            found = program(start(0.5)), outside
            again = before
            change(again)
            self.same(found, (again * start(0.5), again), self.real, "the tensor from outside")

    # -- as a whole: what `Backend.compile` gives ---------------------------------------------------------------------

    def operands(self, factor: float = 1.0) -> list[Any]:
        """Return the arguments of `layer`."""
        x, w = (
            [[0.5, -1.0, 2.0], [1.5, 0.25, -0.75], [-0.5, 1.0, 0.1]],
            [[1.0, 0.2, -0.3], [0.4, -0.5, 0.6], [0.7, 0.8, 0.9]],
        )
        return [self.tensor([[factor * v for v in row] for row in rows], requires_grad=True) for rows in (x, w)]

    def run_whole(self, factors: Sequence[float], **options: Any) -> tuple[list[Any], list[Any]]:
        """Run the program of `layer` on operands times factors; return the results, and those of the calls."""
        run = ag.func.capture(layer)(*self.operands()).runner(self.backend, executor=self.executor, **options)
        found = [run(*(t._raw for t in self.operands(factor))) for factor in factors]
        return found, [layer(*self.operands(factor)) for factor in factors]

    def close_to(self, found: Sequence[Any], wanted: Sequence[Any], what: str) -> None:
        """Compare the results of a run with those of a call, to rounding."""
        assert isinstance(found, tuple), f"{what}: a {type(found).__name__}, no tuple"
        assert len(found) == len(wanted), f"{what}: {len(found)} outputs, expected {len(wanted)}"
        for one, other in zip(self.hosts(found), self.hosts([t.detach() for t in wanted]), strict=True):
            self.close(one, other, 100 * VALUE[self.real], what)

    def test_outputs_are_nobody_elses(self) -> None:
        """No later run writes to the results of a run."""
        factors = (1.0, -0.5, 2.0, 0.3)
        for found, wanted in zip(*self.run_whole(factors), strict=True):
            self.close_to(found, wanted, "the output after later runs")

    def test_inputs_stay(self) -> None:
        """A run writes to none of its arguments."""
        run = ag.func.capture(layer)(*self.operands()).runner(self.backend, executor=self.executor)
        given = self.operands(1.5)
        for _ in range(3):
            run(*(t._raw for t in given))
        for now, before in zip(given, self.operands(1.5), strict=True):
            self.close(now.detach(), self.host(before.detach()), 0.0, "the input after the run")

    def test_several_threads(self) -> None:
        """Runs at the same time do not disturb each other."""
        self.require("threads")
        run = ag.func.capture(layer)(*self.operands()).runner(self.backend, executor=self.executor)
        factors = [0.1 * (i + 1) for i in range(24)]
        given = [[t._raw for t in self.operands(factor)] for factor in factors]
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda raws: run(*raws), given))
        for factor, one in zip(factors, found, strict=True):
            self.close_to(one, layer(*self.operands(factor)), "the output beside other threads")

    def test_exact(self) -> None:
        """A function compiled with ``exact=True`` gives the bits of the calls."""
        for found, wanted in zip(*self.run_whole((1.0, 0.3, -0.7), exact=True), strict=True):
            for one, other in zip(self.hosts(found), self.hosts([t.detach() for t in wanted]), strict=True):
                if self.backend.is_lazy:
                    self.close(one, other, VALUE[self.real])
                else:
                    assert one.tobytes() == other.tobytes(), f"with exact=True: {one!r} is not, bit for bit, {other!r}"

    def test_options(self) -> None:
        """Options that a backend does not know are passed over."""
        found, wanted = self.run_whole((1.0,), exact=False, threads=1, later_option=None)
        self.close_to(found[0], wanted[0], "the output")


def layer(x: Any, w: Any) -> list[Any]:
    """Return the results of a layer and a loss, and gradients: products of matrices, broadcasting, sums, views."""
    h = ag.tanh(x @ w - x[:, :1]) * ag.mean(x)
    loss = ag.sum((h - ag.matrix_transpose(x)) ** 2)
    return [loss, h, ag.sin(h), *ag.autograd.grad(loss, [x, w])]


def unknown(results: Sequence[Any]) -> bool:
    """Return whether the size of some result is unknown until it is computed."""
    return any(n != n for r in results for n in r.shape)
