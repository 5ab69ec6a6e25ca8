"""The engine's two loops give the same: bits of every gradient, order of hooks, errors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agrad as ag
from agrad.core import engine

LEAVES = [
    ("float64", ()),
    ("float64", (3,)),
    ("float32", (3,)),
    ("float64", (2, 3)),
]


class Fails(ag.autograd.Function):
    """A function whose backward fails."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        raise ValueError("in backward")


class Parts(ag.autograd.Function):
    """A function with two results and gradients of None."""

    @staticmethod
    def forward(ctx, x, y):
        return x * 2, y * 3

    @staticmethod
    def backward(ctx, g, h):
        return None if g is None else g * 2, h * 3


def rows(a, b):
    first, *_ = ag.unstack(ag.broadcast_to(a, (2, *a.shape)))
    return first * b


#: What a step may do with two earlier values, neither of them of more axes than the result.
STEPS = {
    "multiply": lambda a, b: a * b,
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "constant": lambda a, b: a * 0.5 + 1.25,
    "sin": lambda a, b: ag.sin(a),
    "mean": lambda a, b: ag.mean(a) - b,
    "where": lambda a, b: ag.where(a > 0.0, a, b),
    "assign": lambda a, b: ag.where(b > 0.5, b / 3.0, a * b),
    "guarded": lambda a, b: ag.where(a * 0.0 > 0.0, ag.sqrt(a * 0.0), b) + a,
    "newer second": lambda a, b: (c := ag.exp(a * b)) * ag.sin(c),
    "unstack": rows,
    "parts": lambda a, b: Parts.apply(a, b)[1],
    "both parts": lambda a, b: sum(Parts.apply(a, b)),
    "softplus": lambda a, b: ag.nn.functional.softplus(a),
    "astype": lambda a, b: ag.astype(a, "float32"),
    "fails": lambda a, b: Fails.apply(a),
}

#: Without the one that fails, which ends most programs.
HARMLESS = [name for name in STEPS if name != "fails"]

#: What may hang on a value: a hook that changes the gradient, one that looks on, one that fails, on the node itself.
HOOKS = ["scale", "look", "retain", "pre", "post", "accumulated", "late", "raise"]

steps = st.tuples(
    st.one_of(st.sampled_from(HARMLESS), st.sampled_from([*HARMLESS, "fails"])), st.integers(0, 63), st.integers(0, 63)
)
programs = st.fixed_dictionaries(
    {
        "steps": st.lists(steps, min_size=1, max_size=14),
        "hooks": st.lists(st.tuples(st.sampled_from(HOOKS), st.integers(0, 63)), max_size=3),
        "again": st.sampled_from(["no", "retained", "freed"]),
        "frozen": st.lists(st.integers(0, len(LEAVES) - 1), max_size=1),
        "targets": st.one_of(st.none(), st.lists(st.integers(0, 63), min_size=1, max_size=3)),
    }
)


def hang(kind, t, leaves, log):
    """Hang a hook on a tensor."""
    name = len(log)
    log.append((kind, name))

    def look(*args):
        log.append((name, *(repr(a) for a in args)))

    def fail(g):
        raise RuntimeError(f"hook {name}")

    def late(g):
        look(g)
        if leaves[1].requires_grad:
            leaves[1].register_hook(lambda g: g * 3)

    if kind == "scale":
        t.register_hook(lambda g: g * 2)
    elif kind == "look":
        t.register_hook(look)
    elif kind == "late":
        t.register_hook(late)
    elif kind == "raise":
        t.register_hook(fail)
    elif kind == "retain":
        t.retain_grad()
    elif kind in ("pre", "post") and t.grad_fn is not None:
        (t.grad_fn.register_prehook if kind == "pre" else t.grad_fn.register_hook)(look)
    elif kind == "accumulated" and t.is_leaf:
        t.register_post_accumulate_grad_hook(look)


def bits(t):
    return None if t is None else (str(t.dtype), t.shape, t.detach().numpy().tobytes())


def outcome(program):
    """Run a program; return the bits of its gradients, what its hooks saw, and how it ended."""
    source, log = np.random.default_rng(7), []
    leaves = [ag.tensor(np.asarray(source.standard_normal(s), d), requires_grad=True) for d, s in LEAVES]
    for i in program["frozen"]:
        leaves[i].requires_grad_(False)
    values = list(leaves)
    for name, i, j in program["steps"]:
        a, b = values[-1 - i % len(values)], values[-1 - j % len(values)]
        values.append(STEPS[name](a, b) if a.ndim >= b.ndim else STEPS[name](ag.broadcast_to(a, b.shape), b))
    for kind, i in program["hooks"]:
        t = values[i % len(values)]
        if t.requires_grad:
            hang(kind, t, leaves, log)
    y = sum(ag.sum(v) for v in values[-3:])
    given = program["targets"]
    ended = found = None
    try:
        if given is None:
            y.backward(retain_graph=program["again"] == "retained")
            if program["again"] != "no":
                y.backward()
        else:
            inputs = [t for i in given if (t := values[i % len(values)]).requires_grad]
            found = ag.autograd.grad(y, inputs, allow_unused=True)
    except Exception as error:  # noqa: BLE001 (compared)
        ended = type(error), str(error), getattr(error, "__notes__", None)
    return [bits(t.grad) for t in values if t.is_leaf or t.retains_grad], found and [*map(bits, found)], log, ended


@settings(max_examples=300, deadline=None)
@given(programs)
def test_both_loops_give_the_same(program):
    with np.errstate(all="ignore"):  # products of products overflow; their bits are compared like others
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(engine.Pass, "is_plain", lambda _: False)
            watched = outcome(program)
        assert outcome(program) == watched
