"""A backward that fails leaves every .grad as it was, and its message names the operation and the user's own line."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import textwrap

import pytest

import agrad as ag
from agrad import Function
from agrad.core import errors


def leaf(*values):
    return ag.tensor(list(values), requires_grad=True)


def function(backward):
    return type("F", (Function,), {"forward": staticmethod(lambda ctx, x: x * 2), "backward": staticmethod(backward)})


def boom(*args):
    raise ZeroDivisionError("boom")


def interrupt(g):
    raise KeyboardInterrupt("stop")


FAILURES = {
    "a Function that raises": (lambda y: function(boom).apply(y), ZeroDivisionError, "boom"),
    "too many gradients": (lambda y: function(lambda ctx, g: (g, g)).apply(y), RuntimeError, "incorrect number"),
    "a gradient of the wrong shape": (lambda y: function(lambda ctx, g: ag.ones(7)).apply(y), RuntimeError, "invalid"),
    "a gradient that is none": (lambda y: function(lambda ctx, g: "text").apply(y), RuntimeError, "expected Variable"),
    "a hook that raises": (lambda y: y.register_hook(boom) and y, ZeroDivisionError, "boom"),
    "a hook of the wrong shape": (lambda y: y.register_hook(lambda g: ag.ones(7)) and y, RuntimeError, "size of value"),
    "no backward": (lambda y: type("F", (Function,), {"forward": staticmethod(lambda ctx, x: x * 2)}).apply(y),
                    NotImplementedError, "You must implement either the backward or vjp method"),
    "an interrupt": (lambda y: y.register_hook(interrupt) and y, KeyboardInterrupt, "stop"),
}  # fmt: skip


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("preset", [False, True])
@pytest.mark.parametrize(("spoil", "error", "message"), FAILURES.values(), ids=FAILURES)
def test_every_grad_is_as_it_was(spoil, error, message, preset, create_graph):
    early, late, old = leaf(1.0, 2.0), leaf(3.0, 4.0), leaf(5.0, 6.0)
    if preset:
        for x in (early, late, old):
            (x * 7).sum().backward()
    before = [x.grad for x in (early, late, old)]
    values = [None if g is None else g.tolist() for g in before]
    y = early * old  # fails below, after `late` and `middle` got their gradients
    bad = spoil(y)
    middle = bad * 3
    middle.retain_grad()
    y.retain_grad()
    z = middle * late
    z.retain_grad()
    with pytest.raises(error, match=message):
        z.sum().backward(create_graph=create_graph)
    after = [x.grad for x in (early, late, old)]
    assert all(a is b for a, b in zip(after, before, strict=True))
    assert [None if g is None else g.tolist() for g in after] == values
    assert [t.grad for t in (middle, z, y)] == [None] * 3
    assert ag.is_grad_enabled()


def test_a_second_backward_leaves_every_grad_as_it_was():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    y = x * x
    y.sum().backward()
    z = y * w
    z.retain_grad()
    held, value = x.grad, x.grad.tolist()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        z.sum().backward()
    assert x.grad is held
    assert x.grad.tolist() == value
    assert w.grad is None
    assert z.grad is None


def test_inputs_that_are_results_stay_as_they_were_too():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    y = x * 3
    z = function(boom).apply(y) * w
    with pytest.raises(ZeroDivisionError):
        z.sum().backward(inputs=[z, w, x])
    assert w.grad is None
    assert z.retains_grad
    assert z.grad is None


def test_after_a_failure_the_next_backward_works():
    x = leaf(1.0, 2.0)
    handle = x.register_hook(boom)
    with pytest.raises(ZeroDivisionError):
        (x * x).sum().backward()
    handle.remove()
    (x * x).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_a_leaf_with_a_post_accumulate_hook_is_committed_when_ready():
    """The documented exception. Its turn comes after all that is newer, and before what is older."""
    x = leaf(1.0, 2.0)
    y = function(boom).apply(x)
    w = leaf(3.0, 4.0)
    w.register_post_accumulate_grad_hook(lambda p: None)
    with pytest.raises(ZeroDivisionError):
        (y * w).sum().backward()
    assert w.grad.tolist() == [2.0, 4.0]
    assert x.grad is None


# -- the user's own line ----------------------------------------------------------------------------------------------


def here(offset=0):
    return f"{__file__}:{inspect.currentframe().f_back.f_lineno + offset}"


def test_line_of_operators_methods_and_functions():
    x = leaf(1.0, 2.0)
    lines = {}
    a = x * x
    lines["*"] = here(-1)
    b = a.exp()
    lines["exp"] = here(-1)
    c = ag.sum(
        b,
    )
    lines["sum"] = here(-3)
    for node, line in ((a.grad_fn, lines["*"]), (b.grad_fn, lines["exp"]), (c.grad_fn, lines["sum"])):
        assert errors.line_of(node.code, node.lasti) == line


OPERATIONS = {
    "operator": lambda x: x * 2.0,
    "reflected operator": lambda x: 2.0 - x,
    "unary operator": lambda x: -x,
    "function": lambda x: ag.sin(x),
    "method": lambda x: x.reshape(2, 1),
    "method of methods": lambda x: x.norm(),
    "PyTorch's spelling": lambda x: x.clamp(0.0),
    "indexing": lambda x: x[0],
    "general call": lambda x: ag.concat([x, x]),
    "several results": lambda x: ag.unstack(x)[0],
    "namespace": lambda x: x.__array_namespace__().exp(x),
    "iteration": lambda x: next(iter(x)),
    "Function": lambda x: function(boom).apply(x),
    "clone": lambda x: x.clone(),
    "keyword": lambda x: ag.sum(x, axis=0),
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_line_of_every_way_to_call(operation):
    node = operation(leaf(1.0, 2.0)).grad_fn
    line = f"{__file__}:{operation.__code__.co_firstlineno}"
    assert errors.line_of(node.code, node.lasti) == line
    assert node.code is operation.__code__


def test_line_of_in_place_spellings():
    x = leaf(1.0, 2.0)
    y = x * 1
    y *= x
    assert errors.line_of(y.grad_fn.code, y.grad_fn.lasti) == here(-1)
    y[0] = 5.0
    assert errors.line_of(y.grad_fn.code, y.grad_fn.lasti) == here(-1)
    y.add_(x)
    assert errors.line_of(y.grad_fn.code, y.grad_fn.lasti) == here(-1)


def test_line_of_a_call_from_a_comprehension_and_a_generator():
    x = leaf(1.0, 2.0)
    (y,) = [x * k for k in (2.0,)]
    assert errors.line_of(y.grad_fn.code, y.grad_fn.lasti) == here(-1)
    y = next(x * k for k in (2.0,))
    assert errors.line_of(y.grad_fn.code, y.grad_fn.lasti) == here(-1)


def test_line_within_a_function_of_a_backward():
    seen = []

    def backward(ctx, g):
        y = g * 2
        seen.append(y.grad_fn)
        return y

    x = leaf(1.0, 2.0)
    v = leaf(1.0, 1.0)
    ag.grad(function(backward).apply(x), x, v, create_graph=True)
    assert seen[0].code is backward.__code__


def test_unknown_lines():
    assert errors.line_of(None, 0) == "an unknown line"


def test_user_code_in_a_folder_called_agrad_is_still_the_users(tmp_path):
    folder = tmp_path / "agrad_user" / "agrad"
    folder.mkdir(parents=True)
    script = folder / "model.py"
    script.write_text(
        textwrap.dedent("""\
            import sys
            sys.path = [p for p in sys.path if "agrad_user" not in p]
            import agrad as ag
            x = ag.tensor([1.0, 2.0], requires_grad=True)
            y = x * x
            try:
                y.backward()
            except RuntimeError as error:
                print(error)
            """)
    )
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    env = {**os.environ, "PYTHONPATH": root}
    result = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True, env=env)
    assert f"{script}:5" in result.stdout


def assign_lost(x):
    x.detach()[0] = 1.0


MESSAGES = {
    "leaf in place": (lambda x: x.add_(1.0), RuntimeError, "a leaf Variable that requires grad"),
    "lost assignment": (assign_lost, RuntimeError, "this assignment would be lost"),
    "numpy": (lambda x: x.numpy(), RuntimeError, r"Can't call numpy\(\)"),
    "operand": (lambda x: ag.sin("text"), TypeError, "sin\\(\\): argument 'x' must be Tensor, not str"),
    "operand of two": (lambda x: ag.multiply(x, None), TypeError, "argument 'x2' must be Tensor, not NoneType"),
    "operand without derivative": (lambda x: ag.argmax(None), TypeError, "argument 'x' must be Tensor, not NoneType"),
    "list operand": (lambda x: ag.concat(x), TypeError, "must be Tensor|must be"),
}


@pytest.mark.parametrize(("call", "error", "message"), MESSAGES.values(), ids=MESSAGES)
def test_messages_of_calls_name_the_line(call, error, message):
    with pytest.raises(error, match=message) as info:
        call(leaf(1.0, 2.0))
    assert f"Called at {__file__}:" in str(info.value)


def test_operators_with_anything_else_raise_type_errors():
    x = leaf(1.0)
    for other in ("text", None, object(), {}, ["text"]):
        with pytest.raises(TypeError, match="unsupported operand"):
            x / other
        with pytest.raises(TypeError, match=r"unsupported operand|can only concatenate"):
            other + x
    assert (x == "text") is False
