"""What is written down: arrays by identity, kernels and rules however they run. Replays are compared with the calls themselves."""

from __future__ import annotations

import inspect
import sys

import numpy as np
import pytest

import agrad as ag
from agrad.func import CaptureError, capture
from agrad.program import recording
from agrad.utils.checkpoint import checkpoint


def same(function, first, then):
    """Capture with some arguments, replay with others; return the program."""
    program = capture(function)(*first)
    pairs = zip(ag.tree.flatten(program(*then))[0], ag.tree.flatten(function(*then))[0], strict=True)
    for found, wanted in pairs:
        np.testing.assert_array_equal(found.detach().numpy(), wanted.detach().numpy(), strict=True)
    return program


def tensors(*shapes, seed=0, requires_grad=False):
    rng = np.random.default_rng(seed)
    return [ag.tensor(rng.normal(size=shape), requires_grad=requires_grad) for shape in shapes]


def test_a_kernel_that_gives_its_operand_back_makes_a_value_of_its_own():
    def f(x):
        with ag.no_grad():
            still = ag.astype(x, x.dtype, copy=False)
        y = still * x
        return y, ag.autograd.grad(y.sum(), x)[0]

    same(f, tensors((3,), requires_grad=True), tensors((3,), seed=1, requires_grad=True))


def test_what_is_not_batched_is_no_constant_under_vmap():
    def pulled(x, g):
        y, pull = ag.func.vjp(lambda x: ag.clip(x, -0.5, 0.5), x)
        return y, pull(g)[0]

    program = same(ag.func.vmap(pulled, (0, None)), tensors((2, 2, 3), (2, 3)), tensors((2, 2, 3), (2, 3), seed=1))
    assert all(program.shapes[number].shape == () for number in program.constants)


def test_a_value_put_where_a_mask_is_true_is_a_choice():
    def f(x):
        y = x * 1.0
        y[x > 0] = 0.5
        return y, ag.autograd.grad(y.sum(), x)[0]

    program = same(f, tensors((3, 4), requires_grad=True), tensors((3, 4), seed=1, requires_grad=True))
    assert "where" in {step.op for step in program.steps}


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[x > 0],
        lambda x: ag.setitem(x, x > 0, x[:1] * ag.ones(int((x.detach().numpy() > 0).sum()))),
        lambda x: ag.repeat(x, ag.astype(x > 0, "int64")),
        ag.unique_values,
    ],
)
def test_shapes_that_depend_on_values_are_refused(function):
    with pytest.raises(CaptureError, match=r"depends on values|a value is requested"):
        capture(function)(ag.tensor([1.0, -2.0, 3.0]))


def test_a_mask_that_is_part_of_the_program_decides_at_once():
    same(lambda x: x[[True, False, True]] * 2, tensors((3,)), tensors((3,), seed=1))


def test_indices_are_values_in_second_order_too():
    def f(x, i, g):
        (first,) = ag.autograd.grad(ag.take(x, i, axis=1) ** 2, x, g, create_graph=True)
        return first, ag.autograd.grad(first.sum(), (x, g))

    first, then = (tensors((2, 3), (2, 4), seed=seed, requires_grad=True) for seed in (0, 1))
    same(f, (first[0], ag.tensor([0, 1, 1, 2]), first[1]), (then[0], ag.tensor([2, 1, 0, 0]), then[1]))


def test_checks_of_values_are_left_out():
    def f(i, w):
        return ag.nn.functional.embedding(i, w), ag.nn.functional.one_hot(i, 4), ag.extra.bincount(i, length=4)

    same(f, (ag.tensor([0, 1]), *tensors((4, 3))), (ag.tensor([3, 0]), *tensors((4, 3), seed=1)))
    with pytest.raises(CaptureError, match="a value is requested"):
        capture(ag.nn.functional.one_hot)(ag.tensor([0, 1]))


def test_an_assignment_to_a_tensor_from_outside():
    w = ag.tensor([1.0, 2.0, 3.0])

    def f(x):
        w[0] = w[1] * x
        return w.sum()

    program = capture(f)(ag.tensor(2.0))
    assert w.tolist() == [4.0, 2.0, 3.0]
    assert program(ag.tensor(5.0)).item() == 15.0
    assert w.tolist() == [10.0, 2.0, 3.0]


def test_a_recomputation_has_a_region_of_its_own():
    """Each checkpoint's second run is told apart from the first, and draws what that drew."""

    def g(x):
        y = x
        for _ in range(2):
            y = checkpoint(lambda y: ag.nn.functional.dropout(ag.sin(ag.sin(y)), 0.5), y, use_reentrant=False)
        return y, ag.autograd.grad(y.sum(), x)[0]

    program = capture(g)(*tensors((64,), requires_grad=True))
    assert sorted({step.region for step in program.steps if step.op == "sin"}) == [0, 1, 2]
    assert sorted({step.region for step in program.steps if step.op == "random"}) == [0, 1, 2]
    assert len(program.keys) == 2
    (x,) = tensors((64,), seed=1, requires_grad=True)
    ag.manual_seed(3)
    found = program(x)
    ag.manual_seed(3)
    for one, other in zip(found, g(x), strict=True):
        np.testing.assert_array_equal(one.detach().numpy(), other.detach().numpy())


def test_a_device_is_the_programs_own(strict_backend, monkeypatch):
    """What rules make beside an operand takes the library's device, of whatever class, which no program has to hold."""
    backend = ag.ones(1, device=strict_backend)._spec.backend
    x = ag.asarray([1.0, 3.0, 2.0], device=strict_backend, requires_grad=True)
    monkeypatch.setitem(vars(backend), "native_devices", dict)
    of_devices, f = type(x._raw.device), lambda x: ag.autograd.grad(ag.diff(x * x).sum() + ag.max(x), x)[0]
    name, of_devices.__name__ = of_devices.__name__, "place"
    try:
        program = capture(f)(x)
    finally:
        of_devices.__name__ = name
    y = ag.asarray([2.0, -1.0, 5.0], device=strict_backend, requires_grad=True)
    assert program(y).tolist() == [-4.0, 0.0, 11.0]


def test_a_program_runs_on_the_device_it_is_given(strict_backend):
    devices = ag.namespace(strict_backend).__array_namespace_info__().devices()

    def f(x):
        made = ag.sin(x * 2.0) + ag.arange(3, dtype="float64", device=x.device) * ag.ones(3, device=x.device)
        return made, ag.autograd.grad(ag.sum(made * made), x)[0]

    for captured in devices:
        program = capture(f)(ag.asarray([1.0, 3.0, 2.0], device=captured, requires_grad=True))
        compiled = ag.compile(f)
        for run in (program, compiled, compiled):
            for device in devices:
                x = ag.asarray([2.0, -1.0, 5.0], device=device, requires_grad=True)
                for found, wanted in zip(run(x), f(x), strict=True):
                    assert found.device == device
                    assert found.tolist() == wanted.tolist()


def test_an_interrupt_while_arrays_are_forgotten_is_raised():
    """Python swallows what is raised in a callback of a weak reference: none of the recorder's runs Python code."""

    def moment(frame, event, _argument):  # where a function of the recorder's begins, a signal is handled
        nonlocal left
        code = frame.f_code
        # an error in a generator may be nobody's, as it is closed
        if event == "call" and code.co_filename == recording.__file__ and not code.co_flags & inspect.CO_GENERATOR:
            left -= 1
            if left == 0:
                raise KeyboardInterrupt

    for at in range(1, 5000):
        left, before = at, sys.getprofile()
        try:
            sys.setprofile(moment)
            capture(lambda x: ag.sum(ag.sin(x * 2.0) * ag.cos(x)))(np.ones(3))
        except KeyboardInterrupt:
            continue
        finally:
            sys.setprofile(before)
        break
    assert left > 0, f"the interrupt at moment {at} was swallowed"
    assert at > 50
