"""What beginners' tutorials show of PyTorch works with `import agrad as torch`, and shows the same."""

from __future__ import annotations

import math
import re

import pytest

import agrad as torch

NETWORK = ("a", "w1", "w2", "w3", "w4")


def network(shape=(3, 3)):
    """Give random leaves of the five-neuron network L = 10 - (w3 w1 a + w4 w2 a)."""
    return {name: torch.randn(shape, requires_grad=True) for name in NETWORK}


def forward(n):
    b = n["w1"] * n["a"]
    c = n["w2"] * n["a"]
    return b, c, n["w3"] * b + n["w4"] * c


def numbers(tensor):
    """Give all elements of a tensor as floats, in order."""
    values, flat = [tensor.tolist()], []
    while values:
        value = values.pop(0)
        if isinstance(value, list):
            values = value + values
        else:
            flat.append(value)
    return flat


def closed_form(n):
    """Give dL/dleaf of the network by hand, element by element."""
    a, w1, w2, w3, w4 = (numbers(n[name]) for name in NETWORK)
    return {
        "a": [-(r * p + s * q) for p, q, r, s in zip(w1, w2, w3, w4, strict=True)],
        "w1": [-r * v for r, v in zip(w3, a, strict=True)],
        "w2": [-s * v for s, v in zip(w4, a, strict=True)],
        "w3": [-p * v for p, v in zip(w1, a, strict=True)],
        "w4": [-q * v for q, v in zip(w2, a, strict=True)],
    }


def check_gradients(n, scale=1.0):
    for name, expected in closed_form(n).items():
        assert n[name].grad.shape == n[name].shape
        assert numbers(n[name].grad) == pytest.approx([scale * value for value in expected], rel=1e-12), name


# -- making tensors ---------------------------------------------------------------------------------------------------


def test_tensor_of_a_shape_is_uninitialised():
    tsr = torch.Tensor(3, 5)
    assert isinstance(tsr, torch.Tensor)
    assert tsr.shape == (3, 5)
    assert not tsr.requires_grad
    assert tsr.is_leaf
    text = repr(tsr)
    assert text.startswith("tensor([[")
    assert text.count("]") == 4


def test_requires_grad_in_the_constructor():
    t1 = torch.randn((3, 3), requires_grad=True)
    assert t1.shape == (3, 3)
    assert t1.requires_grad
    assert torch.randn(5, 3, requires_grad=True).shape == (5, 3)


def test_requires_grad_by_assignment():
    t2 = torch.FloatTensor(3, 2)
    assert t2.shape == (3, 2)
    assert torch.isdtype(t2.dtype, torch.float32)
    assert not t2.requires_grad
    t2.requires_grad = True
    assert t2.requires_grad
    assert t2.is_leaf


def test_requires_grad_by_method():
    x = torch.ones(5)
    assert x.requires_grad_(True) is x
    assert x.requires_grad
    assert not x.requires_grad_(False).requires_grad


def test_ones_zeros_and_eye():
    assert torch.ones(5).tolist() == [1.0] * 5
    assert torch.zeros(3).tolist() == [0.0] * 3
    assert torch.eye(2, requires_grad=True).tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert torch.ones((2, 3)).shape == (2, 3)


# -- the graph --------------------------------------------------------------------------------------------------------


def test_grad_fn_of_a_leaf_and_of_a_sum(capsys):
    n = network()
    _, _, d = forward(n)
    print("The grad fn for a is", n["a"].grad_fn)
    print("The grad fn for d is", d.grad_fn)
    first, second = capsys.readouterr().out.splitlines()
    assert first == "The grad fn for a is None"
    assert re.fullmatch(r"The grad fn for d is <AddBackward0 object at 0x[0-9a-fA-F]+>", second)


def test_names_of_the_nodes():
    b, _, d = forward(network())
    assert b.grad_fn.name() == "MultiplyBackward0"
    assert type(b.grad_fn).__name__.lower().startswith("mul")
    assert (10 - d).grad_fn.name() == "SubtractBackward0"
    assert (10 - d).sum().grad_fn.name() == "SumBackward0"


def test_requires_grad_is_contagious_and_leaves_are_known():
    n = network()
    plain = torch.ones((3, 3))
    b, c, d = forward(n)
    assert all(n[name].is_leaf and n[name].requires_grad for name in NETWORK)
    assert not any(tensor.is_leaf for tensor in (b, c, d))
    assert (plain * n["a"]).requires_grad
    result = plain * plain
    assert not result.requires_grad
    assert result.grad_fn is None
    assert result.is_leaf


def test_the_graph_grows_as_functions_are_called():
    a = torch.randn((3, 3), requires_grad=True)
    w1 = torch.randn((3, 3), requires_grad=True)
    assert a.grad_fn is w1.grad_fn is None
    b = w1 * a
    (to_w1, _), (to_a, _) = b.grad_fn.next_functions
    assert to_w1.variable is w1
    assert to_a.variable is a


def test_printing_a_tensor_with_history():
    x = torch.ones(3, requires_grad=True)
    assert repr(x) == "tensor([1., 1., 1.], requires_grad=True)"
    assert repr(x + 1) == "tensor([2., 2., 2.], grad_fn=<AddBackward0>)"


# -- backward ---------------------------------------------------------------------------------------------------------


def test_backward_of_a_matrix_is_refused():
    n = network()
    _, _, d = forward(n)
    L = 10 - d
    with pytest.raises(RuntimeError, match=r"^grad can be implicitly created only for scalar outputs"):
        L.backward()
    assert all(n[name].grad is None for name in NETWORK)


def test_backward_of_the_sum():
    n = network()
    _, _, d = forward(n)
    L = (10 - d).sum()
    L.backward()
    check_gradients(n)


def test_backward_with_ones_for_every_element():
    n = network()
    _, _, d = forward(n)
    L = 10 - d
    L.backward(torch.ones(L.shape))
    check_gradients(n)


def test_backward_with_an_uneven_cotangent():
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (x * x).backward(torch.tensor([1.0, 10.0, 0.0]))
    assert x.grad.tolist() == [2.0, 40.0, 0.0]


def test_backward_of_a_scalar_starts_from_one():
    for arguments in ((), (torch.tensor(1.0),)):
        x = torch.tensor([3.0, 4.0], requires_grad=True)
        (x**2).sum().backward(*arguments)
        assert x.grad.tolist() == [6.0, 8.0]


def test_a_worked_network():
    n = {
        name: torch.tensor(value, requires_grad=True)
        for name, value in {"a": 2.0, "w1": 3.0, "w2": 5.0, "w3": 7.0, "w4": 11.0}.items()
    }
    b, c, d = forward(n)
    L = 10 - d
    assert (b.item(), c.item(), d.item(), L.item()) == (6.0, 10.0, 152.0, -142.0)
    L.backward()
    # Two paths lead from L to a: dL/da = -(w3 w1 + w4 w2).
    assert {name: n[name].grad.item() for name in NETWORK} == {
        "a": -76.0,
        "w1": -14.0,
        "w2": -22.0,
        "w3": -6.0,
        "w4": -10.0,
    }


def test_gradient_of_an_intermediate_result_is_kept_on_request():
    n = network(shape=())
    b, _, d = forward(n)
    d.retain_grad()
    b.retain_grad()
    L = 10 - d
    L.backward()
    assert d.grad.item() == -1.0
    assert b.grad.item() == pytest.approx(-n["w3"].item())


def test_gradient_of_an_intermediate_result_is_not_kept_otherwise():
    n = network()
    _, _, d = forward(n)
    d.sum().backward()
    with pytest.warns(UserWarning, match="The .grad attribute of a Tensor that is not a leaf Tensor is being accessed"):
        assert d.grad is None


def test_a_step_of_gradient_descent():
    learning_rate = 0.5
    w1 = torch.tensor([1.0, -2.0], requires_grad=True)
    (w1 * w1).sum().backward()
    old = w1
    w1 = w1 - learning_rate * w1.grad
    assert w1.tolist() == [0.0, 0.0]
    assert old.tolist() == [1.0, -2.0]
    assert not w1.is_leaf


def test_descent_finds_the_minimum():
    x = torch.tensor([5.0], requires_grad=True)
    for _ in range(60):
        loss = ((x - 3.0) ** 2).sum()
        loss.backward()
        with torch.no_grad():
            x -= 0.25 * x.grad
        x.grad.zero_()
    assert x.item() == pytest.approx(3.0, abs=1e-12)
    assert x.is_leaf
    assert x.requires_grad


# -- twice ------------------------------------------------------------------------------------------------------------


def test_a_second_backward_is_refused():
    n = network()
    _, _, d = forward(n)
    loss = (10 - d).sum()
    loss.backward()
    with pytest.raises(RuntimeError, match=r"^Trying to backward through the graph a second time") as caught:
        loss.backward()
    assert "already been freed" in str(caught.value)
    assert "Specify retain_graph=True" in str(caught.value)
    check_gradients(n)


def test_retain_graph_accumulates():
    n = network()
    _, _, d = forward(n)
    loss = (10 - d).sum()
    loss.backward(retain_graph=True)
    check_gradients(n)
    loss.backward(retain_graph=True)
    check_gradients(n, scale=2.0)
    loss.backward()
    check_gradients(n, scale=3.0)
    with pytest.raises(RuntimeError, match="a second time"):
        loss.backward()


def test_a_new_forward_pass_makes_a_new_graph():
    n = network()
    for count in (1, 2):
        _, _, d = forward(n)
        (10 - d).sum().backward()
        check_gradients(n, scale=count)


def test_accumulation_and_zeroing_as_printed(capsys):
    inp = torch.eye(5, requires_grad=True)
    out = (inp + 1).pow(2)
    out.backward(torch.ones_like(inp), retain_graph=True)
    print("First call\n", inp.grad)
    out.backward(torch.ones_like(inp), retain_graph=True)
    print("\nSecond call\n", inp.grad)
    inp.grad.zero_()
    out.backward(torch.ones_like(inp), retain_graph=True)
    print("\nCall after zeroing gradients\n", inp.grad)

    def rows(on, off):
        """Give the text of the matrix with `on` on the diagonal and `off` beside it."""
        lines = [", ".join(f"{on if i == j else off}." for j in range(5)) for i in range(5)]
        return "tensor([[" + "],\n        [".join(lines) + "]])"

    # d/dx (x + 1)^2 = 2 (x + 1): 4 where x is 1, 2 where it is 0.
    assert capsys.readouterr().out == (
        f"First call\n {rows(4, 2)}\n\nSecond call\n {rows(8, 4)}\n\nCall after zeroing gradients\n {rows(4, 2)}\n"
    )


def test_a_gradient_may_be_dropped_instead():
    x = torch.tensor([2.0], requires_grad=True)
    for _ in range(2):
        x.grad = None
        (x * x).sum().backward()
        assert x.grad.tolist() == [4.0]


# -- a layer and its loss ---------------------------------------------------------------------------------------------


def layer():
    x = torch.ones(5)
    y = torch.zeros(3)
    w = torch.randn(5, 3, requires_grad=True)
    b = torch.randn(3, requires_grad=True)
    return x, y, w, b


def test_one_layer_network(capsys):
    x, y, w, b = layer()
    z = torch.matmul(x, w) + b
    loss = torch.nn.functional.binary_cross_entropy_with_logits(z, y)
    print("Gradient function for z =", z.grad_fn)
    print("Gradient function for loss =", loss.grad_fn)
    first, second = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"Gradient function for z = <AddBackward0 object at 0x[0-9a-fA-F]+>", first)
    assert re.fullmatch(
        r"Gradient function for loss = <BinaryCrossEntropyWithLogitsBackward0 object at 0x[0-9a-fA-F]+>", second
    )

    logits = numbers(z)
    rows, offsets = w.tolist(), b.tolist()
    assert logits == pytest.approx([sum(row[k] for row in rows) + offsets[k] for k in range(3)])
    # With targets of zero the loss is the mean of log(1 + e^z), and its derivative by z the sigmoid over three.
    assert loss.shape == ()
    assert loss.item() == pytest.approx(sum(math.log1p(math.exp(value)) for value in logits) / 3)
    loss.backward()
    expected = [1 / (1 + math.exp(-value)) / 3 for value in logits]
    assert b.grad.tolist() == pytest.approx(expected)
    assert w.grad.shape == (5, 3)
    for row in w.grad.tolist():  # The inputs are ones, so every row is the gradient of b.
        assert row == pytest.approx(expected)
    assert x.grad is None
    assert y.grad is None


def test_gradients_of_the_layer_as_printed():
    x, y, w, b = torch.ones(2), torch.zeros(3), torch.zeros((2, 3), requires_grad=True), torch.zeros(3)
    b.requires_grad_(True)
    torch.nn.functional.binary_cross_entropy_with_logits(torch.matmul(x, w) + b, y).backward()
    # Sigmoid(0) / 3 = 1 / 6.
    assert repr(w.grad) == "tensor([[0.1667, 0.1667, 0.1667],\n        [0.1667, 0.1667, 0.1667]])"
    assert repr(b.grad) == "tensor([0.1667, 0.1667, 0.1667])"


# -- not recording ----------------------------------------------------------------------------------------------------


def test_no_grad_with_parentheses(capsys):
    x, _, w, b = layer()
    z = torch.matmul(x, w) + b
    print(z.requires_grad)
    with torch.no_grad():
        z = torch.matmul(x, w) + b
    print(z.requires_grad)
    assert capsys.readouterr().out == "True\nFalse\n"
    assert z.grad_fn is None
    assert (w * 2).requires_grad


def test_no_grad_without_parentheses():
    _, _, w, b = layer()
    with torch.no_grad:
        assert not (w + b).requires_grad
        with torch.no_grad:
            assert not (w + b).requires_grad
        assert not (w + b).requires_grad
    assert (w + b).requires_grad
    with pytest.raises(KeyError), torch.no_grad:
        raise KeyError
    assert (w + b).requires_grad


def test_no_grad_around_a_function():
    _, _, w, _ = layer()

    @torch.no_grad()
    def infer(v):
        return v * 2

    assert not infer(w).requires_grad
    assert (w * 2).requires_grad


def test_detach():
    x, _, w, b = layer()
    z = torch.matmul(x, w) + b
    z_det = z.detach()
    assert not z_det.requires_grad
    assert z_det.grad_fn is None
    assert z_det.tolist() == z.tolist()
    assert z.requires_grad
    (z * z_det).sum().backward()  # The detached factor counts as a constant.
    assert b.grad.tolist() == pytest.approx(z.tolist())


def test_frozen_parameters_take_no_part():
    x = torch.tensor([1.0, 2.0])
    frozen = torch.tensor([3.0, 4.0], requires_grad=True)
    trained = torch.tensor([5.0, 6.0], requires_grad=True)
    frozen.requires_grad = False
    hidden = x * frozen
    assert not hidden.requires_grad
    (hidden * trained).sum().backward()
    assert frozen.grad is None
    assert trained.grad.tolist() == [3.0, 8.0]


def test_control_flow_may_change_the_graph():
    x = torch.tensor(2.0, requires_grad=True)
    for power in (1, 2, 3):
        y = x
        for _ in range(power - 1):
            y = y * x
        if power == 3:
            y = -y
        x.grad = None
        y.backward()
        assert x.grad.item() == {1: 1.0, 2: 4.0, 3: -12.0}[power]
