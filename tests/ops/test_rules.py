"""Every rule against finite differences: first and second order, reverse and forward, on every sample of every op.

The expected numbers come from central differences of the NumPy backend's kernels, which know no derivatives.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
from functools import cached_property

import numpy as np
import pytest

import agrad as ag
from agrad.core.forward import level, tangent_of, with_tangent
from agrad.core.op import OPS
from agrad.testing import calls
from agrad.testing.samples import SAMPLES, Data, Sample

#: Ops with a derivative whose call is no mere function of arrays, and where they are tested.
ELSEWHERE = {
    "to_device": "test_to_device.py",
    "func.unwind": "test_schedules_in_programs.py",  # its argument needs a library that is optional
    "func.rewind": "test_schedules_in_programs.py",
}

#: Ops whose first derivative is known at complex operands and no second one, and where it is tested.
FIRST_COMPLEX_DERIVATIVE = {"special.gamma": "test_special.py", "special.loggamma": "test_special.py"}

ALL = [sample for samples in SAMPLES.values() for sample in samples]


def of_samples(samples=ALL):
    return pytest.mark.parametrize("sample", samples, ids=[f"{i}-{s}" for i, s in enumerate(samples)])


#: On NumPy alone: what is said here of array-api-strict, `agrad.testing.suite` says too (along a direction).
IN_DEPTH = pytest.mark.parametrize("backend", ["numpy"], indirect=True)


def differentiable():
    """The names of agrad's own ops with a derivative."""
    own = [n for n, op in OPS.items() if op.entry.__module__.startswith("agrad.")]
    return [n for n in own if ag.rules[n].kind != "none"]


# -- a sample as a function of arrays ---------------------------------------------------------------------------------


class Call(calls.SampleCall):
    """A sample's call, on the backends of these tests."""

    def tensors(self, backend, operands, *, raw_indices=False, single=False):
        """Call the public function with these tensors: the list of results."""

        def make(array):
            made = tensor_of(in_single(array) if single else array, backend)
            return made._raw if raw_indices else made

        return super().tensors(operands, make)


def in_single(array):
    """Give an array in half the precision; indices and masks stay what they are."""
    return array.astype(calls.SINGLE.get(str(array.dtype), array.dtype))


def tensor_of(array, backend, requires_grad=False):
    return ag.asarray(array, device=backend, requires_grad=requires_grad)


def host(tensor):
    return np.asarray(tensor._spec.backend.to_host(tensor._raw))


# -- finite differences -----------------------------------------------------------------------------------------------
# A complex array counts as its real and imaginary parts: then gradients (dL/dRe + i dL/dIm) are real gradients.


def flat(arrays):
    parts = []
    for a in map(np.asarray, arrays):
        parts += [a.real.ravel(), a.imag.ravel()] if np.iscomplexobj(a) else [a.ravel()]
    return np.concatenate(parts) if parts else np.zeros(0)


def unflat(vector, like):
    made, start = [], 0
    for a in like:
        n = a.size
        if np.iscomplexobj(a):
            made.append((vector[start : start + n] + 1j * vector[start + n : start + 2 * n]).reshape(a.shape))
            start += 2 * n
        else:
            made.append(vector[start : start + n].reshape(a.shape))
            start += n
    return made


def jacobian_of(f, arrays, eps):
    """Central differences of f at arrays: real, one column per real number that goes in."""
    x = flat(arrays)
    columns = []
    for i in range(x.size):
        step = np.zeros_like(x)
        step[i] = eps
        above, below = flat(f(unflat(x + step, arrays))), flat(f(unflat(x - step, arrays)))
        columns.append((above - below) / (2 * eps))
    return np.stack(columns, axis=1) if columns else np.zeros((flat(f(arrays)).size, 0))


class Reference:
    """What the derivatives of a call should be."""

    def __init__(self, call):
        self.results = call.raw(call.arrays)
        self.cotangents = call.drawn("cotangents", self.results)
        self.jacobian = jacobian_of(call.raw, call.arrays, 1e-6)
        sizes = [flat([a]).size for a in call.arrays]
        ends = np.cumsum([0, *sizes])
        self.blocks = [self.jacobian[:, a:b] for a, b in itertools.pairwise(ends)]
        self.gradients = unflat(self.jacobian.T @ flat(self.cotangents), call.arrays)
        self.call = call

    def pushed(self, subset):
        """The tangents of the results for tangents of some operands."""
        total = sum((self.blocks[k] @ flat([self.call.tangents[k]]) for k in subset), np.zeros(self.jacobian.shape[0]))
        return unflat(total, self.results)

    def pulled(self, cotangents):
        """The gradients for cotangents, None among them standing for zero."""
        filled = [np.zeros_like(r) if c is None else c for r, c in zip(self.results, cotangents, strict=True)]
        return unflat(self.jacobian.T @ flat(filled), self.call.arrays)

    @cached_property
    def hessian_product(self):
        """The derivative of the gradients along the tangents: central differences in both directions, extrapolated."""
        call, g = self.call, flat(self.cotangents)
        x, v = flat(call.arrays), flat(call.tangents)

        def along(h):
            def gradient(at):
                return jacobian_of(lambda arrays: [np.dot(flat(call.raw(arrays)), g)], unflat(at, call.arrays), h)[0]

            return (gradient(x + h * v) - gradient(x - h * v)) / (2 * h)

        return unflat((4 * along(1e-4) - along(2e-4)) / 3, call.arrays)  # Richardson: without the error of second order


_made = {}


def prepared(sample):
    """Give a sample's call and what its derivatives should be, made once for all backends."""
    if id(sample) not in _made:
        call = Call(sample)
        with np.errstate(all="ignore"):
            _made[id(sample)] = call, Reference(call)
    return _made[id(sample)]


def close(got, expected, tolerance=2e-7):
    """Compare with an error relative to the largest entry."""
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.shape == expected.shape
    scale = max(1.0, float(np.max(np.abs(expected), initial=0.0)))
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance * scale)


def skip_beyond(sample, backend):
    if backend != "numpy" and sample.beyond:
        pytest.skip(sample.beyond)


def check_like(tensor, leaf, backend):
    assert isinstance(tensor, ag.Tensor)
    assert tensor.shape == leaf.shape
    assert tensor.dtype == leaf.dtype
    assert tensor._spec.backend.name == backend


# -- the tests --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", differentiable())
def test_every_op_with_a_derivative_has_samples(name):
    assert name in SAMPLES or name in ELSEWHERE, f"agrad.testing.samples has no operands for {name}"


def room(name):
    """The public module that an op of this name would stand in."""
    return importlib.import_module(".".join(["agrad", *name.split(".")[:-1]]))


def real_alone():
    """The public elementwise ops of which no sample is complex, each with its first sample."""
    own = {name: SAMPLES[name] for name in differentiable() if name in SAMPLES and ag.rules[name].kind == "elementwise"}
    own = {name: samples for name, samples in own.items() if name.rpartition(".")[2] in room(name).__all__}
    kinds = {
        name: {d.dtype[:7] for s in samples for d in s.args if isinstance(d, Data)} for name, samples in own.items()
    }
    return [
        pytest.param(own[name][0], id=name)
        for name in own
        if "complex" not in kinds[name] and name not in FIRST_COMPLEX_DERIVATIVE
    ]


@pytest.mark.parametrize("sample", real_alone())
def test_what_no_sample_tries_with_complex_operands_refuses_their_derivatives(sample):
    """No rule that was never compared with differences at complex operands gives a gradient there."""
    call = Call(sample)
    for i, array in enumerate(call.arrays):
        if array.dtype.kind != "f":
            continue
        leaf = ag.asarray(array + 0.3j, requires_grad=True)
        operands = [leaf if j == i else ag.asarray(a) for j, a in enumerate(call.arrays)]
        try:
            results = [r for r in call.tensors("numpy", operands) if r.requires_grad]
            ag.autograd.grad(results, [leaf], [ag.ones_like(r) for r in results])
        except (TypeError, ValueError, NotImplementedError, RuntimeError):  # the last: nothing requires a gradient
            continue
        pytest.fail("give it a complex sample (other=), or refuse (real_only, in agrad/ops/special/series.py)")


def test_every_sample_is_of_an_op():
    assert set(SAMPLES) <= set(ag.rules)


@IN_DEPTH
@of_samples()
def test_first_order(sample, backend):
    skip_beyond(sample, backend)
    call, expected = prepared(sample)
    leaves = [tensor_of(a, backend, requires_grad=True) for a in call.arrays]
    results = call.tensors(backend, leaves)
    for result, value in zip(results, expected.results, strict=True):
        assert result._spec.backend.name == backend
        assert host(result).dtype == value.dtype
        close(host(result), value, 1e-14)
    if not results:  # of an empty axis
        return
    cotangents = [tensor_of(g, backend) for g in expected.cotangents]
    gradients = ag.autograd.grad(results, leaves, cotangents)
    for gradient, leaf, wanted in zip(gradients, leaves, expected.gradients, strict=True):
        check_like(gradient, leaf, backend)
        close(host(gradient), wanted)

    with level() as at:
        duals = [
            with_tangent(leaf.detach(), tensor_of(t, backend), at)
            for leaf, t in zip(leaves, call.tangents, strict=True)
        ]
        pushed = [tangent_of(r, at) for r in call.tensors(backend, duals)]
    for tangent, result, wanted in zip(pushed, results, expected.pushed(range(len(leaves))), strict=True):
        check_like(tangent, result, backend)
        close(host(tangent), wanted)

    # the two are adjoint, to rounding
    along = np.dot(flat([host(t) for t in pushed]), flat(expected.cotangents))
    against = np.dot(flat([host(g) for g in gradients]), flat(call.tangents))
    close(along, against, 1e-13)


@IN_DEPTH
@of_samples()
def test_second_order(sample, backend):
    skip_beyond(sample, backend)
    call, first = prepared(sample)
    with np.errstate(all="ignore"):
        second = first.hessian_product
    if not first.results:
        return
    leaves = [tensor_of(a, backend, requires_grad=True) for a in call.arrays]
    cotangents = [tensor_of(g, backend, requires_grad=True) for g in first.cotangents]
    directions = [tensor_of(v, backend) for v in call.tangents]

    # reverse over reverse, by the operands and by the cotangents
    results = call.tensors(backend, leaves, raw_indices=True)
    gradients = ag.autograd.grad(results, leaves, cotangents, create_graph=True)
    for gradient, leaf, wanted in zip(gradients, leaves, first.gradients, strict=True):
        check_like(gradient, leaf, backend)
        close(host(gradient), wanted)
    recorded = [(g, v) for g, v in zip(gradients, directions, strict=True) if g.requires_grad]
    inputs = [*leaves, *cotangents]
    if recorded:
        twice = ag.autograd.grad([g for g, _ in recorded], inputs, [v for _, v in recorded], materialize_grads=True)
    else:
        twice = [ag.zeros_like(leaf.detach()) for leaf in inputs]
    for got, leaf, wanted in zip(twice, inputs, [*second, *first.pushed(range(len(leaves)))], strict=True):
        check_like(got, leaf, backend)
        close(host(got), wanted, 1e-5)

    # forward over reverse
    plain = [c.detach() for c in cotangents]
    with level() as at:
        duals = [with_tangent(leaf, v, at) for leaf, v in zip(leaves, directions, strict=True)]
        gradients = ag.autograd.grad(call.tensors(backend, duals), leaves, plain)
        pushed = [tangent_of(g, at) for g in gradients]
    for got, wanted in zip(pushed, second, strict=True):
        close(np.zeros_like(wanted) if got is None else host(got), wanted, 1e-5)

    # reverse over forward
    with level() as at:
        duals = [with_tangent(leaf, v, at) for leaf, v in zip(leaves, directions, strict=True)]
        pushed = [tangent_of(r, at) for r in call.tensors(backend, duals)]
    recorded = [(t, g) for t, g in zip(pushed, plain, strict=True) if t.requires_grad]
    if recorded:
        mixed = ag.autograd.grad([t for t, _ in recorded], leaves, [g for _, g in recorded], materialize_grads=True)
    else:
        mixed = [ag.zeros_like(leaf.detach()) for leaf in leaves]
    for got, leaf, wanted in zip(mixed, leaves, second, strict=True):
        check_like(got, leaf, backend)
        close(host(got), wanted, 1e-5)

    # forward over forward
    with level() as outer:
        duals = [with_tangent(leaf.detach(), v, outer) for leaf, v in zip(leaves, directions, strict=True)]
        with level() as inner:
            duals = [with_tangent(d, v, inner) for d, v in zip(duals, directions, strict=True)]
            once = [tangent_of(r, inner) for r in call.tensors(backend, duals)]
        nested = [tangent_of(t, outer) for t in once]
    seconds = [np.zeros_like(r) if t is None else host(t) for t, r in zip(nested, first.results, strict=True)]
    with np.errstate(all="ignore"):
        curvature = calls.Slopes(call).curvature
    close(np.dot(flat(seconds), flat(first.cotangents)), np.dot(flat(curvature), flat(first.cotangents)), 1e-6)


def saved_names(rule, needed):
    """What the derivatives of these operands ask for."""
    asked = set()
    for name in needed:
        derivative = rule.vjp[name]
        if callable(derivative):
            asked |= set(inspect.signature(derivative).parameters)
    if rule.define is not None:
        asked |= {*rule.operands, *rule.index}
    return [n for n in (*rule.operands, *rule.index, "ans", *rule.residuals) if n in asked]


@IN_DEPTH
@of_samples()
def test_some_operands(sample, backend):
    """Each subset of operands by itself: its gradients, its tangents, and what is saved for it."""
    skip_beyond(sample, backend)
    call, expected = prepared(sample)
    if not expected.results:
        return
    count = len(call.arrays)
    for size in range(1, count + 1):
        for subset in itertools.combinations(range(count), size):
            leaves = [tensor_of(a, backend, requires_grad=i in subset) for i, a in enumerate(call.arrays)]
            results = call.tensors(backend, leaves)
            followed = [
                k for k, r in enumerate(results) if r.requires_grad
            ]  # of a loop, those that the operands lead to
            assert followed == [*range(len(results))] or call.op.rule.follows is not None
            node = results[followed[0]].grad_fn
            names = saved_names(call.op.rule, dict.fromkeys(call.names[i] for i in subset))
            assert len(node.saved) == len(names)
            for name, value in zip(names, node.saved, strict=True):
                check_saved(call, name, value, leaves, results)
            cotangents = [tensor_of(expected.cotangents[k], backend) for k in followed]
            ag.autograd.backward([results[k] for k in followed], cotangents)
            for i, leaf in enumerate(leaves):
                if i in subset:
                    check_like(leaf.grad, leaf, backend)
                    close(host(leaf.grad), expected.gradients[i])
                else:
                    assert leaf.grad is None
            assert not any(map(holds_array, node.saved or ()))

            with level() as at:
                duals = [
                    with_tangent(leaf.detach(), tensor_of(call.tangents[i], backend), at)
                    if i in subset
                    else leaf.detach()
                    for i, leaf in enumerate(leaves)
                ]
                pushed = [tangent_of(r, at) for r in call.tensors(backend, duals, raw_indices=True)]
            for tangent, wanted in zip(pushed, expected.pushed(subset), strict=True):
                close(np.zeros_like(wanted) if tangent is None else host(tangent), wanted)


def holds_array(value) -> bool:
    """Tell whether a saved value is an array, or a key with one in it."""
    return any(hasattr(part, "dtype") for part in (value if isinstance(value, tuple) else (value,)))


def check_saved(call, name, value, leaves, results):
    mine = [leaf._raw for leaf, n in zip(leaves, call.names, strict=True) if n == name]
    if name == "ans":
        assert value is results[0]._raw or all(v is r._raw for v, r in zip(value, results, strict=True))
    elif name == call.op.rule.sequence:
        assert all(v is x for v, x in zip(value, mine, strict=True))
    elif mine:
        assert value is mine[0]


@of_samples([s for s in ALL if OPS[s.op].rule.outputs is not None])
def test_some_cotangents(sample, backend):
    """Each subset of the results by itself: the other cotangents are undefined."""
    skip_beyond(sample, backend)
    call, expected = prepared(sample)
    count = len(expected.results)
    for size in range(1, count + 1):
        for subset in itertools.combinations(range(count), size):
            leaves = [tensor_of(a, backend, requires_grad=True) for a in call.arrays]
            results = call.tensors(backend, leaves)
            cotangents = [tensor_of(expected.cotangents[i], backend) for i in subset]
            for create_graph in (True, False):
                gradients = ag.autograd.grad(
                    [results[i] for i in subset],
                    leaves,
                    cotangents,
                    retain_graph=True,
                    create_graph=create_graph,
                    materialize_grads=call.op.rule.follows is not None,  # some of its operands lead to none of these
                )
                wanted = expected.pulled([g if i in subset else None for i, g in enumerate(expected.cotangents)])
                for got, w in zip(gradients, wanted, strict=True):
                    close(host(got), w)


@IN_DEPTH
@of_samples()
def test_single_precision(sample, backend):
    skip_beyond(sample, backend)
    call, expected = prepared(sample)
    if not expected.results or sample.op == "nextafter":
        return
    leaves = [tensor_of(in_single(a), backend, requires_grad=True) for a in call.arrays]
    results = call.tensors(backend, leaves, single=True)
    if "dtype" not in [a.name for a in call.op.arguments] and "spec" not in [a.name for a in call.op.arguments]:
        assert all(str(host(r).dtype) in calls.SINGLE.values() for r in results)
    cotangents = [
        tensor_of(g.astype(host(r).dtype), backend) for g, r in zip(expected.cotangents, results, strict=True)
    ]
    for got, leaf, wanted in zip(
        ag.autograd.grad(results, leaves, cotangents), leaves, expected.gradients, strict=True
    ):
        check_like(got, leaf, backend)
        close(host(got), wanted, 2e-5)
    with level() as at:
        duals = [
            with_tangent(leaf.detach(), tensor_of(in_single(t), backend), at)
            for leaf, t in zip(leaves, call.tangents, strict=True)
        ]
        pushed = [tangent_of(r, at) for r in call.tensors(backend, duals, single=True)]
    for got, result, wanted in zip(pushed, results, expected.pushed(range(len(leaves))), strict=True):
        check_like(got, result, backend)
        close(host(got), wanted, 2e-5)


@of_samples([s for s in ALL if len(Call(s).operands) > 1])
def test_mixed_precision(sample, backend):
    """One operand is of single precision: its gradient is too, the others' are not."""
    skip_beyond(sample, backend)
    call, expected = prepared(sample)
    if sample.op == "nextafter":
        return
    if sample.op == "setitem" and backend == "strict":
        pytest.skip("the standard assigns values of the array's own dtype only")
    for single in range(len(call.arrays)):
        leaves = [
            tensor_of(in_single(a) if i == single else a, backend, requires_grad=True)
            for i, a in enumerate(call.arrays)
        ]
        results = call.tensors(backend, leaves)
        cotangents = [
            tensor_of(g.astype(host(r).dtype), backend) for g, r in zip(expected.cotangents, results, strict=True)
        ]
        for create_graph in (True, False):
            gradients = ag.autograd.grad(results, leaves, cotangents, retain_graph=True, create_graph=create_graph)
            for got, leaf, wanted in zip(gradients, leaves, expected.gradients, strict=True):
                check_like(got, leaf, backend)
                close(host(got), wanted, 2e-5)


@of_samples()
def test_other_layouts_in_memory(sample):
    """Operands and cotangents that are views: reversed, strided, transposed."""
    call, expected = prepared(sample)
    if not expected.results:
        return

    def scattered(array):
        if not array.ndim:
            return array
        apart = np.zeros([2 * n for n in array.shape], array.dtype).T
        view = apart[(slice(None, None, -2),) * array.ndim]
        view[...] = array.T
        return view.T

    leaves = [tensor_of(scattered(a), "numpy", requires_grad=True) for a in call.arrays]
    before = [host(leaf).copy() for leaf in leaves]
    results = call.tensors("numpy", leaves)
    cotangents = [tensor_of(scattered(g), "numpy") for g in expected.cotangents]
    for got, leaf, wanted in zip(
        ag.autograd.grad(results, leaves, cotangents), leaves, expected.gradients, strict=True
    ):
        check_like(got, leaf, "numpy")
        close(host(got), wanted)
    for leaf, value in zip(leaves, before, strict=True):
        np.testing.assert_array_equal(host(leaf), value)


@of_samples([s for s in ALL if not s.beyond])
def test_another_device(sample, strict_backend):
    """Operands on a device that is not the backend's default; what a rule makes itself has to be there too."""
    call, expected = prepared(sample)
    device = "strict:device1"
    leaves = [tensor_of(a, device, requires_grad=True) for a in call.arrays]
    results = call.tensors(device, leaves)
    cotangents = [tensor_of(g, device, requires_grad=True) for g in expected.cotangents]
    for create_graph in (True, False) if results else ():
        gradients = ag.autograd.grad(results, leaves, cotangents, retain_graph=True, create_graph=create_graph)
        for got, wanted in zip(gradients, expected.gradients, strict=True):
            assert got.device == device
            close(host(got), wanted)
    with level() as at:
        duals = [
            with_tangent(leaf.detach(), tensor_of(t, device), at) for leaf, t in zip(leaves, call.tangents, strict=True)
        ]
        assert all(tangent_of(r, at).device == device for r in call.tensors(device, duals))


def scalar_samples():
    """Samples of two operands of which one is 0-d and real: it may be a Python number."""
    found = []
    for sample in ALL:
        call = Call(sample)
        if (
            not sample.beyond
            and len(call.operands) == 2
            and call.op.rule.kind == "elementwise"
            and len(sample.args) == 2
        ):
            found += [
                (sample, i) for i, data in enumerate(call.operands) if data.shape == () and data.dtype == "float64"
            ]
    return found


@pytest.mark.parametrize(("sample", "place"), scalar_samples(), ids=str)
def test_a_python_number_as_operand(sample, place, backend):
    call, expected = prepared(sample)
    number = float(call.arrays[place])
    other = tensor_of(call.arrays[1 - place], backend, requires_grad=True)
    result = call.tensors(backend, [number, other] if place == 0 else [other, number])[0]
    close(host(result), expected.results[0], 1e-14)
    g = tensor_of(expected.cotangents[0], backend)
    for create_graph in (True, False):
        (got,) = ag.autograd.grad(result, other, g, retain_graph=True, create_graph=create_graph)
        check_like(got, other, backend)
        close(host(got), expected.gradients[1 - place])
    with level() as at:
        dual = with_tangent(other.detach(), tensor_of(call.tangents[1 - place], backend), at)
        pushed = tangent_of(call.tensors(backend, [number, dual] if place == 0 else [dual, number])[0], at)
    close(host(pushed), expected.pushed([1 - place])[0])


# -- the tests themselves ---------------------------------------------------------------------------------------------


@ag.elementwise(name="mine.nearly_square", x=lambda x: 2.00001 * x, kernel=lambda xp, x: x * x)
def nearly_square(x, /):
    """A wrong partial."""


@ag.linear(name="mine.nearly_flip", x=lambda xp, g: xp.roll(g, 1), kernel=lambda xp, x: xp.flip(x))
def nearly_flip(x, /):
    """A wrong adjoint; forward mode is right."""


@ag.custom(
    name="mine.nearly_cube",
    vjp={"x": lambda g, x: 3 * g * x * x},
    jvp=lambda t_x, x: 3.00001 * t_x * x * x,
    kernel=lambda xp, x: x * x * x,
)
def nearly_cube(x, /):
    """A wrong tangent; reverse mode is right."""


@ag.custom(
    name="mine.once_only",
    vjp={"x": lambda g, ans: g * (ans.detach() if isinstance(ans, ag.Tensor) else ans)},
    jvp=None,
    kernel=lambda xp, x: xp.exp(x),
)
def once_only(x, /):
    """Right, but for the second order."""


@pytest.mark.parametrize(
    ("op", "test"),
    [
        ("mine.nearly_square", test_first_order),
        ("mine.nearly_flip", test_first_order),
        ("mine.nearly_cube", test_first_order),
        ("mine.once_only", test_second_order),
    ],
)
def test_a_wrong_rule_is_seen(op, test, backend):
    sample = Sample(op, (Data((3,), (0.5, -1.0, 2.0), "float64"),))
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        test(sample, backend)
