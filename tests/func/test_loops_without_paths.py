"""Values that no gradient leads to through a loop have none, in a program as in Python: None, not zeros.

The numbers are those of PyTorch's plain loop with the same steps: `python tests/func/test_loops_without_paths.py`, in an
environment with PyTorch, writes them.
"""

import json
import warnings
from pathlib import Path

try:
    import numpy as np
    import pytest

    import agrad as ag
except ImportError:  # PyTorch's environment
    pass

FILE = Path(__file__).with_suffix(".json")

NAMES = ("a", "b", "p", "q", "xs")
START = {"a": 0.5, "b": -1.5, "p": 2.0, "q": 0.25, "xs": [1.0, -2.0, 3.0]}


def outside(c, x, a, b):
    return (c[0] * a + b.detach() * x, c[1]), c[0]


def outside_only(c, x, a, b):
    return (c[0] + b.detach() * x, c[1]), x


def swapped(c, x, a, b):
    return (c[1].detach() * a, c[0] * b), c[0]


def dies_out(c, x, a, b):
    return (c[1] * a, c[1].detach() + b), x


def later(c, x, a, b):
    return (c[0] + c[1], c[1].detach() * a + x.detach() * b), c[0]


def rows(c, x, a, b):
    return (c[0] * a + x.detach(), c[1] * x), c[1]


def whole_numbers(c, x, a, b):
    return (c[0] * a + (b * x).argmax(), c[1]), x


def no_path_beside_one(c, x, a, b):
    return (c[0] * a, c[1] * b), x


STEPS = (outside, outside_only, swapped, dies_out, later, rows, whole_numbers, no_path_beside_one)
DETACHED = {outside: ("b",), outside_only: ("a", "b"), whole_numbers: ("b", "xs")}  # nothing is differentiable by these
LOSSES = {
    "first": lambda c, ys: c[0],
    "second": lambda c, ys: c[1],
    "results": lambda c, ys: ys.sum(),
    "all": lambda c, ys: c[0] * c[1] + ys.sum(),
}

CALLS = 3
SUBSETS = (NAMES, ("b",), ("p",))


def values(lib, wanted):
    return {name: lib.tensor(START[name], requires_grad=name in wanted) for name in NAMES}


def looped(lib, step, v):
    """The plain loop over rows."""
    c, ys = (v["p"], v["q"]), []
    for i in range(CALLS):
        c, y = step(c, v["xs"][i], v["a"], v["b"])
        ys.append(y)
    return c, lib.stack(ys)


def repeated(lib, step, v):
    """The plain loop of the same step."""
    c = v["p"], v["q"]
    for _ in range(CALLS):
        c = step(c, v["xs"][1], v["a"], v["b"])[0]
    return c, c[0] + c[1]


def found_in(v):
    return [None if t.grad is None else t.grad.tolist() for t in v.values()]


def first_order(loss, v):
    """The gradients of a loss; "none" if it needs none."""
    if not loss.requires_grad:
        return "none"
    loss.backward()
    return found_in(v)


def second_order(grad, loss, v):
    """The gradients of the sum of the squares of its gradients."""
    if not loss.requires_grad:
        return "none"
    inputs = [t for t in v.values() if t.requires_grad]
    found = [g for g in grad(loss, inputs, create_graph=True, allow_unused=True) if g is not None]
    return first_order(sum((g**2).sum() for g in found), v)


def write():
    """Write PyTorch's results."""
    import torch

    made = {}
    for kind, run in (("scan", looped), ("sequence", repeated)):
        for step in STEPS:
            for name, loss in LOSSES.items():
                for wanted in SUBSETS:
                    v = values(torch, wanted)
                    key = f"{kind} {step.__name__} {name} {' '.join(wanted)}"
                    first = first_order(loss(*run(torch, step, v)), v)
                    v = values(torch, wanted)
                    made[key] = first, second_order(torch.autograd.grad, loss(*run(torch, step, v)), v)
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in made.items())
    FILE.write_text(f"{{\n{lines}\n}}\n")


# -- agrad's, in a program and not ----------------------------------------------------------------------------------------


def scanned(ag, step, v):
    return ag.func.scan(lambda c, x: step(c, x, v["a"], v["b"]), (v["p"], v["q"]), v["xs"])


def sequence(ag, step, v):
    x = v["xs"][1]
    c = ag.utils.checkpoint_sequence(lambda c, i: step(c, x, v["a"], v["b"])[0], (v["p"], v["q"]), CALLS, schedule=2)
    return c, c[0] + c[1]


RUNS = {"scan": scanned, "sequence": sequence}


def pytest_generate_tests(metafunc):
    if "case" in metafunc.fixturenames:
        kinds = [(kind, step, name) for kind in RUNS for step in STEPS for name in LOSSES]
        metafunc.parametrize("case", kinds, ids=[f"{kind}-{step.__name__}-{name}" for kind, step, name in kinds])


def plainly(ag, f, v):
    return f()


def compiled(ag, f, v):
    return ag.compile(f)()


def captured(ag, f, v):
    inputs = tuple(v.values())
    program = ag.func.capture(lambda *_: f())(*inputs)
    return program(*inputs)


def mapped(ag, f, v):
    return ag.sum(ag.func.vmap(lambda one: f() * one)(ag.ones(2)))


def mapped_in_a_program(ag, f, v):
    return ag.compile(lambda: mapped(ag, f, v))()


@pytest.mark.parametrize("how", [plainly, compiled, captured, mapped, mapped_in_a_program])
def test_as_pytorchs_plain_loop(case, how):
    kind, step, name = case
    expected = json.loads(FILE.read_text())
    times = 2.0 if "mapped" in how.__name__ else 1.0
    run = RUNS[kind]
    for wanted in SUBSETS if how is compiled else SUBSETS[:1]:
        first, second = expected[f"{kind} {step.__name__} {name} {' '.join(wanted)}"]
        same(first_order(loss_of(run, step, name, how, v := values(ag, wanted)), v), first, times)
        if wanted == NAMES:
            found = second_order(ag.grad, loss_of(run, step, name, how, v := values(ag, wanted)), v)
            same(found, second, times**2, how is plainly, step)


def loss_of(run, step, name, how, v):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return how(ag, lambda: LOSSES[name](*run(ag, step, v)), v)


def same(found, expected, times, strictly=True, step=None):
    """Compare gradients; not `strictly`: what has none may have zeros, but not what the step detaches."""
    if strictly and "none" in (found, expected):
        assert found == expected
        return
    found, expected = ([None] * len(NAMES) if one == "none" else one for one in (found, expected))
    for name, one, other in zip(NAMES, found, expected, strict=True):
        if one is None or strictly or (name in DETACHED.get(step, ())):
            assert (one is None) == (other is None), name
        if one is not None:
            np.testing.assert_allclose(one, np.multiply(times, 0.0 if other is None else other), rtol=1e-6)


def test_backward_within_the_program(case):
    kind, step, name = case
    expected = json.loads(FILE.read_text())
    first, _ = expected[f"{kind} {step.__name__} {name} {' '.join(NAMES)}"]
    v = values(ag, NAMES)
    if first == "none":  # backward refuses it
        return
    compiled(ag, lambda: LOSSES[name](*RUNS[kind](ag, step, v)).backward(), v)
    same(found_in(v), first, 1.0)


if __name__ == "__main__":
    write()
