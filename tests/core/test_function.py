"""Function: user-defined operations with a backward of their own."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass

import numpy as np
import pytest

import agrad as ag
from agrad import Function
from agrad.autograd import gradcheck, gradgradcheck
from agrad.autograd.function import once_differentiable
from agrad.core import forward as forward_mode


def leaf(*values):
    return ag.tensor(list(values), requires_grad=True)


def scalar(value):
    return ag.tensor(value, requires_grad=True)


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * g


class Split(Function):
    """cube of x by the other form, with a result too many and one that is no tensor."""

    @staticmethod
    def forward(x, y, scale=2.0):
        return x * y * scale, x + y, "text"

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, y, scale = inputs
        ctx.save_for_backward(x, y)
        ctx.scale = scale
        assert output[2] == "text"

    @staticmethod
    def backward(ctx, g_product, g_sum, g_text):
        assert g_text is None
        x, y = ctx.saved_tensors
        return g_product * y * ctx.scale + g_sum, g_product * x * ctx.scale + g_sum, None


def simple(backward, forward=lambda ctx, *args: args[0] * 2):
    return type("F", (Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)})


# -- the two forms ----------------------------------------------------------------------------------------------------


def test_forward_and_backward():
    x = leaf(1.0, 2.0)
    y = Cube.apply(x)
    assert y.tolist() == [1.0, 8.0]
    assert y.grad_fn.name() == "CubeBackward"
    assert repr(y).endswith("grad_fn=<CubeBackward>)")
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 12.0]


def test_setup_context():
    x, y = scalar(3.0), scalar(5.0)
    product, total, text = Split.apply(x, y)
    assert (product.item(), total.item(), text) == (30.0, 8.0, "text")
    assert (product.output_nr, total.output_nr) == (0, 1)
    assert product.grad_fn is total.grad_fn
    (product + 10 * total).backward()
    assert x.grad.item() == 20.0
    assert y.grad.item() == 16.0


def test_setup_context_gets_the_defaults_of_forward():
    x, y = scalar(3.0), scalar(5.0)
    Split.apply(x, y, scale=1.0)[0].backward()
    assert x.grad.item() == 5.0
    Split.apply(x, y=y)[0].backward()
    assert x.grad.item() == 15.0
    assert y.grad.item() == 9.0


def test_vjp_is_another_name_of_backward():
    class F(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def vjp(ctx, g):
            return g * 2

    x = leaf(1.0)
    F.apply(x).sum().backward()
    assert x.grad.tolist() == [2.0]


def test_keyword_arguments():
    class F(Function):
        @staticmethod
        def forward(ctx, x, k=2.0):
            ctx.k = k
            return x * k

        @staticmethod
        def backward(ctx, g):
            return g * ctx.k, None

    x = scalar(1.0)
    F.apply(x, k=5.0).backward()
    assert x.grad.item() == 5.0
    F.apply(x).backward()
    assert x.grad.item() == 7.0


def test_subclasses_have_nodes_of_their_own():
    class Other(Cube):
        pass

    assert Other.apply(leaf(1.0)).grad_fn.name() == "OtherBackward"
    assert Cube.apply(leaf(1.0)).grad_fn.name() == "CubeBackward"


def test_forward_gets_the_very_tensors_with_recording_off():
    x = leaf(1.0)

    def forward(ctx, a, b, c):
        assert a is x
        assert b is array
        assert c == "text"
        assert a.requires_grad
        assert not ag.is_grad_enabled()
        assert not (a * 2).requires_grad
        return a * 2

    array = np.ones(1)
    F = simple(lambda ctx, g: (g * 2, None, None), forward)
    y = F.apply(x, array, "text")
    assert ag.is_grad_enabled()
    y.sum().backward()
    assert x.grad.tolist() == [2.0]


def test_forward_that_raises_restores_the_mode():
    def forward(ctx, x):
        raise KeyError("boom")

    with pytest.raises(KeyError, match="boom"):
        simple(None, forward).apply(leaf(1.0))
    assert ag.is_grad_enabled()


def test_nothing_is_recorded_without_need():
    assert Cube.apply(ag.tensor([1.0])).grad_fn is None
    x = leaf(1.0)
    with ag.no_grad():
        assert Cube.apply(x).grad_fn is None


def test_results_that_are_no_tensors_pass_through():
    for value in (3, [3, "a"]):
        assert simple(None, lambda ctx, x, value=value: value).apply(ag.tensor([1.0])) == value
        marked = simple(None, lambda ctx, x, value=value: ctx.mark_non_differentiable() or value)
        assert marked.apply(leaf(1.0)) == value


# -- arrays: what is written around other libraries -------------------------------------------------------------------


def numpy_sine(result, pick=lambda gs: gs[0]):
    """The sine by NumPy, as `result` makes a result of it; `pick` finds its cotangent."""

    def forward(ctx, x):
        ctx.save_for_backward(x)
        return result(np.sin(x.numpy()))

    def backward(ctx, *gs):
        (x,) = ctx.saved_tensors
        return pick(gs) * ag.cos(x)

    return simple(backward, forward)


RESULTS = {
    "an array": (lambda y: y, lambda r: r, lambda gs: gs[0]),
    "a scalar of NumPy": (lambda y: y.sum(), lambda r: r, lambda gs: gs[0]),
    "a float": (lambda y: float(y.sum()), lambda r: r, lambda gs: gs[0]),
    "a list of floats": (lambda y: y.tolist(), lambda r: r, lambda gs: gs[0]),
    "a list of scalars": (list, lambda r: r, lambda gs: gs[0]),
    "in a dict": (lambda y: {"n": 3, "y": y}, lambda r: r["y"], lambda gs: gs[0]["y"]),
    "in a list": (lambda y: [y, 3.0], lambda r: r[0], lambda gs: gs[0][0]),
    "in a dataclass": (lambda y: Affine(y, None), lambda r: r.weight, lambda gs: gs[0].weight),
    "second of several": (lambda y: (3, y), lambda r: r[1], lambda gs: gs[1]),
}


@pytest.mark.parametrize(("result", "found", "pick"), RESULTS.values(), ids=RESULTS)
def test_arrays_are_results(result, found, pick):
    x = leaf(0.5, 1.5)
    y = found(numpy_sine(result, pick).apply(x))
    assert y.requires_grad
    assert y.sum().item() == pytest.approx(np.sin([0.5, 1.5]).sum())
    assert ag.grad(y.sum(), x)[0].tolist() == pytest.approx(np.cos([0.5, 1.5]).tolist())
    f = lambda x: found(numpy_sine(result, pick).apply(x))
    assert gradcheck(f, (x,))
    assert gradgradcheck(f, (x,))
    assert isinstance(found(numpy_sine(result, pick).apply(x.detach())), ag.Tensor)


def test_what_stands_beside_arrays_passes_through():
    beside = (3, True, None, "text", 2.5, [1.0, 2.0], {"n": 1.5}, np.int64(3), np.bool_(False))
    results = numpy_sine(lambda y: (*beside, y), lambda gs: gs[-1]).apply(leaf(1.0))
    assert results[:-1] == beside
    assert all(type(a) is type(b) for a, b in zip(results, beside, strict=False))
    assert results[-1].requires_grad


def test_integer_arrays_are_results_without_a_derivative():
    y, order = numpy_sine(lambda y: (y, np.argsort(y))).apply(leaf(2.0, 1.0))
    assert y.requires_grad
    assert not order.requires_grad
    assert order.tolist() == [1, 0]


def test_one_array_returned_twice_is_one_result():
    a, b = numpy_sine(lambda y: (y, y)).apply(leaf(1.0))
    assert a is b


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_floats_have_the_precision_of_the_operands(dtype):
    x = ag.tensor([1.0], dtype=dtype, requires_grad=True)
    assert numpy_sine(lambda y: float(y.sum())).apply(x).dtype == dtype
    assert numpy_sine(lambda y: [float(y.sum())] * 2).apply(x).dtype == dtype
    z = ag.astype(x, "complex64")
    assert numpy_sine(lambda y: complex(y.sum())).apply(z).dtype == "complex64"
    assert numpy_sine(lambda y: abs(complex(y.sum()))).apply(z).dtype == "float32"


@pytest.mark.parametrize("result", [lambda y: 3, lambda y: None, lambda y: y.astype(int), lambda y: (1.5, "a")])
def test_a_call_without_a_differentiable_result_raises(result):
    F = numpy_sine(result)
    with pytest.raises(
        RuntimeError, match=r"(?s)F gave no result that has a derivative \(but .*mark_non_differentiable"
    ) as e:
        F.apply(leaf(1.0))
    assert __file__ in str(e.value)
    F.apply(ag.tensor([1.0]))
    with ag.no_grad():
        F.apply(leaf(1.0))
    with pytest.raises(RuntimeError, match="gave no result that has a derivative"):
        ag.func.jvp(F.apply, (ag.tensor([1.0]),), (ag.tensor([1.0]),))


def test_results_that_are_marked_may_be_anything():
    def forward(ctx, x):
        y = np.sign(x.numpy())
        ctx.mark_non_differentiable(y)
        return y

    y = simple(None, forward).apply(leaf(1.0))
    assert y.tolist() == [1.0]
    assert not y.requires_grad


@pytest.mark.parametrize("array", [np.array([1.5], dtype=object), np.array(["a"]), np.ma.masked_array([1.0], [True])])
def test_arrays_of_no_numbers_are_refused_as_results(array):
    with pytest.raises(TypeError, match="can't convert"):
        simple(None, lambda ctx, x: array).apply(leaf(1.0))


class NumpyExp(Function):
    """By NumPy in both directions."""

    @staticmethod
    def forward(ctx, x):
        y = np.exp(x.numpy())
        ctx.y = y
        return y

    @staticmethod
    def backward(ctx, g):
        return g.detach().numpy() * ctx.y

    @staticmethod
    def jvp(ctx, t):
        return t.detach().numpy() * ctx.y


def test_gradients_and_tangents_may_be_arrays():
    x = leaf(0.5, 1.5)
    expected = np.exp([0.5, 1.5]).tolist()
    assert ag.grad(NumpyExp.apply(x).sum(), x)[0].tolist() == pytest.approx(expected)
    assert ag.grad(NumpyExp.apply(x).sum(), x, create_graph=True)[0].tolist() == pytest.approx(expected)
    _, tangent = ag.func.jvp(NumpyExp.apply, (x.detach(),), (ag.ones(2),))
    assert tangent.tolist() == pytest.approx(expected)


class HalfNumpyExp(NumpyExp):
    """Cotangents and tangents keep their history, the array it kept has none."""

    @staticmethod
    def backward(ctx, g):
        return g * ctx.y

    jvp = backward


@pytest.mark.parametrize("F", [NumpyExp, HalfNumpyExp])
def test_differentiating_what_arrays_gave_raises(F):
    x, one = scalar(0.5), ag.tensor(1.0)
    f = F.apply
    along = lambda x: ag.func.jvp(f, (x,), (one,))[1]
    at = x.detach()
    for twice in (
        lambda: ag.grad(ag.grad(f(x), x, create_graph=True)[0], x),
        lambda: ag.func.grad(ag.func.grad(f))(at),
        lambda: ag.func.grad(along)(at),
        lambda: ag.func.jvp(along, (at,), (one,)),
        lambda: ag.func.jvp(ag.func.grad(f), (at,), (one,)),
        lambda: gradgradcheck(f, (x,)),
    ):
        with pytest.raises(RuntimeError, match="history is unknown: differentiating it would lose a term"):
            twice()


def test_an_array_kept_on_ctx_says_nothing_of_the_cotangents():
    _, push = ag.func.linearize(HalfNumpyExp.apply, ag.tensor(0.5))
    assert push(ag.tensor(2.0)).item() == pytest.approx(2 * np.exp(0.5))


def test_own_vmap_that_gives_an_array():
    class F(NumpyExp):
        @staticmethod
        def vmap(info, in_dims, x):
            return np.exp(x.numpy()), 0

    with pytest.raises(TypeError, match="the vmap of F returned ndarray, not a Tensor"):
        ag.func.vmap(F.apply)(ag.ones(3))


def test_the_first_of_several_results_may_be_no_tensor():
    F = simple(lambda ctx, g_text, g: g * 3, lambda ctx, x: ("text", x * 3))
    x = leaf(1.0, 2.0)
    text, y = F.apply(x)
    assert text == "text"
    assert ag.view.graph(y) is not None
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    g = ag.func.vmap(lambda v: ag.grad(F.apply(x)[1], x, v)[0])(ag.eye(2))
    assert g.tolist() == [[3.0, 0.0], [0.0, 3.0]]


# -- results that jvp uses --------------------------------------------------------------------------------------------


class ExpSaved(Function):
    @staticmethod
    def forward(ctx, x):
        y = ag.asarray(np.exp(x.numpy()))
        ctx.save_for_backward(y)
        ctx.save_for_forward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y

    jvp = backward


class ExpKept(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.y = ag.asarray(np.exp(x.numpy()))
        return ctx.y

    @staticmethod
    def backward(ctx, g):
        return g * ctx.y

    jvp = backward


class ExpContext(ExpSaved):
    @staticmethod
    def forward(x):
        return np.exp(x.numpy())

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)


@pytest.mark.parametrize("F", [ExpSaved, ExpKept, ExpContext])
@pytest.mark.parametrize(
    "transforms", ["f", "r", "rf", "fr", "ff", "rr", "rrf", "rfr", "frf", "ffr", "rff", "frr", "fff"]
)
def test_results_kept_for_jvp_have_their_history(F, transforms):
    def deriving(f, how):
        return ag.func.grad(f) if how == "r" else lambda x: ag.func.jvp(f, (x,), (ag.tensor(1.0),))[1]

    f = F.apply
    for how in reversed(transforms):
        f = deriving(f, how)
    assert f(ag.tensor(0.5)).item() == pytest.approx(np.exp(0.5))
    with ag.autograd.graph.saved_tensors_hooks(lambda t: t.numpy(), ag.asarray):
        assert f(ag.tensor(0.5)).item() == pytest.approx(np.exp(0.5))


def test_results_kept_for_jvp_in_a_dual_level():
    x = scalar(0.5)
    with ag.autograd.forward_ad.dual_level():
        y = ExpSaved.apply(ag.autograd.forward_ad.make_dual(x, ag.tensor(3.0)))
        tangent = ag.autograd.forward_ad.unpack_dual(y).tangent
        (g,) = ag.grad(tangent, x)
    assert g.item() == pytest.approx(3 * np.exp(0.5))


@pytest.mark.parametrize("transforms", ["rf", "rff", "rfr", "frf"])
def test_what_is_saved_for_jvp_and_is_no_result_raises(transforms):
    class Sine(ExpSaved):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(ag.cos(x))
            return ag.sin(x)

    f = Sine.apply
    for how in reversed(transforms):
        f = ag.func.grad(f) if how == "r" else lambda x, f=f: ag.func.jvp(f, (x,), (ag.tensor(1.0),))[1]
    with pytest.raises(RuntimeError, match="neither an input nor an output"):
        f(ag.tensor(0.5))


def test_tangents_are_checked():
    def called(jvp):
        F = type("F", (ExpSaved,), {"jvp": staticmethod(jvp)})
        return ag.func.jvp(F.apply, (ag.ones(2),), (ag.ones(2),))

    with pytest.raises(RuntimeError, match=r"returned an incorrect number of tangents \(expected 1, got 2\)"):
        called(lambda ctx, t: (t, t))
    with pytest.raises(RuntimeError, match=r"expected Variable or None \(got float\)"):
        called(lambda ctx, t: 2.0)


# -- containers -------------------------------------------------------------------------------------------------------


@dataclass
class Affine:
    weight: object
    bias: object = None


class Layers(Function):
    """x through weights and biases, as a dict of the result of each layer; all in one node."""

    @staticmethod
    def forward(ctx, x, layers, *, scale=1.0):
        ctx.scale = scale
        ctx.needs = ctx.needs_input_grad
        results, values = {}, []
        for i, layer in enumerate(layers["all"]):
            values += [x, layer.weight]
            x = x * layer.weight * scale + (0.0 if layer.bias is None else layer.bias)
            results[f"layer {i}"] = x
        ctx.save_for_backward(*values[1::2], values[0])
        ctx.biased = [layer.bias is not None for layer in layers["all"]]
        return results

    @staticmethod
    def backward(ctx, gs):
        *weights, x = ctx.saved_tensors
        inputs = [x]
        for w in weights[:-1]:  # no biases but in the last layer, in these tests
            inputs.append(inputs[-1] * w * ctx.scale)
        found, g = [], None
        for i, (w, x) in reversed(list(enumerate(zip(weights, inputs, strict=True)))):
            g = gs[f"layer {i}"] if g is None else g + gs[f"layer {i}"]
            found.insert(0, Affine(g * x * ctx.scale, g if ctx.biased[i] else None))
            g = g * w * ctx.scale
        return g, {"all": tuple(found)}, None

    @staticmethod
    def jvp(ctx, t, layers, _scale=None):
        *weights, x = ctx.saved_tensors
        results = {}
        for i, (w, layer) in enumerate(zip(weights, layers["all"], strict=True)):
            t = (t * w + x * layer.weight) * ctx.scale + (0.0 if layer.bias is None else layer.bias)
            x = x * w * ctx.scale
            results[f"layer {i}"] = t
        return (results,)


def by_hand(x, layers, scale):
    results = {}
    for i, layer in enumerate(layers["all"]):
        x = x * layer.weight * scale + (0.0 if layer.bias is None else layer.bias)
        results[f"layer {i}"] = x
    return results


def test_containers_of_arguments_and_results():
    x, v, w, b = leaf(1.0, 2.0), leaf(3.0, 4.0), leaf(5.0, 6.0), leaf(7.0, 8.0)
    layers = {"all": (Affine(v), Affine(w, b))}
    found, expected = Layers.apply(x, layers, scale=2.0), by_hand(x, layers, 2.0)
    assert {k: r.tolist() for k, r in found.items()} == {k: r.tolist() for k, r in expected.items()}
    node = found["layer 1"].grad_fn
    assert node.name() == "LayersBackward"
    assert node.needs == (True, True, False)
    assert [n.variable for n, _ in node.next_functions] == [x, v, w, b]

    def gradients(results):
        loss = (results["layer 0"] ** 2 + results["layer 1"]).sum()
        first = ag.grad(loss, (x, v, w, b), create_graph=True)
        second = ag.grad(sum((g**2).sum() for g in first), (x, v, w, b), materialize_grads=True)
        return [[g.tolist() for g in gs] for gs in (first, second)]

    assert gradients(found) == gradients(expected)
    (only,) = ag.grad(Layers.apply(x, layers)["layer 0"].sum(), v)  # nothing arrives at layer 1
    assert only.tolist() == [1.0, 2.0]


def test_containers_against_finite_differences():
    def f(x, v, w, b):
        return tuple(Layers.apply(x, {"all": (Affine(v), Affine(w, b))}).values())

    values = (leaf(0.5, 1.0), leaf(0.3, -0.4), leaf(-1.5, 0.6), leaf(0.7, 0.8))
    assert ag.autograd.gradcheck(f, values, check_forward_ad=True)
    assert ag.autograd.gradgradcheck(f, values)


TWO = ag.tensor(2.0)


def test_containers_with_setup_context_and_defaults():
    class Sum(Function):
        @staticmethod
        def forward(parts, scale=TWO):
            return [sum(parts) * scale, "note"]

        @staticmethod
        def setup_context(ctx, inputs, output):
            parts, scale = inputs
            ctx.count, ctx.seen = len(parts), (ctx.needs_input_grad, output[1])
            ctx.save_for_backward(scale)

        @staticmethod
        def backward(ctx, gs):
            g, note = gs
            assert note is None
            return [g * ctx.saved_tensors[0]] * ctx.count, None

    x, y = leaf(1.0), leaf(2.0)
    total, note = Sum.apply([x, ag.ones(1), y])
    assert (total.tolist(), note, total.grad_fn.seen) == ([8.0], "note", ((True, False), "note"))
    assert [g.tolist() for g in ag.grad(total, (x, y))] == [[2.0], [2.0]]
    assert not Sum.apply([ag.ones(1)])[0].requires_grad
    assert [g.tolist() for g in ag.grad(Sum.apply([x, x])[0], x)] == [[4.0]]


def test_containers_may_lack_gradients():
    F = simple(lambda ctx, g: ([g * 2, None], None), lambda ctx, pair, mask: pair[0] * 2 + pair[1] * mask[0])
    x, y = leaf(1.0), leaf(2.0)
    assert ag.grad(F.apply([x, y], (y,)), (x, y), allow_unused=True)[1] is None
    # what holds no tensors stays as it is: one gradient, None
    shaped = simple(lambda ctx, g: (g, None), lambda ctx, x, shape: x + ag.zeros(shape))
    assert ag.grad(shaped.apply(x, (1,)).sum(), x)[0].tolist() == [1.0]


def test_the_gradient_of_an_only_argument():
    for gradients in (
        lambda g: [g, g * 2],
        lambda g: ([g, g * 2],),
        lambda g: ([g, g * 2], None),
        lambda g: [[g, g * 2]],
    ):
        F = simple(lambda ctx, g, gradients=gradients: gradients(g), lambda ctx, pair: pair[0] + pair[1] * 2)
        x, y = leaf(1.0), leaf(2.0)
        F.apply([x, y]).sum().backward()
        assert (x.grad.tolist(), y.grad.tolist()) == ([1.0], [2.0])


def test_gradients_of_another_structure():
    for gradients, message in (
        (lambda g: (g, g), "function FBackward returned a gradient at index 0 of another structure"),
        (lambda g: ([g], g), "length 1, not 2"),
        (lambda g: ((g, g), g), "a tuple, not a list"),
        (lambda g: ([g, 3], g), "expected Variable or None (got int)"),
        (lambda g: ([g, g],), "incorrect number of gradients (expected 2, got 1)"),
        (lambda g: ([g, g], g, g), "incorrect number of gradients (expected 2, got 3)"),
    ):
        F = simple(lambda ctx, g, f=gradients: f(g), lambda ctx, pair, z: pair[0] + pair[1] + z)
        x = leaf(1.0)
        with pytest.raises(RuntimeError, match=re.escape(message)):
            F.apply([x, x], x).sum().backward()
        assert x.grad is None


def test_containers_once_differentiable():
    F = simple(once_differentiable(lambda ctx, g: ([g * 2, g],)), lambda ctx, pair: pair[0] * 2 + pair[1])
    x, y = leaf(1.0), leaf(2.0)
    g, _ = ag.grad(F.apply([x, y]).sum(), (x, y), create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate twice a function that was marked with @once_differentiable"):
        g.sum().backward()


def test_containers_under_vmap():
    class Weighted(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(ctx, parts):
            ctx.save_for_backward(parts["x"], parts["w"])
            return {"y": parts["x"] * parts["w"]}

        @staticmethod
        def backward(ctx, gs):
            x, w = ctx.saved_tensors
            return {"x": gs["y"] * w, "w": gs["y"] * x}

    class Own(Weighted):
        generate_vmap_rule = False

        @staticmethod
        def vmap(info, in_dims, parts):
            assert in_dims == ({"w": None, "x": 0},)
            return Weighted.apply({"x": parts["x"], "w": parts["w"]})["y"], 0

    xs, w = ag.tensor([[1.0, 2.0], [3.0, 4.0]]), ag.tensor([5.0, 6.0])
    f = lambda x, w: Weighted.apply({"x": x, "w": w})["y"].sum()
    assert ag.func.vmap(ag.func.grad(f, argnums=(0, 1)), in_dims=(0, None))(xs, w)[1].tolist() == xs.tolist()
    own = ag.func.vmap(lambda x: Own.apply({"x": x, "w": w}))(xs)
    assert own.tolist() == (xs * w).tolist()


# -- needs_input_grad -------------------------------------------------------------------------------------------------


def test_needs_input_grad():
    seen = []

    def forward(ctx, x, y, k, z):
        seen.append(ctx.needs_input_grad)
        return x * 1

    def backward(ctx, g):
        seen.append(ctx.needs_input_grad)
        return g, None, None, None

    F = simple(backward, forward)
    F.apply(leaf(1.0), ag.tensor([1.0]), 3.0, leaf(2.0)).sum().backward()
    assert seen == [(True, False, False, True)] * 2


def test_gradients_that_nobody_needs_are_ignored():
    F = simple(lambda ctx, g: (g * 2, ag.ones(7)))
    x = leaf(1.0)
    F.apply(x, ag.tensor([1.0])).sum().backward()
    assert x.grad.tolist() == [2.0]


# -- save_for_backward, saved_tensors, attributes ---------------------------------------------------------------------


def test_saved_inputs_and_outputs_come_back_with_history():
    seen = {}

    def forward(ctx, x, c):
        y = x * c
        ctx.save_for_backward(x, c, y, None)
        return y

    def backward(ctx, g):
        x, c, y, nothing = ctx.saved_tensors
        seen.update(x=x, c=c, y=y, nothing=nothing)
        return g * c, None

    x, c = leaf(2.0), ag.tensor([3.0])
    y = simple(backward, forward).apply(x, c)
    y.sum().backward()
    assert seen["nothing"] is None
    assert (seen["x"].requires_grad, seen["x"].is_leaf, seen["x"].tolist()) == (True, True, [2.0])
    assert not seen["c"].requires_grad
    assert seen["y"].grad_fn is y.grad_fn
    assert seen["y"].tolist() == [6.0]


def test_saved_tensors_within_the_call():
    def forward(ctx, x):
        ctx.save_for_backward(x)
        assert ctx.saved_tensors[0] is x
        return x * 1

    assert simple(None, forward).apply(leaf(1.0)).tolist() == [1.0]


@pytest.mark.parametrize("wrong", [3, "text", [ag.ones(1)], np.ones(1)])
def test_save_for_backward_takes_tensors_only(wrong):
    kind = type(wrong).__name__
    F = simple(None, lambda ctx, x: ctx.save_for_backward(x, wrong))
    with pytest.raises(TypeError, match=f"save_for_backward can only save variables, but argument 1 is of type {kind}"):
        F.apply(leaf(1.0))
    F = simple(None, lambda ctx, x: ctx.save_for_forward(x, wrong))
    with pytest.raises(TypeError, match="save_for_forward expects all arguments to be tensors"):
        F.apply(leaf(1.0))


def test_saved_tensors_are_freed():
    x = leaf(1.0)
    y = Cube.apply(x)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time") as info:
        y.sum().backward()
    assert "CubeBackward" in str(info.value)
    assert __file__ in str(info.value)
    with pytest.raises(RuntimeError, match="directly access saved tensors after they have already been freed"):
        y.grad_fn.saved_tensors
    assert x.grad.tolist() == [6.0]


def test_a_function_that_saves_nothing_may_run_again():
    x = leaf(1.0)
    y = simple(lambda ctx, g: g * 2).apply(x)
    y.sum().backward()
    y.sum().backward()
    assert x.grad.tolist() == [4.0]


def test_saved_values_are_those_of_the_call():
    x = leaf(2.0)
    y = Cube.apply(x)
    with ag.no_grad():
        x.fill_(100.0)
    (g,) = ag.grad(y.sum(), x, create_graph=True)
    assert g.tolist() == [12.0]
    assert ag.grad(g.sum(), x)[0].tolist() == [12.0]


def test_attributes_of_ctx():
    x = leaf(2.0)
    y = simple(lambda ctx, g: g * ctx.k, lambda ctx, x: setattr(ctx, "k", 5.0) or x * 5.0).apply(x)
    assert y.grad_fn.k == 5.0
    with pytest.raises(AttributeError, match="no attribute 'other'"):
        y.grad_fn.other
    y.sum().backward()
    assert x.grad.tolist() == [5.0]


class Exp(Function):
    """Keeps its input and output as attributes, which PyTorch's guide warns of."""

    @staticmethod
    def forward(ctx, x):
        ctx.x = x
        ctx.y = ag.exp(x)
        return ctx.y

    @staticmethod
    def backward(ctx, g):
        assert ctx.x.tolist() == [0.0, 1.0]
        return g * ctx.y


def test_inputs_and_outputs_kept_as_attributes_have_history_and_their_value():
    x = leaf(0.0, 1.0)
    y = Exp.apply(x)
    with ag.no_grad():
        x += 5.0
    y.detach_()
    y = Exp.apply(leaf_again := leaf(0.0, 1.0))
    with ag.no_grad():
        leaf_again += 5.0
        y *= 100.0
    (g,) = ag.grad(y.sum(), leaf_again, create_graph=True)
    assert g.tolist() == pytest.approx([1.0, np.e])
    (h,) = ag.grad(g.sum(), leaf_again)
    assert h.tolist() == pytest.approx([1.0, np.e])


# -- what is returned -------------------------------------------------------------------------------------------------


def test_returning_an_input():
    x = leaf(1.0, 2.0)
    F = simple(lambda ctx, g: g * 10, lambda ctx, x: x)
    y = F.apply(x)
    assert y is not x
    assert x.is_leaf
    assert y.grad_fn.name() == "FBackward"
    y.sum().backward()
    assert x.grad.tolist() == [10.0, 10.0]


def test_returning_one_tensor_twice():
    x = leaf(1.0)

    def forward(ctx, x):
        y = x * 2
        return y, y

    F = simple(lambda ctx, g1, g2: g1 * 2 + g2 * 100, forward)
    a, b = F.apply(x)
    assert a is b
    a.sum().backward()
    assert x.grad.tolist() == [2.0]


def test_results_of_other_dtypes():
    def forward(ctx, x):
        return x * 2, ag.argmax(x)

    def backward(ctx, g, g_index):
        assert g_index.tolist() == 0
        assert g_index.dtype == ag.int64
        return g * 2

    x = leaf(1.0, 3.0)
    y, index = simple(backward, forward).apply(x)
    assert not index.requires_grad
    assert index.item() == 1
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_mark_non_differentiable():
    def forward(ctx, x):
        a, b = x * 2, x * 3
        ctx.mark_non_differentiable(b)
        return a, b

    def backward(ctx, ga, gb):
        assert gb.tolist() == [0.0]
        return ga * 2

    x = leaf(1.0)
    a, b = simple(backward, forward).apply(x)
    assert a.requires_grad
    assert not b.requires_grad
    a.sum().backward()
    assert x.grad.tolist() == [2.0]
    F = simple(None, lambda ctx, x: ctx.mark_non_differentiable(3))
    with pytest.raises(RuntimeError, match="mark_non_differentiable only accepts variable arguments, but got"):
        F.apply(x)


def test_mark_non_differentiable_of_the_only_result():
    def forward(ctx, x):
        ctx.mark_non_differentiable(x)
        return x

    assert not simple(None, forward).apply(leaf(1.0) * 1).requires_grad


def test_mark_dirty():
    def forward(ctx, x):
        x.mul_(2.0)
        ctx.mark_dirty(x)
        return x

    F = simple(lambda ctx, g: g * 2, forward)
    x = leaf(1.0, 2.0)
    y = x * 1
    y.retain_grad()
    assert F.apply(y) is y
    assert y.tolist() == [2.0, 4.0]
    assert y.grad_fn.name() == "FBackward"
    (y * 5).sum().backward()
    assert x.grad.tolist() == [10.0, 10.0]
    assert y.grad.tolist() == [5.0, 5.0]


def test_mark_dirty_of_a_saved_input_saves_the_result():
    class SquareInPlace(Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(x)
            ctx.mark_dirty(x)
            ctx.save_for_backward(x)
            return x

        @staticmethod
        def backward(ctx, g):
            (result,) = ctx.saved_tensors
            return 2 * ag.sqrt(result) * g

    x = leaf(3.0)
    y = x * 1
    SquareInPlace.apply(y)
    assert y.tolist() == [9.0]
    (g,) = ag.grad(y.sum(), x, create_graph=True)
    assert g.tolist() == [6.0]
    assert ag.grad(g.sum(), x)[0].tolist() == [2.0]


def test_mark_dirty_under_no_grad_keeps_history():
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x

    y = leaf(1.0) * 1
    node = y.grad_fn
    with ag.no_grad():
        simple(None, forward).apply(y)
    assert y.grad_fn is node


def test_mark_dirty_is_checked():
    def forward(ctx, x, returned):
        ctx.mark_dirty(x)
        return x if returned else x * 1

    F = simple(None, forward)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad has been used in an in-place operation"):
        F.apply(leaf(1.0), True)
    with pytest.raises(RuntimeError, match="Some elements marked as dirty during the forward method were not returned"):
        F.apply(leaf(1.0) * 1, False)
    with pytest.raises(RuntimeError, match="mark_dirty can only accept variables"):
        simple(None, lambda ctx, x: ctx.mark_dirty(3)).apply(leaf(1.0))


# -- undefined gradients ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("materialize", [True, False])
def test_undefined_gradients(materialize):
    seen = []

    def forward(ctx, x):
        ctx.set_materialize_grads(materialize)
        return x * 2, x * 3

    def backward(ctx, a, b):
        seen.append([g if g is None else g.tolist() for g in (a, b)])
        return b * 3

    x = leaf(1.0, 2.0)
    _, b = simple(backward, forward).apply(x)
    (b * 10).sum().backward()
    assert seen == [[[0.0, 0.0] if materialize else None, [10.0, 10.0]]]
    assert x.grad.tolist() == [30.0, 30.0]


def test_none_flows_as_nothing():
    F = simple(lambda ctx, a: None)
    x, w = leaf(1.0), leaf(2.0)
    y = x * 3
    (F.apply(y) + w).sum().backward()
    assert x.grad is None
    assert w.grad.tolist() == [1.0]
    (F.apply(x * 3) + x * 5).sum().backward()
    assert x.grad.tolist() == [5.0]
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
        ag.grad(F.apply(x * 3).sum(), x)
    assert ag.grad(F.apply(x * 3).sum(), x, materialize_grads=True)[0].tolist() == [0.0]


def test_none_for_one_of_several_inputs():
    F = simple(lambda ctx, g: (None, g * 7), lambda ctx, x, y: x + y)
    x, y = leaf(1.0), leaf(2.0)
    F.apply(x, y).sum().backward()
    assert x.grad is None
    assert y.grad.tolist() == [7.0]


# -- what backward returns is checked ---------------------------------------------------------------------------------


def too_few(ctx, g):
    return g


#: backward, arguments beside x, message.
WRONG = {
    "too few": (
        lambda ctx, g: g,
        (1.0,),
        r"function FBackward returned an incorrect number of gradients \(expected 2, got 1\)",
    ),
    "too many": (
        lambda ctx, g: (g, g),
        (),
        r"function FBackward returned an incorrect number of gradients \(expected 1, got 2\)",
    ),
    "none at all": (lambda ctx, g: (), (), r"incorrect number of gradients \(expected 1, got 0\)"),
    "for a number": (
        lambda ctx, g: (g, g),
        (3.0,),
        "returned a gradient different than None at position 2, but the corresponding forward input was not a Variable",
    ),
    "wrong shape": (
        lambda ctx, g: ag.ones(3),
        (),
        r"Function FBackward returned an invalid gradient at index 0 - got \[3\] but expected shape compatible with",
    ),
    "wrong shape, fewer axes": (lambda ctx, g: ag.ones(()), (), r"got \[\] but expected shape compatible with \[2\]"),
    "wrong shape of the second": (
        lambda ctx, g: (g, ag.ones(3)),
        (ag.tensor([1.0, 2.0], requires_grad=True),),
        r"an invalid gradient at index 1 - got \[3\] but expected shape compatible with \[2\]",
    ),
    "a number": (lambda ctx, g: 1.0, (), r"expected Variable or None \(got float\)"),
    "an array of a wrong shape": (
        lambda ctx, g: np.ones(3),
        (),
        r"Function FBackward returned an invalid gradient at index 0 - got \[3\] but expected shape compatible with",
    ),
}


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize(("backward", "others", "message"), WRONG.values(), ids=WRONG)
def test_gradients_are_checked(backward, others, message, create_graph):
    x = leaf(1.0, 2.0)
    F = simple(backward)
    y = F.apply(x, *others)
    line = inspect.currentframe().f_lineno - 1
    with pytest.raises(RuntimeError, match=message) as info:
        y.sum().backward(create_graph=create_graph)
    assert f"{__file__}:{line}" in str(info.value)
    assert "FBackward" in str(info.value)
    assert x.grad is None


def test_trailing_nones_and_lists_are_accepted():
    x = leaf(1.0)
    simple(lambda ctx, g: (g * 2, None, None)).apply(x).sum().backward()
    assert x.grad.tolist() == [2.0]
    simple(lambda ctx, g: [g * 2]).apply(x).sum().backward()
    assert x.grad.tolist() == [4.0]
    y = leaf(1.0)
    simple(lambda ctx, g: [g * 2, g * 3], lambda ctx, a, b: a * 2 + b * 3).apply(x, y).sum().backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([6.0], [3.0])


@pytest.mark.parametrize("create_graph", [False, True])
def test_broadcastable_gradients_are_reduced(create_graph):
    x = ag.ones((2, 1), requires_grad=True)
    y = simple(lambda ctx, g: ag.ones((4, 2, 3)) * 2).apply(x)
    (g,) = ag.grad(y.sum(), x, create_graph=create_graph)
    assert g.tolist() == [[24.0], [24.0]]


def test_dtypes_of_gradients_are_cast():
    x = leaf(1.0)
    simple(lambda ctx, g: ag.astype(g, ag.float32)).apply(x).sum().backward()
    assert x.grad.dtype == ag.float64


def test_complex_gradients_of_real_inputs_are_projected():
    x = leaf(1.0, 2.0)
    simple(lambda ctx, g: g * (2 + 3j)).apply(x).sum().backward()
    assert x.grad.dtype == ag.float64
    assert x.grad.tolist() == [2.0, 2.0]


def test_real_gradients_of_complex_inputs():
    z = ag.tensor([1 + 2j], requires_grad=True)
    F = simple(lambda ctx, g: g * 5, lambda ctx, z: ag.real(z))
    F.apply(z).sum().backward()
    assert z.grad.dtype == ag.complex128
    assert z.grad.tolist() == [5 + 0j]


# -- missing methods --------------------------------------------------------------------------------------------------


def test_forward_not_implemented():
    class F(Function):
        pass

    with pytest.raises(
        NotImplementedError, match=r"You must implement the forward function for custom autograd.Function"
    ):
        F.apply(leaf(1.0))
    assert ag.is_grad_enabled()


def test_backward_not_implemented():
    class F(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    with pytest.raises(NotImplementedError, match="You must implement either the backward or vjp method"):
        F.apply(leaf(1.0)).sum().backward()


def test_both_backward_and_vjp():
    class F(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g

        @staticmethod
        def vjp(ctx, g):
            return g

    with pytest.raises(
        RuntimeError, match="Implementing both 'backward' and 'vjp' for a custom Function is not allowed"
    ):
        F.apply(leaf(1.0)).sum().backward()


def test_a_function_is_not_instantiated():
    with pytest.raises(
        TypeError, match=r"Cube should not be instantiated. Methods on autograd functions are all static"
    ):
        Cube()


# -- higher orders ----------------------------------------------------------------------------------------------------


def test_third_order():
    x = scalar(2.0)
    (g,) = ag.grad(Cube.apply(x), x, create_graph=True)
    (h,) = ag.grad(g, x, create_graph=True)
    (k,) = ag.grad(h, x)
    assert (g.item(), h.item(), k.item()) == (12.0, 12.0, 6.0)


def test_second_order_through_several_results():
    x, y = scalar(3.0), scalar(5.0)
    product, total, _ = Split.apply(x, y)
    gx, gy = ag.grad(product * total, (x, y), create_graph=True)
    # 2 x y (x + y): by x 4 x y + 2 y^2, by y 4 x y + 2 x^2
    assert (gx.item(), gy.item()) == (110.0, 78.0)
    hxx, hxy = ag.grad(gx, (x, y), retain_graph=True)
    assert (hxx.item(), hxy.item()) == (20.0, 32.0)
    assert ag.grad(gy, y)[0].item() == 12.0


def test_second_order_by_a_saved_result():
    class Exp(Function):
        @staticmethod
        def forward(ctx, x):
            y = ag.exp(x)
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    x = scalar(0.0)
    y = Exp.apply(x)
    for _ in range(3):
        (y,) = ag.grad(y, x, create_graph=True)
    assert y.item() == 1.0


class SinWithIntermediate(Function):
    """Saves cos(x), which is neither input nor output."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(ag.cos(x), x > 0)
        return ag.sin(x)

    @staticmethod
    def backward(ctx, g):
        c, positive = ctx.saved_tensors
        assert positive.dtype == ag.bool
        return g * c


def test_saved_intermediates_serve_first_order():
    x = scalar(0.0)
    y = SinWithIntermediate.apply(x)
    y.backward(retain_graph=True)
    assert x.grad.item() == 1.0
    assert ag.grad(y, x, create_graph=True)[0].item() == 1.0


def test_saved_intermediates_raise_rather_than_lose_a_term():
    x = scalar(0.5)
    y = SinWithIntermediate.apply(x) + x**3
    line = inspect.currentframe().f_lineno - 1
    (g,) = ag.grad(y, x, create_graph=True)
    with pytest.raises(RuntimeError, match="neither an input nor an output, so its history is unknown") as info:
        ag.grad(g, x)
    assert f"{__file__}:{line}" in str(info.value)
    (g,) = ag.grad(SinWithIntermediate.apply(x), x, create_graph=True)
    with pytest.raises(RuntimeError, match="neither an input nor an output"):
        g.backward()
    assert x.grad is None


class OnceCube(Cube):
    backward = staticmethod(once_differentiable(Cube.backward))


def test_once_differentiable():
    x = scalar(2.0)
    (g,) = ag.grad(OnceCube.apply(x), x)
    assert g.item() == 12.0
    assert not g.requires_grad


@pytest.mark.parametrize("other", [lambda x: 0 * x, lambda x: x**3])
def test_once_differentiable_twice(other):
    x = scalar(2.0)
    y = OnceCube.apply(x) + other(x)
    line = inspect.currentframe().f_lineno - 1
    (g,) = ag.grad(y, x, create_graph=True)
    message = "trying to differentiate twice a function that was marked with @once_differentiable"
    for differentiate in (lambda: ag.grad(g, x, retain_graph=True), lambda: g.backward()):
        with pytest.raises(RuntimeError, match=message) as info:
            differentiate()
        assert "OnceCubeBackward" in str(info.value)
        assert f"{__file__}:{line}" in str(info.value)
    assert x.grad is None


def test_once_differentiable_by_its_cotangent():
    x, v = scalar(2.0), scalar(1.0)
    (g,) = ag.grad(OnceCube.apply(x), x, v, create_graph=True)
    with pytest.raises(RuntimeError, match="trying to differentiate twice"):
        ag.grad(g, v)


def test_once_differentiable_runs_without_recording():
    modes = []

    class F(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            modes.append(ag.is_grad_enabled())
            return g * 2, None

    x = scalar(1.0)
    assert ag.grad(F.apply(x), x, create_graph=True)[0].item() == 2.0
    assert modes == [False]


def test_backward_may_be_recorded_and_differentiate_itself():
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            with ag.enable_grad():  # re-entrant: a backward within a backward
                inner = x.detach().requires_grad_()
                (slope,) = ag.grad((inner * inner).sum(), inner)
            return g * slope

    x = leaf(1.0, 3.0)
    Double.apply(x).sum().backward()
    assert x.grad.tolist() == [2.0, 6.0]


@pytest.mark.parametrize("create_graph", [False, True])
def test_backward_that_changes_its_cotangent_in_place_changes_no_other(create_graph):
    def backward(ctx, g):
        g *= 10
        return g

    x, w = leaf(1.0), leaf(1.0)
    y = simple(backward, lambda ctx, x: x * 10).apply(x)
    v = ag.tensor([1.0])
    gx, gw = ag.grad(y + w, (x, w), v, create_graph=create_graph)
    assert (gx.tolist(), gw.tolist(), v.tolist()) == ([10.0], [1.0], [1.0])


# -- exceptions -------------------------------------------------------------------------------------------------------


def test_exceptions_keep_their_type_and_traceback():
    def backward(ctx, g):
        raise KeyError("boom")

    x = leaf(1.0)
    with pytest.raises(KeyError, match="boom") as info:
        simple(backward).apply(x).sum().backward()
    assert any(entry.name == "backward" and str(entry.path) == __file__ for entry in info.traceback)
    assert ag.is_grad_enabled()
    assert x.grad is None


# -- forward mode -----------------------------------------------------------------------------------------------------


class CubeWithJvp(Cube):
    @staticmethod
    def forward(ctx, x, y, k):
        ctx.save_for_forward(x, y)
        ctx.save_for_backward(x)
        ctx.k = k
        return x**3 + y * k

    @staticmethod
    def jvp(ctx, t_x, t_y, t_k):
        x, _ = ctx.saved_tensors
        assert t_k is None
        return 3 * x**2 * t_x + t_y * ctx.k


def test_jvp():
    with forward_mode.level() as level:
        x = forward_mode.with_tangent(ag.tensor([1.0, 2.0]), ag.tensor([1.0, 10.0]), level)
        y = ag.tensor([1.0, 1.0])
        z = CubeWithJvp.apply(x, y, 4.0)
        assert z.tolist() == [5.0, 12.0]
        assert forward_mode.tangent_of(z, level).tolist() == [3.0, 120.0]  # y has none: zeros
        y = forward_mode.with_tangent(y, ag.tensor([1.0, 1.0]), level)
        z = CubeWithJvp.apply(x, y, 4.0)
        assert forward_mode.tangent_of(z, level).tolist() == [7.0, 124.0]


def test_jvp_at_nested_levels():
    with forward_mode.level() as outer, forward_mode.level() as inner:
        x = forward_mode.with_tangent(ag.tensor(2.0), ag.tensor(1.0), outer)
        x = forward_mode.with_tangent(x, ag.tensor(1.0), inner)
        z = CubeWithJvp.apply(x, ag.tensor(0.0), 1.0)
        first = forward_mode.tangent_of(z, inner)
        assert first.item() == 12.0
        assert forward_mode.tangent_of(first, inner) is None
        assert forward_mode.tangent_of(first, outer).item() == 12.0  # 6 x
        assert forward_mode.tangent_of(z, outer).item() == 12.0


def test_jvp_without_materialized_grads():
    seen = []

    class F(Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.set_materialize_grads(False)
            return x * 2

        @staticmethod
        def jvp(ctx, t_x, t_y):
            seen.append(t_y)
            return t_x * 2

    with forward_mode.level() as level:
        x = forward_mode.with_tangent(ag.tensor([1.0]), ag.tensor([3.0]), level)
        z = F.apply(x, ag.tensor([1.0]))
        assert forward_mode.tangent_of(z, level).tolist() == [6.0]
    assert seen == [None]


def test_jvp_not_implemented():
    with forward_mode.level() as level:
        x = forward_mode.with_tangent(ag.tensor([1.0]), ag.tensor([3.0]), level)
        with pytest.raises(
            NotImplementedError, match=r"You must implement the jvp function for custom autograd.Function"
        ):
            Cube.apply(x)


def test_jvp_is_recorded_for_reverse_mode():
    x = scalar(2.0)
    with forward_mode.level() as level:
        dual = forward_mode.with_tangent(x, ag.tensor(1.0), level)
        z = CubeWithJvp.apply(dual, ag.tensor(0.0), 1.0)
        tangent = forward_mode.tangent_of(z, level)
        assert tangent.item() == 12.0
        assert ag.grad(tangent, x)[0].item() == 12.0  # of 3 x^2
        with ag.no_grad():
            z = CubeWithJvp.apply(dual, ag.tensor(0.0), 1.0)
            assert not forward_mode.tangent_of(z, level).requires_grad


def test_several_results_of_jvp():
    class F(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, x * 3

        @staticmethod
        def jvp(ctx, t):
            return t * 2, None

    with forward_mode.level() as level:
        x = forward_mode.with_tangent(ag.tensor([1.0]), ag.tensor([5.0]), level)
        a, b = F.apply(x)
        assert forward_mode.tangent_of(a, level).tolist() == [10.0]
        assert forward_mode.tangent_of(b, level) is None
