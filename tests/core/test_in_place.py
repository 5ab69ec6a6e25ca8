"""Tensors are mutable names for immutable values: in-place spellings rebind, and nothing else ever changes."""

from __future__ import annotations

import math
import operator
import sys
import threading
import warnings

import numpy as np
import pytest

import agrad as ag
from agrad.core.buffers import owned


def leaf(*values):
    return ag.tensor(list(values), requires_grad=True)


def set_first(x):
    x[0] = 9.0


def set_all(x):
    x[...] = 9.0


def augment(x):
    x[0] += 8.0


#: Every way to change a tensor: what does it, and what [1., 2.] becomes.
SPELLINGS = {
    "+=": (lambda x: operator.iadd(x, 1.0), [2.0, 3.0]),
    "-=": (lambda x: operator.isub(x, 1.0), [0.0, 1.0]),
    "*=": (lambda x: operator.imul(x, 3.0), [3.0, 6.0]),
    "/=": (lambda x: operator.itruediv(x, 2.0), [0.5, 1.0]),
    "//=": (lambda x: operator.ifloordiv(x, 2.0), [0.0, 1.0]),
    "%=": (lambda x: operator.imod(x, 2.0), [1.0, 0.0]),
    "**=": (lambda x: operator.ipow(x, 2.0), [1.0, 4.0]),
    "@=": (lambda x: operator.imatmul(x, ag.tensor([[0.0, 1.0], [1.0, 0.0]])), [2.0, 1.0]),
    "x[i] =": (set_first, [9.0, 2.0]),
    "x[...] =": (set_all, [9.0, 9.0]),
    "x[i] +=": (augment, [9.0, 2.0]),
    "zero_": (lambda x: x.zero_(), [0.0, 0.0]),
    "fill_": (lambda x: x.fill_(5.0), [5.0, 5.0]),
    "copy_": (lambda x: x.copy_(ag.tensor([7.0, 8.0])), [7.0, 8.0]),
    "add_": (lambda x: x.add_(1.0), [2.0, 3.0]),
    "add_ alpha": (lambda x: x.add_(ag.tensor([1.0, 1.0]), alpha=3.0), [4.0, 5.0]),
    "sub_": (lambda x: x.sub_(1.0, alpha=2), [-1.0, 0.0]),
    "mul_": (lambda x: x.mul_(3.0), [3.0, 6.0]),
    "div_": (lambda x: x.div_(2.0), [0.5, 1.0]),
    "pow_": (lambda x: x.pow_(2.0), [1.0, 4.0]),
    "clamp_": (lambda x: x.clamp_(1.5), [1.5, 2.0]),
    "addcmul_": (lambda x: x.addcmul_(ag.tensor([2.0, 2.0]), ag.tensor([3.0, 4.0])), [7.0, 10.0]),
    "addcdiv_": (lambda x: x.addcdiv_(ag.tensor([2.0, 2.0]), ag.tensor([1.0, 2.0])), [3.0, 3.0]),
    "masked_fill_": (lambda x: x.masked_fill_(ag.tensor([True, False]), 9.0), [9.0, 2.0]),
    "neg_": (lambda x: x.neg_(), [-1.0, -2.0]),
    "square_": (lambda x: x.square_(), [1.0, 4.0]),
}
each_spelling = pytest.mark.parametrize(("change", "becomes"), SPELLINGS.values(), ids=SPELLINGS)


@each_spelling
def test_in_place_spellings(change, becomes):
    x = ag.tensor([1.0, 2.0])
    returned = change(x)
    assert x.tolist() == becomes
    assert returned is None or returned is x
    assert not x.requires_grad


@each_spelling
def test_nothing_else_changes(change, becomes):
    source = np.array([1.0, 2.0])
    x = ag.asarray(source)
    others = [x.detach(), x[:], x.reshape(2, 1), x[0], x * 1.0]
    texts = [repr(other) for other in others]
    change(x)
    change(x)
    assert source.tolist() == [1.0, 2.0]
    assert [repr(other) for other in others] == texts


@each_spelling
def test_results_do_not_alias_their_operand(change, becomes):
    x = ag.tensor([1.0, 2.0])
    for view in (x.detach(), x[:], x[0:2], x.reshape(2), x[None].squeeze(0), ag.unstack(x[None])[0]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ag.LostWriteWarning)
            change(view)
        assert view.tolist() == becomes
        assert x.tolist() == [1.0, 2.0]
    for copy in (x.clone(), ag.asarray(x.numpy()), +x, x[ag.tensor([True, True])], x[ag.tensor([0, 1])]):
        change(copy)
        assert copy.tolist() == becomes
        assert x.tolist() == [1.0, 2.0]


VIEWS = {
    "slice": lambda x: x[0:1],
    "row": lambda x: x[0],
    "reshape": lambda x: ag.reshape(x, (4,)),
    "flatten": lambda x: x.flatten(),
    "T": lambda x: x.T,
    "mT": lambda x: x.mT,
    "permute": lambda x: ag.permute_dims(x, (1, 0)),
    "moveaxis": lambda x: ag.moveaxis(x, 0, 1),
    "expand_dims": lambda x: ag.expand_dims(x, axis=0),
    "unstack": lambda x: ag.unstack(x)[0],
    "detach": lambda x: x.detach(),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize(
    "write",
    [lambda t: t.mul_(2.0), lambda t: t.zero_(), lambda t: t.__setitem__(0, 1.0), lambda t: operator.iadd(t, 1.0)],
    ids=["mul_", "zero_", "setitem", "iadd"],
)
def test_a_write_that_numpy_would_let_through_warns(view, write, recorded):
    x = ag.asarray(np.ones((2, 2)), requires_grad=recorded)
    x = x * 1.0 if recorded else x
    part = view(x)
    with pytest.warns(ag.LostWriteWarning, match="changes this tensor alone") as caught:
        write(part)
    assert caught[0].filename == __file__
    write(part)  # it has a value of its own by now
    assert x.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_a_write_to_a_view_of_a_view_that_is_gone_warns():
    x = ag.asarray(np.ones((2, 2)))
    part = x[0][:1]
    with pytest.warns(ag.LostWriteWarning):
        part += 1.0
    part += 1.0  # it has a value of its own by now
    row = x.T.reshape(4)
    row = row[1:]
    del x
    row += 1.0  # nobody is left to miss it
    assert part.tolist() == [3.0]
    assert row.tolist() == [2.0] * 3


def test_views_of_views_keep_nothing_of_what_is_gone():
    x = ag.asarray(np.ones((2, 2)))
    kept = y = x
    for _ in range(100):
        y = y.T
    base, length = y._base, 0
    while base is not None:
        base, length = base[1], length + 1
    assert length == 2  # the last but one, of which nothing is left but its reference, and the first
    assert kept is x


def test_a_write_to_what_nothing_else_holds_is_fine():
    x = ag.asarray(np.ones((2, 2)))
    y = (x * 2.0).reshape(4)
    y += 1.0
    x = x.reshape(4)
    x[0] = 5.0
    x[1:] += 1.0
    x[2] *= 3.0
    assert x.tolist() == [5.0, 2.0, 6.0, 2.0]
    assert y.tolist() == [3.0] * 4


@each_spelling
def test_leaf_that_requires_grad_is_refused(change, becomes):
    x = leaf(1.0, 2.0)
    with pytest.raises(
        RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"
    ) as i:
        change(x)
    assert __file__ in str(i.value)
    assert "ag.no_grad()" in str(i.value)
    assert x.tolist() == [1.0, 2.0]
    assert x.is_leaf
    (x * x).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


@each_spelling
def test_leaf_may_be_changed_under_no_grad(change, becomes):
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    with ag.no_grad():
        change(x)
    assert x.tolist() == becomes
    assert x.is_leaf
    assert x.requires_grad
    y.backward()  # the graph has kept the old value
    assert x.grad.tolist() == [2.0, 4.0]


@each_spelling
def test_graphs_keep_the_values_they_saved(change, becomes):
    x = leaf(1.0, 2.0)
    b = x * 1.0
    c = (b * b).sum()
    change(b)
    assert b.tolist() == becomes
    c.backward()
    assert x.grad.tolist() == [2.0, 4.0]


@each_spelling
def test_graphs_keep_results_they_saved(change, becomes):
    x = leaf(math.log(1.25), math.log(3.0))
    e = ag.exp(x)  # saves what it gives
    before = e.tolist()
    total = (e * ag.tensor([2.0, 3.0])).sum()
    change(e)
    assert e.tolist() != before
    total.backward()
    assert x.grad.tolist() == pytest.approx([2.5, 9.0])


def test_history_is_rebased():
    x = leaf(1.0, 2.0)
    y = x * 2
    y *= 3
    assert y.grad_fn.name() == "MultiplyBackward0"
    y += x
    assert y.grad_fn.name() == "AddBackward0"
    y.sum().backward()
    assert x.grad.tolist() == [7.0, 7.0]


def test_a_constant_becomes_part_of_the_graph():
    x = leaf(1.0, 2.0)
    total = ag.zeros(2)
    total += x * 3
    assert total.requires_grad
    total[0] = x[1]
    assert total.tolist() == [2.0, 6.0]
    total.sum().backward()
    assert x.grad.tolist() == [0.0, 4.0]


def test_assignment_cuts_the_old_value_out_of_the_graph():
    x, v = leaf(1.0, 2.0, 3.0), leaf(10.0)
    y = x * 2
    y[1:2] = v * 5
    assert y.tolist() == [2.0, 50.0, 6.0]
    (y * ag.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert x.grad.tolist() == [2.0, 0.0, 200.0]
    assert v.grad.tolist() == [50.0]


def test_changes_under_no_grad_keep_the_history_of_a_result():
    x = leaf(1.0, 2.0)
    y = x * 2
    node = y.grad_fn
    with ag.no_grad():
        y.mul_(100.0)
    assert y.grad_fn is node
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


# -- a value is a value in every mode ---------------------------------------------------------------------------------


def test_rebinding_an_operand_does_not_change_the_gradient():
    w = ag.tensor(2.0, requires_grad=True)
    y = w**3
    with ag.no_grad():
        w.fill_(1.0)
    (g,) = ag.grad(y, w)
    assert g.item() == 12.0


def test_rebinding_an_operand_does_not_change_higher_derivatives():
    w = ag.tensor(2.0, requires_grad=True)
    y = w**3
    with ag.no_grad():
        w.fill_(1.0)
    (g,) = ag.grad(y, w, create_graph=True)
    assert g.item() == 12.0
    with ag.no_grad():
        w.fill_(100.0)
    (h,) = ag.grad(g, w, create_graph=True)
    assert h.item() == 12.0  # 6 w at w = 2
    (k,) = ag.grad(h, w)
    assert k.item() == 6.0


def test_rebinding_operands_of_a_product():
    a, b = leaf(2.0), leaf(3.0)
    y = a * b
    with ag.no_grad():
        a *= 100
        b *= 100
    ga, gb = ag.grad(y, (a, b), create_graph=True)
    assert (ga.item(), gb.item()) == (3.0, 2.0)
    assert [g.item() for g in ag.grad(ga + gb, (a, b))] == [1.0, 1.0]


def test_changing_a_gradient_in_hand_does_not_change_the_next():
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    (g,) = ag.grad(y, x, retain_graph=True)
    g.mul_(100.0)
    (h,) = ag.grad(y, x)
    assert h.tolist() == [2.0, 4.0]


# -- what is refused --------------------------------------------------------------------------------------------------


def test_lost_assignments_raise():
    x = ag.tensor([[1.0, 2.0], [3.0, 4.0]])
    before = x.tolist()
    message = "this assignment would be lost"
    with pytest.raises(RuntimeError, match=message) as info:
        x[0][1] = 5.0
    assert __file__ in str(info.value)
    with pytest.raises(RuntimeError, match=message):
        x.T[0] = ag.ones(2)
    with pytest.raises(RuntimeError, match=message):
        x.reshape(4)[0] = 5.0
    with pytest.raises(RuntimeError, match=message):
        x[0][1] += 5.0
    with pytest.raises(RuntimeError, match=message):
        x.detach()[0] = 5.0
    assert x.tolist() == before


def test_an_assignment_by_the_name_of_the_method_is_one():
    x = ag.zeros((2, 2))
    x.__setitem__((0, 1), 5.0)
    ag.Tensor.__setitem__(x, (1, 0), 6.0)
    operator.setitem(x, (1, 1), 7.0)
    assert x.tolist() == [[0.0, 5.0], [6.0, 7.0]]
    with pytest.raises(RuntimeError, match="this assignment would be lost"):
        x[0].__setitem__(1, 5.0)
    row = x[0]
    with pytest.warns(ag.LostWriteWarning):
        row.__iadd__(1.0)
    assert row.tolist() == [1.0, 6.0]


def test_assignments_that_are_seen_are_fine():
    x = ag.tensor([[1.0, 2.0], [3.0, 4.0]])
    row = x[0]
    with pytest.warns(ag.LostWriteWarning):
        row[1] = 5.0
    assert row.tolist() == [1.0, 5.0]
    assert x.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    x[0, 1] = 6.0
    x[1] += 10.0
    assert x.tolist() == [[1.0, 6.0], [13.0, 14.0]]
    held = [ag.zeros(2)]
    held[0][1] = 7.0
    assert held[0].tolist() == [0.0, 7.0]
    by_name = {"a": ag.zeros(2)}
    by_name["a"][0] = 7.0
    assert by_name["a"].tolist() == [7.0, 0.0]


class Holder:
    def __init__(self):
        self.x = ag.zeros(2)

    def get(self):
        return self.x


def test_assignments_through_attributes_arguments_and_closures_are_seen():
    holder = Holder()
    holder.x[0] = 1.0
    holder.get()[1] = 2.0
    assert holder.x.tolist() == [1.0, 2.0]

    def inner():
        holder.x[0] = 3.0
        x[1] = 4.0

    x = ag.zeros(2)
    inner()
    operator.setitem(x, 0, 5.0)
    assert holder.x.tolist() == [3.0, 2.0]
    assert x.tolist() == [5.0, 4.0]
    leaf_ = leaf(1.0)
    (leaf_ * 2).sum().backward()
    leaf_.grad[0] = 8.0  # the leaf holds its gradient
    assert leaf_.grad.tolist() == [8.0]


@pytest.mark.parametrize("owns", [False, True])
def test_changes_of_shape_are_refused(owns):
    for make in (lambda: ag.tensor([1.0, 2.0]), lambda: leaf(1.0, 2.0) * 1.0):
        x = make()
        if owns:
            x[0] = 1.0
        node = x.grad_fn
        for change in (
            lambda x=x: operator.iadd(x, ag.ones((3, 2))),
            lambda x=x: x.add_(ag.ones((3, 2))),
            lambda x=x: x.mul_(ag.ones((2, 2))),
            lambda x=x: operator.imatmul(x, ag.ones(2)),
        ):
            with pytest.raises(
                RuntimeError, match=r"output with shape \[2\] doesn't match the broadcast shape"
            ) as info:
                change()
            assert __file__ in str(info.value)
        assert x.tolist() == [1.0, 2.0]
        assert x.grad_fn is node


@pytest.mark.parametrize(
    ("make", "change"),
    [
        (lambda: ag.tensor([1, 2]), lambda x: operator.iadd(x, 1.5)),
        (lambda: ag.tensor([1, 2]), lambda x: operator.itruediv(x, 2)),
        (lambda: ag.tensor([1, 2]), lambda x: x.add_(ag.tensor([0.5, 0.5]))),
        (lambda: ag.tensor([1, 2]), lambda x: x.fill_(1.5)),
        (lambda: ag.tensor([1.0, 2.0]), lambda x: operator.imul(x, 1j)),
        (lambda: ag.tensor([1.0, 2.0]), lambda x: x.add_(ag.tensor([1j, 1j]))),
        (lambda: ag.tensor([1.0, 2.0]), lambda x: x.__setitem__(0, ag.tensor(1j))),
        (lambda: ag.tensor([1.0, 2.0]), lambda x: x.__setitem__(0, np.array(1j))),
    ],
)
def test_changes_of_kind_are_refused(make, change):
    for owns in (False, True):
        x = make()
        if owns:
            x[0] = 1
        dtype = x.dtype
        with pytest.raises(RuntimeError, match="can't be cast to the desired output type"):
            change(x)
        assert x.tolist() == [1, 2]
        assert x.dtype == dtype


def test_a_complex_number_into_a_real_tensor():
    x = ag.tensor([1.0, 2.0])
    for _ in range(2):
        with pytest.raises(RuntimeError, match="value cannot be converted to type float64 without overflow"):
            x[0] = 1j
        x[0] = 1.0
    assert x.tolist() == [1.0, 2.0]


def test_dtypes_of_the_same_kind_are_cast():
    x = ag.tensor([1.0, 2.0], dtype=ag.float32)
    x += ag.tensor([1.0, 1.0])
    x[0] = ag.tensor(0.5)
    x[1] = np.array(7.0)
    assert x.dtype == ag.float32
    assert x.tolist() == [0.5, 7.0]
    i = ag.tensor([1, 2])
    i += True
    i[0] = 9
    assert i.dtype == ag.int64
    assert i.tolist() == [9, 3]


@pytest.mark.parametrize("owns", [False, True])
@pytest.mark.parametrize(
    ("key", "value", "error"),
    [(5, 1.0, IndexError), (slice(0, 2), ["a", "b"], TypeError), (0, "text", TypeError), (..., np.ones(3), ValueError)],
)
def test_a_failed_assignment_changes_nothing(key, value, error, owns):
    x = ag.tensor([1.0, 2.0])
    if owns:
        x[0] = 1.0
    with pytest.raises(error):
        x[key] = value
    assert x.tolist() == [1.0, 2.0]
    x[0] = 3.0
    assert x.tolist() == [3.0, 2.0]


# -- retain_grad and hooks follow -------------------------------------------------------------------------------------


def test_retain_grad_follows_in_place_changes():
    x = leaf(1.0, 2.0)
    y = x * 2
    y.retain_grad()
    y *= 3
    y[0] = y[0] * 5
    assert y.retains_grad
    (y * 10).sum().backward()
    assert y.grad.tolist() == [10.0, 10.0]  # of the last value, not of the first
    assert x.grad.tolist() == [300.0, 60.0]


def test_retain_grad_survives_a_time_without_history():
    x = leaf(1.0, 2.0)
    y = x * 2
    y.retain_grad()
    y.copy_(ag.zeros(2))
    assert not y.requires_grad
    y += x
    assert y.retains_grad
    (y * 4).sum().backward()
    assert y.grad.tolist() == [4.0, 4.0]
    assert x.grad.tolist() == [4.0, 4.0]


def test_hooks_stay_with_the_value_they_were_registered_on():
    x = leaf(1.0, 2.0)
    y = x.clone()
    seen = {}
    y.register_hook(lambda g: seen.setdefault("before", g.tolist()) and None)
    y *= 3
    y.register_hook(lambda g: seen.setdefault("after", g.tolist()) and None)
    y.sum().backward()
    assert seen == {"before": [3.0, 3.0], "after": [1.0, 1.0]}


# -- owned buffers ----------------------------------------------------------------------------------------------------


def test_repeated_assignment_copies_once():
    x = ag.zeros(1000)
    x[0] = 1.0
    buffer = owned(x)
    assert buffer is not None
    for i in range(1000):
        x[i] = float(i)
    assert owned(x) is buffer
    assert x.tolist() == [float(i) for i in range(1000)]


def test_repeated_assignment_to_a_leaf_under_no_grad_copies_once():
    w = ag.zeros(10, requires_grad=True)
    y = (w * w).sum()
    with ag.no_grad():
        w[0] = 1.0
        buffer = owned(w)
        for i in range(10):
            w[i] = 5.0
        assert owned(w) is buffer is not None
    y.backward()
    assert w.grad.tolist() == [0.0] * 10


def test_repeated_recorded_assignment_copies_once():
    v = leaf(*np.arange(1.0, 101.0).tolist())
    x = ag.zeros(100)
    x[0] = v[0]
    buffer = owned(x)
    for i in range(1, 100):
        x[i] = v[i] * v[i - 1]
    assert owned(x) is buffer is not None
    (x * x).sum().backward()
    a = np.arange(1.0, 101.0)
    p = a[1:] * a[:-1]
    expected = np.zeros(100)
    expected[0] = 2 * a[0]
    expected[1:] += 2 * p * a[:-1]
    expected[:-1] += 2 * p * a[1:]
    assert v.grad.tolist() == expected.tolist()


def plain(values):
    return values if isinstance(values, list) else values.tolist()


#: What gives the tensor itself, as in PyTorch; what gives a value of its own.
THEMSELVES = {
    "asarray": lambda x: ag.asarray(x),
    "as_tensor": lambda x: ag.as_tensor(x),
    "to a dtype": lambda x: x.to(ag.float64),
    "to a device": lambda x: x.to("cpu"),
    "to_device": lambda x: x.to_device("numpy"),
    "cpu": lambda x: x.cpu(),
    "double": lambda x: x.double(),
    "type": lambda x: x.type(ag.float64),
    "astype without a copy": lambda x: ag.astype(x, ag.float64, copy=False),
    "contiguous": lambda x: x.contiguous(),
    "real": lambda x: x.real,
    "conj": lambda x: x.conj(),
    "t": lambda x: x.t(),
    "atleast_1d": lambda x: ag.extra.atleast_1d(x),
    "dropout": lambda x: ag.nn.functional.dropout(x, training=False),
    "Dropout": lambda x: ag.nn.Dropout().eval()(x),
    "Identity": lambda x: ag.nn.Identity()(x),
}
VALUES = {
    "asarray with a copy": lambda x: ag.asarray(x, copy=True),
    "clone": lambda x: x.clone(),
    "detach": lambda x: x.detach(),
    "from_dlpack": lambda x: ag.from_dlpack(x),
    "astype": lambda x: ag.astype(x, ag.float64),
    "reshape": lambda x: x.reshape(2),
    "flatten": lambda x: x.flatten(),
    "squeeze": lambda x: x.squeeze(),
    "expand": lambda x: x.expand(2),
    "positive": lambda x: +x,
    "key": lambda x: x[...],
    "function real": lambda x: ag.real(x),
    "function conj": lambda x: ag.conj(x),
    "broadcast_to": lambda x: ag.broadcast_to(x, (2,)),
    "permute_dims": lambda x: ag.permute_dims(x, (0,)),
    "concat": lambda x: ag.concat([x]),
    "sum over no axes": lambda x: ag.sum(x, axis=()),
}


@pytest.mark.parametrize("give", THEMSELVES.values(), ids=THEMSELVES)
def test_what_has_nothing_to_do_gives_the_tensor_itself(give):
    x = ag.tensor([1.0, 2.0])
    y = give(x)
    y += 1.0
    assert y is x
    assert x.tolist() == [2.0, 3.0]


@pytest.mark.parametrize("give", VALUES.values(), ids=VALUES)
def test_what_gives_a_value_of_its_own(give):
    x = ag.tensor([1.0, 2.0])
    y = give(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ag.LostWriteWarning)
        y += 1.0
    assert (x.tolist(), y.tolist()) == ([1.0, 2.0], [2.0, 3.0])


READERS = {
    "slice": lambda x: x[0:2],
    "detach": lambda x: x.detach(),
    "reshape": lambda x: x.reshape(2, 1),
    "numpy": lambda x: x.detach().numpy(),
    "expand": lambda x: x.expand(3, 2),
    "stack": lambda x: ag.stack([x, x]),
    "dlpack": lambda x: np.from_dlpack(x.detach()),
    "list": lambda x: [row.tolist() for row in x],
    "namespace function": lambda x: ag.multiply(x, 1.0),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_what_was_read_between_assignments_does_not_change(read):
    x = ag.tensor([1.0, 2.0])
    x[0] = 5.0
    first = read(x)
    x[0] = 6.0
    second = read(x)
    x[...] = 0.0
    x += 1.0
    x[1] = 7.0
    assert plain(first) == plain(read(ag.tensor([5.0, 2.0])))
    assert plain(second) == plain(read(ag.tensor([6.0, 2.0])))
    assert x.tolist() == [1.0, 7.0]


def test_a_slice_read_before_an_assignment():
    x = ag.tensor([1.0, 2.0, 3.0])
    x[2] = 4.0
    y = x[0:2]
    x[0] = 9.0
    assert y.tolist() == [1.0, 2.0]
    with pytest.warns(ag.LostWriteWarning):
        y[1] = 8.0
    assert x.tolist() == [9.0, 2.0, 4.0]


def test_saved_values_end_ownership():
    x = leaf(1.0, 2.0)
    b = ag.zeros(2)
    b[0] = 3.0
    b[1] = 4.0
    y = (x * b).sum()
    b[0] = 100.0
    y.backward()
    assert x.grad.tolist() == [3.0, 4.0]


def test_reading_while_another_thread_assigns():
    x = ag.zeros(10)
    failures, done = [], threading.Event()

    def read():
        while not done.is_set():
            try:
                assert x.detach().shape == (x * 1.0).shape == (10,)
            except Exception as error:  # noqa: BLE001 (any is a failure)
                failures.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        readers = [threading.Thread(target=read) for _ in range(3)]
        for reader in readers:
            reader.start()
        for i in range(5000):
            x[i % 10] = float(i)
    finally:
        sys.setswitchinterval(interval)
        done.set()
    for reader in readers:
        reader.join()
    assert failures == []
    assert x.tolist() == [4990.0 + i for i in range(10)]


def test_a_tensor_assigned_to_itself():
    x = ag.tensor([1.0, 2.0, 3.0])
    x[0] = 5.0
    x[:] = x
    assert x.tolist() == [5.0, 2.0, 3.0]
    x[0] = 6.0
    x[1:] = x[:-1]
    assert x.tolist() == [6.0, 6.0, 2.0]
    x[x > 5.0] = 0.0
    assert x.tolist() == [0.0, 0.0, 2.0]
    i = ag.tensor([2, 0, 1])
    i[0] = 1
    i[i] = i
    assert i.tolist() == [0, 1, 1]


def test_two_tensors_never_own_one_buffer():
    x = ag.zeros(3)
    x[0] = 1.0
    y = x.detach()
    with pytest.warns(ag.LostWriteWarning):
        y[1] = 2.0
    x[2] = 3.0
    assert (x.tolist(), y.tolist()) == ([1.0, 0.0, 3.0], [1.0, 2.0, 0.0])
    x.copy_(y)
    y[0] = 7.0
    x[1] = 8.0
    assert (x.tolist(), y.tolist()) == ([1.0, 8.0, 0.0], [7.0, 2.0, 0.0])


def test_copy_does_not_alias_the_users_array():
    source = np.array([1.0, 2.0])
    x = ag.zeros(2)
    x.copy_(source)
    source[0] = 9.0
    assert x.tolist() == [1.0, 2.0]
    x[...] = source
    source[1] = 9.0
    assert x.tolist() == [9.0, 2.0]


def test_an_owner_is_an_ordinary_tensor():
    x = ag.zeros(2)
    x[0] = 1.0
    assert isinstance(x, ag.Tensor)
    assert type(x).__name__ == "Tensor"
    assert repr(x) == "tensor([1., 0.])"
    assert hash(x) == hash(x)
    assert x.shape == (2,)
    x[1] = 1.0
    x.label = "kept"
    x[0] = 2.0
    assert x.label == "kept"
    assert type(x.detach()) is ag.Tensor


def test_accumulated_gradients_do_not_change_what_was_read():
    x = leaf(1.0, 2.0)
    for _ in range(3):
        (x * 3).sum().backward()
    seen = x.grad.detach()
    array = x.grad.numpy()
    product = x.grad * 1.0
    for _ in range(2):
        (x * 3).sum().backward()
    assert x.grad.tolist() == [15.0, 15.0]
    assert seen.tolist() == product.tolist() == array.tolist() == [9.0, 9.0]


def test_a_0d_gradient_accumulated_is_still_an_array():
    x = ag.tensor(3.0, requires_grad=True)
    for _ in range(3):
        (x * 2).backward()
    x.grad[...] = 5.0
    assert x.grad.item() == 5.0
    assert type(x.grad.numpy()) is np.ndarray


def test_what_is_written_to_data_is_the_tensors():
    p = ag.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = (p * p).sum()
    p.data.mul_(2)
    p.data[0] = -9.0
    p.data[1] += 0.5
    p.data.mul_(0.5).add_(1)
    assert p.tolist() == [-3.5, 3.25, 4.0]
    p.data -= 1.0
    p.data.clamp_(-1.0, 2.5)
    assert p.tolist() == [-1.0, 2.25, 2.5]
    assert (p.requires_grad, p.is_leaf) == (True, True)
    y.backward()
    assert p.grad.tolist() == [2.0, 4.0, 6.0]  # the values that were used
    p.grad.data.clamp_(max=4.5)
    assert p.grad.tolist() == [2.0, 4.0, 4.5]
    d = p.data
    d.fill_(4.0)
    d.copy_(d + 1)
    d[0] = 0.0
    assert p.tolist() == d.tolist() == [0.0, 5.0, 5.0]
    p.data.mul_(ag.tensor([1.0, 2.0, 3.0], requires_grad=True))
    assert p.tolist() == [0.0, 10.0, 15.0]
    assert p.grad_fn is None
    q = p * 2
    q.data.zero_()
    assert q.tolist() == [0.0, 0.0, 0.0]
    assert q.grad_fn is not None


def test_data_of_then_is_a_value_once_the_tensor_has_another():
    p = ag.tensor([1.0, 2.0], requires_grad=True)
    d = p.data
    with ag.no_grad():
        p += 1.0
    with pytest.warns(ag.LostWriteWarning):
        d.mul_(10.0)
    d.mul_(10.0)  # it has a value of its own by now
    assert (p.tolist(), d.tolist()) == ([2.0, 3.0], [100.0, 200.0])
    d = p.data
    p.data = ag.zeros(2)
    with pytest.warns(ag.LostWriteWarning):
        d += 1.0
    assert p.tolist() == [0.0, 0.0]
    del p
    d = (d * 1.0).data
    d += 1.0  # nobody else sees it
    assert d.tolist() == [4.0, 5.0]


def test_data_of_a_view_writes_to_the_view_and_warns():
    x = ag.ones((2, 2))
    row = x[0]
    with pytest.warns(ag.LostWriteWarning):
        row.data.mul_(2.0)
    assert (row.tolist(), x.tolist()) == ([2.0, 2.0], [[1.0, 1.0], [1.0, 1.0]])
    part = x.data[0]
    with pytest.warns(ag.LostWriteWarning):
        part += 1.0


def test_a_write_to_data_in_a_transform_is_one_to_the_tensor():
    t = ag.zeros(3)
    with pytest.raises(RuntimeError, match="vmap: inplace arithmetic"):
        ag.func.vmap(lambda x: t.data.add_(x))(ag.ones(2, 3))
    assert t.tolist() == [0.0, 0.0, 0.0]
    assert ag.func.grad(lambda x: (t.data.copy_(x) * 0 + x * x).sum())(ag.ones(3)).tolist() == [2.0, 2.0, 2.0]
    assert (t.tolist(), t.requires_grad) == ([1.0, 1.0, 1.0], False)


def test_a_compiled_step_writes_to_data():
    p = ag.tensor([1.0, 2.0], requires_grad=True)

    @ag.compile
    def step(x):
        p.grad = None
        (p * x).sum().backward()
        p.data.sub_(0.5 * p.grad.data)
        return p.sum()

    expected = np.array([1.0, 2.0])
    for i in range(5):
        step(ag.tensor([1.0 + i, 2.0]))
        expected -= 0.5 * np.array([1.0 + i, 2.0])
        assert p.tolist() == expected.tolist()


def test_values_of_a_state_dict_are_the_modules_until_it_changes():
    layer = ag.nn.Linear(2, 1)
    for value in layer.state_dict().values():
        value.fill_(3.0)
    assert (layer.weight.tolist(), layer.bias.tolist()) == ([[3.0, 3.0]], [3.0])
    before = layer.state_dict()
    with ag.no_grad():
        layer.bias += 1.0
    with pytest.warns(ag.LostWriteWarning):
        before["bias"].zero_()
    assert layer.bias.tolist() == [4.0]
