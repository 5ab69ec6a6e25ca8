"""What PyTorch 2.13 does, by area, where no other test of this folder or of ``tests/core`` stands for it.

Expected values and messages are PyTorch's, measured; exceptions say so.
"""

from __future__ import annotations

import copy
import gc
import importlib.util
import logging
import pickle
import sys
import threading
import weakref
from dataclasses import dataclass
from typing import NamedTuple

import pytest

import agrad as ag
from agrad import Function
from agrad.autograd import backward, grad, gradcheck, gradgradcheck
from agrad.autograd import forward_ad as fw
from agrad.autograd.graph import GradientEdge, Node, get_gradient_edge
from agrad.testing import GradcheckError

AGAIN = "Trying to backward through the graph a second time"


def leaf(*values, **kwargs):
    return ag.tensor(list(values), requires_grad=True, **kwargs)


# -- attributes of tensors --------------------------------------------------------------------------------------------


def test_grad_dtype_is_the_tensors_own():
    x = leaf(1.0)
    assert x.grad_dtype == ag.float64
    assert ag.ones(2, dtype=ag.float32).grad_dtype == ag.float32
    assert x.detach().grad_dtype == ag.float64


def test_gradients_are_cast_to_grad_dtype(backend):
    x = ag.asarray([1.0, 2.0], device=backend, requires_grad=True)
    x.grad_dtype = ag.float32
    assert ag.float32 == x.grad_dtype
    seen = []
    x.register_hook(lambda g: seen.append(str(g.dtype)))
    for _ in range(2):
        (x * 3).sum().backward()
    assert ag.float32 == x.grad.dtype
    assert x.grad.tolist() == [6.0, 6.0]
    assert ag.float32 == grad((x * 3).sum(), x)[0].dtype
    assert all("float32" in name for name in seen)
    assert len(seen) == 3


def test_grad_dtype_none_allows_any_grad():
    x = leaf(1.0, 2.0)
    x.grad_dtype = None
    assert x.grad_dtype is None
    x.grad = ag.ones(2, dtype=ag.float32)
    (x * 3).sum().backward()
    assert x.grad.dtype == ag.float32
    assert x.grad._raw.dtype == x.grad.dtype
    assert x.grad.tolist() == [4.0, 4.0]


def test_a_real_leaf_may_have_complex_gradients():
    x = leaf(1.0)
    x.grad_dtype = ag.complex128
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3 + 0j]


def test_grad_dtype_with_create_graph():
    x = leaf(2.0)
    x.grad_dtype = ag.float32
    (g,) = grad((x**3).sum(), x, create_graph=True)
    assert g.dtype == ag.float32
    assert grad(g.sum(), x)[0].tolist() == [12.0]


def test_what_grad_dtype_refuses():
    x = leaf(1.0)
    with pytest.raises(RuntimeError, match="grad_dtype can only be accessed on leaf tensors"):
        _ = (x * 2).grad_dtype
    with pytest.raises(RuntimeError, match="grad_dtype can only be set on leaf tensors"):
        (x * 2).grad_dtype = ag.float32
    with pytest.raises(RuntimeError, match="must be float or complex, not int64"):  # PyTorch: an internal error
        x.grad_dtype = ag.int64
    z = ag.tensor([1j], requires_grad=True)
    with pytest.raises(RuntimeError, match="must be complex, not float64"):
        z.grad_dtype = ag.float64
    x.sum().backward()
    with pytest.raises(RuntimeError, match="Cannot set grad_dtype to 'float32' because there is already a gradient"):
        x.grad_dtype = ag.float32
    x.grad = None
    x.grad_dtype = ag.float32
    with pytest.raises(RuntimeError, match="with dtype 'float64' to a tensor with grad_dtype 'float32'"):
        x.grad = ag.ones(1)


def test_copies_of_a_leaf_with_a_grad_of_another_dtype():
    x = leaf(1.0)
    x.grad_dtype = ag.float32
    x.sum().backward()
    made = copy.deepcopy(x)
    assert made.grad.dtype == ag.float32
    assert made.grad is not x.grad
    assert copy.copy(x).grad is None
    assert pickle.loads(pickle.dumps(x)).grad is None


def test_copies_of_results():
    x = leaf(1.0, 2.0)
    y = x * x
    other = copy.copy(y)
    assert other is not y
    assert other.grad_fn is y.grad_fn
    assert grad(other.sum(), x)[0].tolist() == [2.0, 4.0]
    made = pickle.loads(pickle.dumps(x * 2))
    assert (made.is_leaf, made.requires_grad, made.tolist()) == (True, True, [2.0, 4.0])


def test_a_grad_of_another_device_is_refused(strict_backend):
    x = leaf(1.0)
    message = "a gradient with device type 'strict.*' to a tensor with device type 'numpy'"
    with pytest.raises(RuntimeError, match=message):
        x.grad = ag.ones(1, device=strict_backend)


def test_pickling_a_tensor_with_hooks_warns():
    x = leaf(1.0)
    x.register_hook(print)
    with pytest.warns(UserWarning, match="backward hook .*print.* on tensor will not be serialized"):
        made = pickle.loads(pickle.dumps(x))
    made.sum().backward()  # prints nothing, fails nowhere
    assert made.grad.tolist() == [1.0]


# -- backward and grad ------------------------------------------------------------------------------------------------


def test_any_iterable_of_tensors():
    x, w = leaf(2.0), leaf(3.0)
    outputs = [(x * w).sum(), x.sum()]
    assert [g.tolist() for g in grad(iter(outputs), (t for t in (x, w)), retain_graph=True)] == [[4.0], [2.0]]
    backward((y for y in outputs), inputs=iter([w]))
    assert (x.grad, w.grad.tolist()) == (None, [2.0])
    layer = ag.nn.Linear(2, 1)
    found = grad(layer(ag.ones((1, 2))).sum(), layer.parameters())
    assert [g.tolist() for g in found] == [[[1.0, 1.0]], [1.0]]


def test_inputs_of_backward_in_every_form():
    for form in (
        lambda x, y: x,
        lambda x, y: [x],
        lambda x, y: (x, y),
        lambda x, y: {"x": x},
        lambda x, y: get_gradient_edge(x),
        lambda x, y: [get_gradient_edge(x), get_gradient_edge(y)],
        lambda x, y: {"x": get_gradient_edge(x), "y": y},
    ):
        x, w = leaf(2.0), leaf(5.0)
        y = x * w
        (y * 3).sum().backward(inputs=form(x, y))
        assert x.grad.tolist() == [15.0]
        assert w.grad is None


@dataclass
class Layer:
    weight: object
    bias: object = None


class Pair(NamedTuple):
    first: object
    second: object


#: Containers of two tensors; the type that `grad` gives for one, where it is another.
CONTAINERS = {
    "tuple": lambda a, b: (a, b),
    "namedtuple": Pair,
    "dataclass": Layer,
    "dict": lambda a, b: {"z": a, "y": b},
    "nested dict": lambda a, b: {"z": {"k": (a,)}, "y": [b]},
    "nested tuple": lambda a, b: (a, [Layer(b)]),
}


@pytest.mark.parametrize("make", CONTAINERS.values(), ids=CONTAINERS)
def test_containers_of_inputs(make):
    x, w = leaf(2.0), leaf(5.0)
    lists = lambda t: t.tolist()
    found = grad((x * w).sum(), make(x, w))
    assert ag.tree.map(lists, found) == make([5.0], [2.0])
    edges = grad((x * w).sum(), make(get_gradient_edge(x), w))
    assert ag.tree.map(lists, edges) == make([5.0], [2.0])
    (x * w).sum().backward(inputs=make(x, w))
    assert (x.grad.tolist(), w.grad.tolist()) == ([5.0], [2.0])
    v = leaf(1.0)
    unused = grad((x * x).sum(), make(x, v), materialize_grads=True)
    assert ag.tree.map(lists, unused) == make([4.0], [0.0])
    assert ag.tree.flatten(grad((x * x).sum(), make(x, v), allow_unused=True))[0][0].tolist() == [4.0]
    rows = grad(x * w, make(x, w), ag.tensor([[1.0], [10.0]]), is_grads_batched=True)
    assert ag.tree.map(lists, rows) == make([[5.0], [50.0]], [[2.0], [20.0]])


@pytest.mark.parametrize("make", CONTAINERS.values(), ids=CONTAINERS)
def test_containers_of_outputs(make):
    x = leaf(2.0, 3.0)
    y, z = x * x, x * 10
    cotangents = make(ag.tensor([1.0, 0.0]), ag.tensor([0.0, 1.0]))
    assert grad(make(y, z), x, cotangents, retain_graph=True)[0].tolist() == [4.0, 10.0]
    backward(make(y, z), cotangents, retain_graph=True)
    assert x.grad.tolist() == [4.0, 10.0]
    assert grad(make(y.sum(), z.sum()), x, retain_graph=True)[0].tolist() == [14.0, 16.0]
    assert grad(make(y.sum(), z), x, make(None, ag.ones(2)), retain_graph=True)[0].tolist() == [14.0, 16.0]


def test_cotangents_of_another_structure():
    x = leaf(2.0, 3.0)
    for outputs, cotangents, message in (
        ({"a": x * 2}, ag.ones(2), r"another structure than the outputs: at the top there is a Tensor, not a dict"),
        ({"a": x * 2}, {"b": ag.ones(2)}, r"a dict that lacks 'a' and also has 'b'"),
        ((x, [x * 2]), (ag.ones(2), [ag.ones(2)] * 2), r"at \[1\] there is a list of length 2, not 1"),
    ):
        with pytest.raises(RuntimeError, match=message):
            grad(outputs, x, cotangents)


@pytest.mark.parametrize("make", CONTAINERS.values(), ids=CONTAINERS)
def test_containers_elsewhere(make):
    x, w = leaf(2.0), leaf(5.0)
    seen = []
    with ag.autograd.graph.register_multi_grad_hook(make(x, w), lambda gs: seen.append([g.tolist() for g in gs])):
        (x * w).sum().backward()
    order = [t.item() for t in ag.tree.flatten(make(x, w))[0]]  # a dict's in the order of its keys
    assert seen == [[[10.0 / v] for v in order]]
    double = lambda c: ag.tree.map(lambda t: ag.sin(t), c)
    y = ag.utils.checkpoint.checkpoint(double, make(x, w))
    assert type(y) is type(make(x, w))
    (g,) = grad(ag.tree.flatten(y)[0][order.index(2.0)].sum(), x)
    assert g.tolist() == ag.cos(x).tolist()


def test_a_list_of_inputs_gives_a_tuple_as_in_pytorch():
    x, w = leaf(2.0), leaf(5.0)
    assert type(grad((x * w).sum(), [x, w])) is tuple
    for inputs in ([x, {"w": [w]}], iter([x, {"w": [w]}])):
        found = grad((x * w).sum(), inputs)
        assert type(found) is tuple
        assert found[1]["w"][0].tolist() == [2.0]
    assert grad((x * w).sum(), Layer(x)).bias is None
    for wrong in ([x, 3.0], {"x": x, "k": 3.0}, [x, None], [x, {"k": 3.0}]):
        with pytest.raises(
            RuntimeError, match=r"all inputs have to be Tensors or GradientEdges, but got (float|NoneType)"
        ):
            grad((x * w).sum(), wrong)


def test_an_edge_of_a_result_among_the_inputs_of_backward_changes_nothing():
    x = leaf(2.0)
    y = x * 3
    (y * 3).sum().backward(inputs=[get_gradient_edge(y)])
    assert x.grad is None
    assert not y.retains_grad


def test_edges_and_tensors_mixed_as_roots_and_inputs():
    x = leaf(2.0)
    a, b = ag.unstack(ag.stack([x * 3, x * x]))
    roots = [get_gradient_edge(a), b]
    assert grad(roots, {"x": x, "b": get_gradient_edge(b)}, [ag.ones(1), ag.ones(1)]).keys() == {"x", "b"}
    a, b = ag.unstack(ag.stack([x * 3, x * x]))
    backward([get_gradient_edge(a), b], [ag.ones(1), ag.tensor([10.0])])
    assert x.grad.tolist() == [43.0]
    (g,) = grad(get_gradient_edge((x**3).sum()), get_gradient_edge(x), create_graph=True)
    assert grad(g.sum(), get_gradient_edge(x))[0].tolist() == [12.0]


class Nested(Function):
    """Runs a backward pass within its backward, as deep as it is told."""

    @staticmethod
    def forward(ctx, x, depth, seen):
        ctx.rest = depth, seen
        return x * 2

    @staticmethod
    def backward(ctx, g):
        depth, seen = ctx.rest
        seen.append((depth, ag.is_grad_enabled()))
        if depth == -1:
            raise KeyError("too deep")
        if depth:
            with ag.enable_grad():
                x = leaf(1.0)
                Nested.apply(x, depth - 1, seen).sum().backward()
                assert x.grad.tolist() == [2.0]
        return g * 2, None, None


def test_backward_within_backward_to_any_depth():
    seen = []
    x = leaf(1.0)
    Nested.apply(x, 500, seen).sum().backward()
    assert seen == [(depth, False) for depth in range(500, -1, -1)]
    assert x.grad.tolist() == [2.0]


def test_errors_of_a_nested_backward_come_out():
    class Fails(Function):
        @staticmethod
        def forward(ctx, x, depth):
            ctx.depth = depth
            return x * 2

        @staticmethod
        def backward(ctx, g):
            if ctx.depth == 0:
                raise KeyError("too deep")
            with ag.enable_grad():
                Fails.apply(leaf(1.0), ctx.depth - 1).sum().backward()
            return g * 2, None

    x = leaf(1.0)
    with pytest.raises(KeyError, match="too deep"):
        Fails.apply(x, 100).sum().backward()
    assert x.grad is None
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0]


def test_a_nested_backward_sees_the_mode_around_it():
    """Also where it has a thread of its own."""
    levels = []

    def hook(depth):
        def run(g):
            levels.append((ag.is_grad_enabled(), ag.autograd.is_anomaly_enabled()))
            if depth:
                y = leaf(1.0)
                y.register_hook(hook(depth - 1))
                with ag.enable_grad():
                    (y * y).sum().backward(create_graph=True)
                y.grad = None

        return run

    x = leaf(1.0)
    x.register_hook(hook(45))
    with ag.autograd.detect_anomaly():
        (x * x).sum().backward(create_graph=True)
    x.grad = None
    assert levels == [(True, True)] * 46


def test_backward_within_hooks_of_every_kind():
    other = leaf(1.0)

    @ag.enable_grad()
    def inner(*_):
        (other * 2).sum().backward()

    x = leaf(3.0)
    y = x * x
    y.register_hook(inner)
    y.grad_fn.register_prehook(inner)
    y.grad_fn.register_hook(inner)
    x.register_hook(inner)
    x.register_post_accumulate_grad_hook(inner)
    y.sum().backward()
    assert x.grad.tolist() == [6.0]
    assert other.grad.tolist() == [10.0]


#: What can be walked through a second time without `retain_graph`, as nothing was saved. The last few differ from
#: PyTorch, which is the third entry.
FREED = [
    *((code, False, False) for code in ("x + 2", "2 - x", "x - w", "x + w[0, 0]", "-x", "x % 2", "x.clone()")),
    *((code, False, False) for code in ("x.sum()", "x.mean()", "x.sum(0)", "x.cumsum(0)", "lib.diff(x)")),
    *(
        (code, False, False)
        for code in ("x.reshape(4)", "x.permute(1, 0)", "x.T", "x.expand(3, 2, 2)", "x.repeat(2, 1)")
    ),
    *((code, False, False) for code in ("x.unsqueeze(0)", "x[None].squeeze(0)", "x.flip(0)", "lib.roll(x, 1)")),
    *((code, False, False) for code in ("x[0]", "x[:, 1:]", "x.unbind()[0]", "lib.cat([x, w])", "lib.stack([x, w])")),
    *((code, False, False) for code in ("lib.tril(x)", "lib.diag(x)", "lib.einsum('ij->ji', x)", "x.to(lib.float32)")),
    *((code, False, False) for code in ("x.floor()", "x.round()", "x.trunc()", "(x + 0j).real", "(x + 0j).imag")),
    *(
        (code, True, True)
        for code in ("x * 2", "2 * x", "x * 2.5", "x * True", "x / 2", "2 / x", "x * 2j", "x[0, 0] * 2")
    ),
    *(
        (code, True, True)
        for code in ("x * w", "x * w.detach()", "x / w", "x ** 2", "x ** 1", "2 ** x", "x @ w", "x.mul_(w)")
    ),
    *((code, True, True) for code in ("abs(x)", "x.exp()", "x.sin()", "x.sqrt()", "x.square()", "x.reciprocal()")),
    *(
        (code, True, True)
        for code in (
            "x.prod()",
            "x.cumprod(0)",
            "x.var(correction=0)",
            "x.std(correction=0)",
            "x.clamp(0, 1)",
            "x.norm()",
        )
    ),
    *((code, True, True) for code in ("x[[0, 1]]", "x[x > 1]", "lib.where(x > 1, x, w)", "x.masked_fill(x > 1, 0.0)")),
    *((code, True, True) for code in ("lib.maximum(x, w)", "lib.atan2(x, w)", "abs(x + 0j)", "x * 2 + x * 3")),
    ("lib.sign(x)", True, False),
    ("lib.lerp(x, w, 0.5)", True, False),
    ("lib.fft.fft(x).real", False, True),
    ("lib.nn.functional.avg_pool2d(x[None, None], 2)", False, True),
]


def passes(lib, code):
    """Run backward twice; give the beginning of the message, if the second time raises."""
    x, w = (lib.tensor(v, dtype=lib.float64, requires_grad=True) for v in ([[1.0, 2.0], [3.0, 4.0]], [[0.5, 1.5]] * 2))
    y = eval(code, {"lib": lib, "x": x.clone() if ".mul_" in code else x, "w": w})
    g = lib.ones_like(y)
    y.backward(g)
    once = x.grad.tolist()
    try:
        y.backward(g)
    except RuntimeError as error:
        return str(error).partition(" (")[0]
    assert x.grad.tolist() == [[2 * v for v in row] for row in once]
    return None


@pytest.mark.parametrize(("code", "raises", "in_torch"), FREED)
def test_what_a_backward_frees(code, raises, in_torch):
    assert passes(ag, code) == (AGAIN if raises else None)
    if importlib.util.find_spec("torch"):
        assert passes(importlib.import_module("torch"), code) == (AGAIN if in_torch else None)


# -- Function ---------------------------------------------------------------------------------------------------------


class Doubled(Function):
    clear_saved_tensors_on_access = True
    times = 1

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        for _ in range(ctx.function.times):
            (x,) = ctx.saved_tensors
        return 2 * x * g


class Twice(Doubled):
    times = 2


ONCE = "saved_tensors can only be accessed once when clear_saved_tensors_on_access=True"


def test_saved_tensors_that_are_read_once():
    x = leaf(3.0)
    Doubled.apply(x).sum().backward()
    assert x.grad.tolist() == [6.0]
    with pytest.raises(RuntimeError, match=ONCE):
        Twice.apply(x).sum().backward()
    y = Doubled.apply(x).sum()
    y.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match=ONCE):
        y.backward()
    y = Doubled.apply(x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match=AGAIN):
        y.backward()
    (g,) = grad(Doubled.apply(x).sum(), x, create_graph=True)
    assert grad(g.sum(), x)[0].tolist() == [2.0]


def test_saved_tensors_that_are_read_once_go_through_hooks_and_checkpoints():
    x = leaf(3.0)
    with ag.autograd.graph.saved_tensors_hooks(lambda t: t.tolist(), lambda v: ag.tensor(v)):
        y = Doubled.apply(x).sum()
    y.backward()
    assert x.grad.tolist() == [6.0]
    ag.utils.checkpoint.checkpoint(Doubled.apply, x).sum().backward()
    assert x.grad.tolist() == [12.0]
    assert "Doubled" in ag.view.text(Doubled.apply(x).sum())


def test_saved_tensors_that_are_read_once_are_free_then():
    gone = []

    class Frees(Function):
        clear_saved_tensors_on_access = True

        @staticmethod
        def forward(ctx, x):
            hidden = x * 1
            data = hidden._raw
            gone.append(weakref.ref(data))
            ctx.save_for_backward(hidden)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            (hidden,) = ctx.saved_tensors
            gone.append(gone[0]() is not None)
            del hidden
            gone.append(gone[0]() is None)
            return g * 2

    Frees.apply(ag.ones(100, requires_grad=True)).sum().backward()
    assert gone[1:] == [True, True]


def test_gradients_in_a_box():
    seen = []

    class Boxed(Function):
        boxed_grads_call = True

        @staticmethod
        def forward(ctx, x):
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, box):
            assert type(box) is list
            last = box.pop()
            data = weakref.ref(last._raw)
            result = last * 3
            del last
            seen.append(data() is None)
            return result + box.pop() * 2

    x = ag.ones(100, requires_grad=True)
    a, b = Boxed.apply(x)
    (a * 1 + b * 10).sum().backward()
    assert x.grad.tolist() == [32.0] * 100
    assert seen == [True]
    assert gradcheck(Boxed.apply, leaf(1.0, 2.0))


def test_next_functions_of_a_function_have_a_place_per_tensor():
    class Sum(Function):
        @staticmethod
        def forward(ctx, x, k, y, z):
            return x + y + z

        @staticmethod
        def backward(ctx, g):
            return g, None, None, g

    x, z = leaf(1.0), leaf(2.0)
    y = Sum.apply(x, 3.0, ag.ones(1), z)
    nodes = y.grad_fn.next_functions
    assert [None if node is None else node.variable for node, _ in nodes] == [x, None, z]
    seen = []
    y.grad_fn.register_hook(lambda gi, go: seen.append([None if g is None else g.tolist() for g in gi]))
    y.sum().backward()
    assert seen == [[[1.0], None, [1.0]]]


def test_gradients_of_keyword_arguments():
    class Scale(Function):
        @staticmethod
        def forward(ctx, x, *, by):
            ctx.save_for_backward(x, by)
            return x * by

        @staticmethod
        def backward(ctx, g):
            x, by = ctx.saved_tensors
            return g * by, g * x

    x, by = leaf(2.0), leaf(5.0)
    Scale.apply(x, by=by).sum().backward()
    assert (x.grad.tolist(), by.grad.tolist()) == ([5.0], [2.0])


# -- hooks ------------------------------------------------------------------------------------------------------------


def recorded(log, name):
    return lambda *_: log.append(name)


def test_a_leaf_runs_as_soon_as_its_last_consumer_has():
    x, w = leaf(1.0, 2.0), leaf(1.0, 2.0)
    log = []
    a = ag.exp(x)
    b = a * w
    c = ag.sin(a)
    w.register_hook(recorded(log, "w"))
    w.register_post_accumulate_grad_hook(recorded(log, "w accumulated"))
    x.register_post_accumulate_grad_hook(recorded(log, "x"))
    for name, t in (("a", a), ("b", b), ("c", c)):
        t.register_hook(recorded(log, name))
    (c * b).sum().backward(retain_graph=True)
    assert log == ["c", "b", "w", "w accumulated", "a", "x"]
    log.clear()
    grad((c * b).sum(), (x, w))
    assert log == ["c", "b", "w", "a"]


def test_a_leaf_with_several_consumers_waits_for_all():
    x, w = leaf(2.0), leaf(3.0)
    log = []
    x.register_post_accumulate_grad_hook(lambda p: log.append(p.grad.tolist()))
    w.register_post_accumulate_grad_hook(lambda p: log.append(p.grad.tolist()))
    old = x * x * w
    old.register_hook(recorded(log, "old"))
    new = ag.sin(old) * x * w + w
    new.register_hook(recorded(log, "new"))
    new.sum().backward()
    assert log[:2] == ["new", "old"]
    s, c = float(ag.sin(ag.tensor(12.0))), float(ag.cos(ag.tensor(12.0)))
    expected = [3 * s + 6 * c * 12, 2 * s + 1 + 6 * c * 4]  # by x, by w
    assert sorted(v for (v,) in log[2:]) == pytest.approx(sorted(expected))


def test_a_leaf_whose_consumer_never_runs_is_not_left_out():
    class First(Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * 1.0

        @staticmethod
        def backward(ctx, g):
            return g, None

    x = leaf(2.0)
    log = []
    x.register_post_accumulate_grad_hook(lambda p: log.append(p.grad.tolist()))
    First.apply(x * 3, x * 5).sum().backward()
    assert log == [[3.0]]


def test_parameters_can_be_stepped_and_freed_in_backward():
    """The gradients of a chain of layers need not all be there at once."""
    layers = [leaf(1.0, 2.0) for _ in range(3)]
    log = []

    def step(i):
        def run(p):
            log.append(f"w{i}")
            with ag.no_grad():
                p -= 0.1 * p.grad
            p.grad = None

        return run

    y = ag.ones(2)
    for i, w in enumerate(layers):
        w.register_post_accumulate_grad_hook(step(i))
        y = ag.tanh(y * w)
        y.register_hook(recorded(log, f"y{i}"))
    y.sum().backward()
    assert log == ["y2", "w2", "y1", "w1", "y0", "w0"]
    assert [w.grad for w in layers] == [None] * 3


def test_hooks_under_grad_and_backward_agree():
    def run(how):
        a, b = leaf(2.0), leaf(3.0)
        log = []
        c = a * b
        d = c * b
        for name, t in (("a", a), ("c", c), ("b", b)):
            t.register_hook(lambda g, name=name: log.append((name, g.tolist())) or g * 2)
        return how(d.sum(), a, b), log

    by_grad, log = run(lambda y, a, b: [g.tolist() for g in grad(y, (a, b))])

    def accumulated(y, a, b):
        y.backward()
        return [a.grad.tolist(), b.grad.tolist()]

    by_backward, other = run(accumulated)
    # d = a b^2; the hook on c doubles what goes on to a and b, those on a and b double the end result
    assert by_grad == by_backward == [[36.0], [36.0]]
    assert log == other
    only_b, _ = run(lambda y, a, b: grad(y, b)[0].tolist())
    assert only_b == [36.0]


# -- the graph --------------------------------------------------------------------------------------------------------


def test_calling_a_node():
    x = leaf(1.0, 2.0)
    y = x * x
    for _ in range(2):  # what it saved stays
        first, second = y.grad_fn(ag.tensor([10.0, 100.0]))
        assert (first.tolist(), second.tolist()) == ([10.0, 200.0], [10.0, 200.0])
    assert first.requires_grad
    assert grad(first.sum(), x)[0].tolist() == [10.0, 100.0]
    with ag.no_grad():
        assert not y.grad_fn(ag.ones(2))[0].requires_grad
    assert y.grad_fn(None) == (None, None)
    by_x, by_constant = (x * ag.ones(2)).grad_fn(ag.ones(2))
    assert (by_x.tolist(), by_constant) == ([1.0, 1.0], None)
    assert (-x).grad_fn(ag.ones(2)).tolist() == [-1.0, -1.0]
    assert x.grad is None


def test_calling_a_node_runs_no_hooks():
    y = leaf(1.0) * 2
    calls = []
    y.register_hook(calls.append)
    y.grad_fn.register_prehook(calls.append)
    y.grad_fn.register_hook(lambda *gs: calls.append(gs))
    y.grad_fn(ag.ones(1))
    assert calls == []


def test_calling_nodes_of_several_results_and_of_leaves():
    x = leaf(1.0, 2.0)
    a, _ = ag.unstack(x)
    assert a.grad_fn(ag.tensor(5.0), None).tolist() == [5.0, 0.0]
    accumulator = get_gradient_edge(x).node
    assert accumulator(ag.ones(2)) == ()
    assert accumulator(ag.ones(2)) == ()
    assert x.grad.tolist() == [2.0, 2.0]
    joined = ag.concat([x, ag.ones(1), x])
    parts = joined.grad_fn(ag.tensor([1.0, 2.0, 3.0, 4.0, 5.0]))
    assert [None if g is None else g.tolist() for g in parts] == [[1.0, 2.0], None, [4.0, 5.0]]


def test_calling_the_node_of_a_function():
    x = leaf(3.0)
    y = Doubled.apply(x)
    assert y.grad_fn(ag.ones(1)).tolist() == [6.0]


def test_calling_a_node_wrongly():
    y = leaf(1.0, 2.0)
    y = y * y
    with pytest.raises(TypeError, match="expected 1 arguments, got 2 instead"):
        y.grad_fn(ag.ones(2), ag.ones(2))
    with pytest.raises(TypeError, match="gradients can be either Tensors or None, but got float"):
        y.grad_fn(1.0)
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        y.grad_fn(ag.ones(3))
    y.sum().backward()
    with pytest.raises(RuntimeError, match=AGAIN):
        y.grad_fn(ag.ones(2))


def test_what_a_node_tells():
    x = leaf(1.0, 2.0)
    y = x * x
    z = ag.exp(y)
    assert isinstance(y.grad_fn, Node)
    assert issubclass(type(y.grad_fn), Node)
    assert isinstance(get_gradient_edge(x).node, Node)
    assert isinstance(Doubled.apply(x).grad_fn, Node)
    assert z.grad_fn._sequence_nr() > y.grad_fn._sequence_nr()
    (about,) = y.grad_fn._input_metadata
    assert (about.shape, about.dtype, about.device) == ((2,), y.dtype, "numpy")
    a, _ = ag.unstack(x)
    assert [m.shape for m in a.grad_fn._input_metadata] == [(), ()]
    assert isinstance(get_gradient_edge(a), GradientEdge)


# -- logging ----------------------------------------------------------------------------------------------------------


def test_every_node_that_runs_is_logged(caplog):
    x = leaf(1.0, 2.0)
    with caplog.at_level(logging.DEBUG, logger="agrad.autograd.graph"):
        (x * x).sum().backward()
    lines = [record.getMessage() for record in caplog.records]
    assert [line.split()[1].lstrip("<") for line in lines][:2] == ["SumBackward0", "MultiplyBackward0"]
    assert lines[1].endswith("with grad_outputs: [float64[2]]")
    caplog.clear()
    (x * x).sum().backward()
    assert caplog.records == []


# -- forward mode and the functional API -------------------------------------------------------------------------------


def pushed(function, *pairs):
    """Give value and tangent of a function of pairs of value and tangent."""
    with fw.dual_level():
        result = fw.unpack_dual(function(*(fw.make_dual(p, t) for p, t in pairs)))
        return result.primal.tolist(), None if result.tangent is None else result.tangent.tolist()


X, V = ag.tensor([1.0, 2.0]), ag.tensor([10.0, 100.0])


def changed(change):
    def function(d):
        plain = ag.tensor([5.0, 6.0])
        change(plain, d)
        return plain

    return function


def test_tangents_through_changes_in_place():
    assert pushed(changed(lambda p, d: p.mul_(d)), (X, V)) == ([5.0, 12.0], [50.0, 600.0])
    assert pushed(changed(lambda p, d: p.__setitem__(0, d[1])), (X, V)) == ([2.0, 6.0], [100.0, 0.0])
    assert pushed(changed(lambda p, d: p.copy_(d)), (X, V)) == ([1.0, 2.0], [10.0, 100.0])
    assert pushed(lambda d: d.mul_(3.0), (X, V)) == ([3.0, 6.0], [30.0, 300.0])
    assert pushed(lambda d: d.detach(), (X, V)) == ([1.0, 2.0], None)


def test_tangents_of_views_and_complex_numbers():
    assert pushed(lambda d: d[1], (X, V)) == (2.0, 100.0)
    assert pushed(lambda d: d.reshape(2, 1), (X, V)) == ([[1.0], [2.0]], [[10.0], [100.0]])
    z, t = ag.tensor(3 + 4j), ag.tensor(1j)
    assert pushed(lambda d: d * d, (z, t)) == (-7 + 24j, -8 + 6j)
    assert pushed(ag.abs, (z, t)) == (5.0, 0.8)
    assert pushed(ag.real, (z, t)) == (3.0, 0.0)


def test_a_dual_tensor_shows_its_tangent():
    with fw.dual_level():
        dual = fw.make_dual(X, V)
        assert repr(dual) == "tensor([1., 2.], tangent=tensor([ 10., 100.]))"
        with fw.dual_level():  # not in PyTorch
            assert repr(fw.make_dual(dual, X)).count("tangent=") == 2


@pytest.mark.parametrize("materialize", [True, False])
def test_missing_tangents_of_a_function(materialize):
    seen = []

    class Product(Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.set_materialize_grads(materialize)
            ctx.save_for_forward(x, y)
            return x * y

        @staticmethod
        def jvp(ctx, a, b):
            seen.append(None if b is None else b.tolist())
            _, y = ctx.saved_tensors
            return a * y

    assert pushed(lambda d: Product.apply(d, ag.tensor([7.0, 7.0])), (X, V)) == ([7.0, 14.0], [70.0, 700.0])
    assert seen == [[0.0, 0.0] if materialize else None]


def test_a_function_without_setup_context_under_the_transforms():
    """PyTorch refuses it."""
    assert ag.func.grad(lambda x: Doubled.apply(x).sum())(X).tolist() == [2.0, 4.0]


def test_graphs_of_derivatives_by_inputs_that_require_none():
    """In PyTorch the results of `create_graph` require grad even then, though nothing can be reached from them."""
    functional = ag.autograd.functional
    for constant, expected in ((X, False), (leaf(1.0, 2.0), True)):
        for product in (functional.vjp, functional.jvp):
            assert [t.requires_grad for t in product(ag.sin, constant, V, create_graph=True)] == [expected] * 2


def test_strict_looks_at_every_output():
    with pytest.raises(RuntimeError, match="Output 1 of the user-provided function is independent of input 0"):
        ag.autograd.functional.jacobian(lambda a, b: (a * b, b * 2), (X, V), strict=True)


# -- gradcheck --------------------------------------------------------------------------------------------------------


def test_gradcheck_of_batches(backend):
    x = ag.asarray([0.5, -1.0], device=backend, requires_grad=True)
    z = ag.asarray([0.5 + 1j, 2.0], device=backend, requires_grad=True)

    def function(x, z):
        return ag.sin(x) * z, ag.sum(x), ag.abs(z)

    options = {"check_forward_ad": True, "check_batched_forward_grad": True}
    assert gradcheck(function, (x, z), check_batched_grad=True, **options)
    assert gradgradcheck(lambda x: ag.exp(x) * x, x, check_batched_grad=True)


def test_gradcheck_finds_what_batches_cannot_do():
    class Branches(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2 if g.sum().item() < 1e9 else g

    x = leaf(0.5, 1.0)
    assert gradcheck(Branches.apply, x)
    with pytest.raises(GradcheckError, match="While computing batched gradients, got: vmap"):
        gradcheck(Branches.apply, x, check_batched_grad=True)
    assert gradcheck(Branches.apply, x, check_batched_grad=True, raise_exception=False) is False


def test_gradcheck_finds_other_values_in_batches():
    class WrongInBatches(Function):
        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def vmap(info, in_dims, x):
            return x * 3, in_dims[0]

    class Uses(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return WrongInBatches.apply(g)

        @staticmethod
        def jvp(ctx, t):
            return WrongInBatches.apply(t)

    x = leaf(0.5, 1.0)
    assert gradcheck(Uses.apply, x, check_forward_ad=True)
    with pytest.raises(GradcheckError, match="batched gradient of output 0 by input 0 differs"):
        gradcheck(Uses.apply, x, check_batched_grad=True)
    with pytest.raises(GradcheckError, match="batched tangent of output 0 along input 0 differs"):
        gradcheck(Uses.apply, x, check_forward_ad=True, check_batched_forward_grad=True)


def test_gradcheck_of_batches_needs_its_mode():
    x = leaf(1.0)
    with pytest.raises(ValueError, match="check_batched_grad=True requires check_backward_ad"):
        gradcheck(ag.sin, x, check_batched_grad=True, check_backward_ad=False, check_forward_ad=True)
    with pytest.raises(ValueError, match="check_batched_forward_grad=True requires check_forward_ad"):
        gradcheck(ag.sin, x, check_batched_forward_grad=True)


def test_gradcheck_of_dtypes():
    class Narrow(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return ag.astype(g, ag.float32) * 2

    assert gradcheck(Narrow.apply, leaf(0.5), check_grad_dtypes=True)  # cast to the input's dtype
    x = leaf(0.5)
    x.grad_dtype = ag.float32
    with pytest.raises(GradcheckError, match="Expected the gradient of input 0 to have dtype float64"):
        gradcheck(lambda x: x * 2, x, check_grad_dtypes=True, atol=1e-3)


# -- complex numbers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "at", "expected"),
    [
        (lambda z: ag.abs(z) ** 2, 1 + 2j, 2 + 4j),
        (ag.real, 1 + 1j, 1 + 0j),
        (ag.imag, 1 + 1j, 1j),
        (ag.abs, 0j, 0j),
        (lambda z: ag.real(z * z), 1 + 2j, 2 - 4j),  # conj(f')
    ],
)
def test_gradients_point_uphill(function, at, expected):
    z = ag.tensor(at, requires_grad=True)
    function(z).backward()
    assert complex(z.grad.item()) == pytest.approx(expected)


def test_forward_and_reverse_are_conjugate():
    z = ag.tensor(1 + 2j, requires_grad=True)
    (g,) = grad(z**2, z, ag.tensor(1 + 0j))
    with ag.autograd.forward_ad.dual_level():
        dual = ag.autograd.forward_ad.make_dual(z.detach(), ag.tensor(1 + 0j))
        tangent = ag.autograd.forward_ad.unpack_dual(dual**2).tangent
    assert tangent.item() == 2 + 4j
    assert g.item() == 2 - 4j


# -- memory -----------------------------------------------------------------------------------------------------------


def cyclic_create_graph(x, y):
    y.sum().backward(create_graph=True)


def cyclic_tensor_hook(x, y):
    y.register_hook(lambda g: y * g)


def cyclic_leaf_hook(x, y):
    x.register_hook(lambda g: x * g)


def cyclic_node_hook(x, y):
    y.grad_fn.register_hook(lambda gi, go: (y,))


def cyclic_post_accumulate_hook(x, y):
    x.register_post_accumulate_grad_hook(lambda p: x.zero_())


def cyclic_metadata(x, y):
    y.grad_fn.metadata["y"] = y


def cyclic_pack_hook(x, y):
    with ag.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        x.z = ag.exp(y)


@pytest.mark.parametrize(
    "tie",
    [
        cyclic_create_graph,
        cyclic_tensor_hook,
        cyclic_leaf_hook,
        cyclic_node_hook,
        cyclic_post_accumulate_hook,
        cyclic_metadata,
        cyclic_pack_hook,
    ],
)
def test_what_leaks_in_pytorch_is_collectable(tie):
    x = leaf(1.0, 2.0)
    y = x * x
    tie(x, y)
    references = [weakref.ref(x), weakref.ref(y), weakref.ref(y.grad_fn)]
    del x, y
    gc.collect()
    assert [r() for r in references] == [None] * 3


def test_called_nodes_and_hooked_leaves_die_by_reference_count():
    gc.collect()
    gc.disable()
    try:
        x = leaf(1.0, 2.0)
        x.grad_dtype = ag.float32
        x.register_post_accumulate_grad_hook(print)
        y = x * x
        y.grad_fn(ag.ones(2))
        references = [weakref.ref(x), weakref.ref(y), weakref.ref(y.grad_fn), weakref.ref(get_gradient_edge(x).node)]
        del x, y
        assert [r() for r in references] == [None] * 4
    finally:
        gc.enable()


def test_a_thread_of_a_nested_backward_leaves_nothing_behind():
    before = threading.active_count()
    limit = sys.getrecursionlimit()
    Nested.apply(leaf(1.0), 60, []).sum().backward()
    assert threading.active_count() == before
    assert sys.getrecursionlimit() == limit
