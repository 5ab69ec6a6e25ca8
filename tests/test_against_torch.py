"""Drawn programs, run by PyTorch and by agrad, instruction for instruction, and compared after each.

A program makes tensors, computes with them, changes them in place, hangs hooks on them, and differentiates, also its own
gradients. Compared are values, `requires_grad`, `is_leaf`, every `.grad`, and errors: that both raise, and the first line
of the message where it is about differentiation. What agrad does otherwise on purpose (docs/differences.md) stands here as:

- views do not alias: the PyTorch side clones what it would make a view;
- what was saved cannot be changed: it runs under `allow_mutation_on_saved_tensors`, which has the same meaning;
- hooks are not called without a gradient: None passes through the PyTorch side's;
- what a failed backward pass leaves behind, and which nodes save nothing: a program ends at the first failure within
  the pass, and where only PyTorch finds the graph freed;
- no `where` over infinite derivatives, `copy_` of constants or hooks on inputs of `grad`: not drawn.

``AGRAD_TORCH_EXAMPLES=5000`` draws more than the usual number of programs.
"""

from __future__ import annotations

import os
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

import agrad as ag

torch = pytest.importorskip("torch")

EXAMPLES = int(os.environ.get("AGRAD_TORCH_EXAMPLES", "300"))

# -- the two libraries ------------------------------------------------------------------------------------------------


class Torch:
    """PyTorch, with agrad's values instead of views."""

    lib = torch
    grad = staticmethod(torch.autograd.grad)
    backward = staticmethod(torch.autograd.backward)

    @staticmethod
    def leaf(array, requires_grad):
        return torch.tensor(array, requires_grad=requires_grad)

    @staticmethod
    def value(tensor):
        return tensor.detach().resolve_conj().numpy().copy()

    @staticmethod
    def own(tensor, others):
        """Give the tensor memory of its own."""
        used = {other.untyped_storage().data_ptr() for other in others if other.numel()}
        shared = tensor._is_view() or not tensor.is_contiguous() or tensor.untyped_storage().data_ptr() in used
        return tensor.clone() if shared or any(tensor is other for other in others) else tensor

    @staticmethod
    def key(key):
        parts = key if isinstance(key, tuple) else (key,)
        parts = tuple(torch.tensor(part) if isinstance(part, np.ndarray) else part for part in parts)
        return parts if isinstance(key, tuple) else parts[0]

    @staticmethod
    def write(tensor, key, value):
        """Write by arrays of integers: through a view, `allow_mutation_on_saved_tensors` would miss the change."""
        shape = tuple(tensor.shape)
        where = np.unravel_index(np.arange(tensor.numel()).reshape(shape)[key], shape) if shape else ()
        if not where:
            tensor[Torch.key(key)] = value
        else:
            tensor.index_put_(tuple(map(torch.tensor, where)), torch.as_tensor(value, dtype=tensor.dtype))


class Agrad:
    """The library under test."""

    lib = ag
    grad = staticmethod(ag.autograd.grad)
    backward = staticmethod(ag.autograd.backward)

    @staticmethod
    def leaf(array, requires_grad):
        return ag.tensor(array, requires_grad=requires_grad)

    @staticmethod
    def value(tensor):
        return np.array(tensor.detach())

    @staticmethod
    def own(tensor, others):
        return tensor

    @staticmethod
    def write(tensor, key, value):
        tensor[key] = value


def pair(lib):
    """Give a `Function` with two results, one of them also differentiable by hand to second order."""
    base = torch.autograd.Function if lib is torch else ag.Function

    class Pair(base):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return lib.sin(x) * y, x * y * y

        @staticmethod
        def backward(ctx, g, h):
            x, y = ctx.saved_tensors
            gx = g * lib.cos(x) * y + h * y * y
            gy = g * lib.sin(x) + h * 2 * x * y
            return gx, gy

    return Pair


def cut(lib):
    """Give a `Function` that passes its operand and a constant flag tensor, and does not ask for zeros."""
    base = torch.autograd.Function if lib is torch else ag.Function

    class Cut(base):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.factor = factor
            ctx.set_materialize_grads(False)
            marks = x > 0
            ctx.mark_non_differentiable(marks)
            return x * factor, x + factor, marks

        @staticmethod
        def backward(ctx, g, h, _):
            parts = [part for part in ((None if g is None else g * ctx.factor), h) if part is not None]
            return (sum(parts) if parts else None), None

    return Cut


FUNCTIONS = {make: {torch: make(torch), ag: make(ag)} for make in (pair, cut)}

#: By name: the function in PyTorch and in agrad. Those in KINKED are skipped next to a kink, where rounding decides.
UNARY = {
    **{name: (getattr(torch, name), getattr(ag, name)) for name in ("sin", "cos", "tanh", "atan", "square", "abs")},
    **{name: (getattr(torch, name), getattr(ag, name)) for name in ("exp", "expm1", "reciprocal", "sign", "floor")},
    "negative": (torch.neg, ag.negative),
    "log1p of square": (lambda x: torch.log1p(x * x), lambda x: ag.log1p(x * x)),
    "sqrt of 1 + square": (lambda x: torch.sqrt(x * x + 1), lambda x: ag.sqrt(x * x + 1)),
    "expit": (torch.special.expit, ag.special.expit),
    "erf": (torch.special.erf, ag.special.erf),
    "relu": (torch.nn.functional.relu, ag.nn.functional.relu),
    "gelu": (torch.nn.functional.gelu, ag.nn.functional.gelu),
    "clip": (lambda x: torch.clamp(x, -1, 0.5), lambda x: ag.clip(x, -1, 0.5)),
    "x**3": (lambda x: x**3, lambda x: x**3),
    "x**0": (lambda x: x**0, lambda x: x**0),
    "2**x": (lambda x: 2**x, lambda x: 2**x),
    "1.5 - x": (lambda x: 1.5 - x, lambda x: 1.5 - x),
    "2 / (x * x + 1)": (lambda x: 2 / (x * x + 1), lambda x: 2 / (x * x + 1)),
    "conj": (torch.conj, ag.conj),
    "real": (torch.real, ag.real),
    "transpose": (lambda x: torch.movedim(x, 0, -1), lambda x: ag.moveaxis(x, 0, -1)),
    "ravel": (lambda x: x.reshape(-1), lambda x: x.reshape(-1)),
    "flip": (lambda x: torch.flip(x, (0,)), lambda x: ag.flip(x, axis=0)),
    "roll": (lambda x: torch.roll(x, 1, -1), lambda x: ag.roll(x, 1, axis=-1)),
    "expand": (lambda x: x.expand(2, *x.shape), lambda x: x.expand(2, *x.shape)),
    "unsqueeze": (lambda x: x.unsqueeze(-1), lambda x: x.unsqueeze(-1)),
    "squeeze": (lambda x: x.squeeze(), lambda x: x.squeeze()),
    "tril": (lambda x: torch.tril(x[None] + 0), lambda x: ag.tril(x[None] + 0)),
    "softmax": (lambda x: torch.softmax(x, -1), lambda x: ag.special.softmax(x, axis=-1)),
    "cumsum": (lambda x: torch.cumsum(x, -1), lambda x: ag.cumulative_sum(x, axis=-1)),
    "cumprod": (lambda x: torch.cumprod(x, -1), lambda x: ag.cumulative_prod(x, axis=-1)),
    "sort": (lambda x: torch.sort(x, dim=-1, stable=True)[0], lambda x: ag.sort(x, axis=-1)),
    "clone": (torch.clone, lambda x: x.clone()),
}
KINKED = {
    "abs": lambda x: x,
    "sign": lambda x: x,
    "relu": lambda x: x,
    "floor": lambda x: x - np.round(x),
    "clip": lambda x: np.stack([x + 1, x - 0.5]),
    "sort": lambda x: x[..., None] - x[..., None, :],
    "amax": lambda x: x.ravel()[:, None] - x.ravel(),
    "amin": lambda x: x.ravel()[:, None] - x.ravel(),
    "norm": lambda x: x,
    "prod": lambda x: x,
    "cumprod": lambda x: x,
}
#: The standard wants an axis there; PyTorch takes a 0-d tensor for one of a single element.
AXIS_NEEDED = {"cumsum", "cumprod", "sort", "softmax", "flip", "roll", "squeeze", "transpose", "tril"}
BINARY = {
    **{name: (getattr(torch, name), getattr(ag, name)) for name in ("add", "subtract", "multiply", "divide")},
    **{name: (getattr(torch, name), getattr(ag, name)) for name in ("maximum", "minimum", "logaddexp", "matmul")},
    "operator -": (lambda x, y: x - y, lambda x, y: x - y),
    "x / (y * y + 1)": (lambda x, y: x / (y * y + 1), lambda x, y: x / (y * y + 1)),
    "power": (lambda x, y: (x * x + 1) ** y, lambda x, y: (x * x + 1) ** y),
    "outer": (
        lambda x, y: torch.outer(x.reshape(-1), y.reshape(-1)),
        lambda x, y: ag.outer(x.reshape(-1), y.reshape(-1)),
    ),
    "atan2": (torch.atan2, ag.atan2),
    "where": (lambda x, y: torch.where(x > y, x, y * 2), lambda x, y: ag.where(x > y, x, y * 2)),
    "where of a number": (lambda x, y: torch.where(y > 0, x, 0.5), lambda x, y: ag.where(y > 0, x, 0.5)),
    "masked_fill": (lambda x, y: x.masked_fill(y > 0, 0.25), lambda x, y: x.masked_fill(y > 0, 0.25)),
    "lerp": (lambda x, y: torch.lerp(x, y, 0.3), lambda x, y: ag.lerp(x, y, 0.3)),
    "mask": (lambda x, y: x[y > 0], lambda x, y: x[y > 0]),
}
COMPARING = {"maximum", "minimum", "where", "where of a number", "masked_fill", "mask"}
REDUCTIONS = {
    "sum": (lambda x, a, k: torch.sum(x, a, keepdim=k), lambda x, a, k: ag.sum(x, axis=a, keepdims=k)),
    "mean": (lambda x, a, k: torch.mean(x, a, keepdim=k), lambda x, a, k: ag.mean(x, axis=a, keepdims=k)),
    "var": (
        lambda x, a, k: torch.var(x, a, correction=0, keepdim=k),
        lambda x, a, k: ag.var(x, axis=a, correction=0, keepdims=k),
    ),
    "std": (
        lambda x, a, k: torch.std(x, a, correction=1, keepdim=k),
        lambda x, a, k: ag.std(x, axis=a, correction=1, keepdims=k),
    ),
    "amax": (lambda x, a, k: torch.amax(x, () if a is None else a, k), lambda x, a, k: ag.max(x, axis=a, keepdims=k)),
    "amin": (lambda x, a, k: torch.amin(x, () if a is None else a, k), lambda x, a, k: ag.min(x, axis=a, keepdims=k)),
    "prod": (
        lambda x, a, k: torch.prod(x) if a is None else torch.prod(x, a, keepdim=k),
        lambda x, a, k: ag.prod(x) if a is None else ag.prod(x, axis=a, keepdims=k),
    ),
    "logsumexp": (
        lambda x, a, k: torch.logsumexp(x, tuple(range(x.ndim)) if a is None else a, k),
        lambda x, a, k: ag.special.logsumexp(x, axis=a, keepdims=k),
    ),
    "norm": (
        lambda x, a, k: torch.linalg.vector_norm(x, dim=a, keepdim=k),
        lambda x, a, k: ag.linalg.vector_norm(x, axis=a, keepdims=k),
    ),
}
#: In place, by methods and operators that both libraries spell alike.
UPDATES = {
    "x.mul_(0.5)": lambda x, y: x.mul_(0.5),
    "x.sin_()": lambda x, y: x.sin_(),
    "x.tanh_()": lambda x, y: x.tanh_(),
    "x.exp_().neg_()": lambda x, y: x.exp_().neg_(),
    "x.clamp_(-1, 0.5)": lambda x, y: x.clamp_(-1, 0.5),
    "x.fill_(0.5)": lambda x, y: x.fill_(0.5),
    "x.zero_()": lambda x, y: x.zero_(),
    "x.add_(y)": lambda x, y: x.add_(y),
    "x.sub_(y, alpha=2)": lambda x, y: x.sub_(y, alpha=2),
    "x.mul_(y)": lambda x, y: x.mul_(y),
    "x.div_(y * y + 1)": lambda x, y: x.div_(y * y + 1),
    "x.addcmul_(y, y)": lambda x, y: x.addcmul_(y, y, value=0.5),
    "x.masked_fill_(y > 0, 2)": lambda x, y: x.masked_fill_(y > 0, 2.0),
    "x += y": lambda x, y: x.__iadd__(y),
    "x *= y": lambda x, y: x.__imul__(y),
    "x -= 1": lambda x, y: x.__isub__(1),
    "x **= 2": lambda x, y: x.__ipow__(2),
    "x.detach_()": lambda x, y: x.detach_(),
    "x.requires_grad_()": lambda x, y: x.requires_grad_(),
    "x.requires_grad_(False)": lambda x, y: x.requires_grad_(False),
    "x.retain_grad()": lambda x, y: x.retain_grad(),
    "x.grad = None": lambda x, y: setattr(x, "grad", None),
}
CHANGES_NO_VALUE = {"x.detach_()", "x.requires_grad_()", "x.requires_grad_(False)", "x.retain_grad()", "x.grad = None"}
COMPARING_UPDATES = {"x.masked_fill_(y > 0, 2)"}

#: Messages about differentiation: the first line has to be the same.
WORDS = (
    "a leaf Variable that requires grad is being used",
    "does not require grad",
    "grad can be implicitly created",
    "Trying to backward through the graph a second time",
    "appears to not have been used",
    "can't retain_grad on Tensor",
    "cannot register a hook on a tensor",
    "you can only change requires_grad flags",
    "Mismatch in shape: grad_output",
    "only Tensors of floating point",
)
SHAPES = [(), (1,), (3,), (3,), (2, 3), (2, 3), (1, 3), (2, 1), (3, 2), (3, 3), (2, 1, 3), (0, 3)]


# -- running one instruction ------------------------------------------------------------------------------------------


class Machine:
    """The tensors of a program in one library, and what an instruction does to them."""

    def __init__(self, kind):
        self.kind, self.lib, self.env, self.calls, self.hooked = kind, kind.lib, [], [], set()
        self.recorded = False  # a gradient, with create_graph

    def pick(self, table):
        return table[0 if self.lib is torch else 1]

    def alone(self, tensor):
        """Take it out of what it is a view of, here, in the mode of its making."""
        return self.kind.own(tensor, self.env)

    def mode(self, name):
        return getattr(self.lib, name)()

    def run(self, instruction):
        """Run it; give the tensors that it made."""
        name, *args = instruction
        used, made = [*self.env, *(tensor.grad for tensor in self.env if tensor.grad is not None)], []
        for tensor in getattr(self, name)(*args):
            made.append(self.kind.own(tensor, [*used, *made]))
        self.env += made
        return made

    def leaf(self, array, requires_grad):
        return [self.kind.leaf(array, requires_grad)]

    def compute(self, mode, table, name, *args):
        operands = [self.env[arg.place] if isinstance(arg, Place) else arg for arg in args]
        with self.mode(mode):
            return [self.alone(self.pick(table[name])(*operands))]

    def read(self, mode, i, key):
        with self.mode(mode):
            return [self.alone(self.env[i][Torch.key(key) if self.lib is torch else key])]

    def join(self, how, places, axis):
        operands = [self.env[i] for i in places]
        if self.lib is torch:
            return [(torch.concat if how == "concat" else torch.stack)(operands, dim=axis)]
        return [(ag.concat if how == "concat" else ag.stack)(operands, axis=axis)]

    def split(self, i, axis):
        parts = torch.unbind(self.env[i], axis) if self.lib is torch else ag.unstack(self.env[i], axis=axis)
        return list(parts)

    def apply(self, make, i, other):
        other = self.env[other.place] if isinstance(other, Place) else other
        made = FUNCTIONS[make][self.lib].apply(self.env[i], other)
        return [part for part in made if self.kind.value(part).dtype != bool]

    def update(self, mode, name, i, j):
        with self.mode(mode):
            UPDATES[name](self.env[i], self.env[j])
        return []

    def write(self, mode, i, key, value):
        value = self.alone(self.env[value.place]) if isinstance(value, Place) else value
        with self.mode(mode):
            self.kind.write(self.env[i], key, value)
        return []

    def detach(self, i):
        return [self.env[i].detach()]

    def hook(self, i, factor):
        calls, number = self.calls, len(self.calls)
        calls.append(0)

        def scale(g):
            if g is None:
                return None
            calls[number] += 1
            return None if factor is None else g * factor

        self.env[i].register_hook(scale)
        self.hooked.add(i)
        return []

    def reverse(self, places, cotangents, retain_graph, create_graph, inputs):
        roots = [self.env[i] for i in places]
        gradients = None if cotangents is None else [self.kind.leaf(g, False) for g in cotangents]
        self.recorded |= create_graph
        more = {} if inputs is None else {"inputs": [self.env[i] for i in inputs]}
        self.kind.backward(roots, gradients, retain_graph=retain_graph, create_graph=create_graph, **more)
        return []

    def gradient(self, places, cotangents, inputs, retain_graph, create_graph, allow_unused):
        made = self.kind.grad(
            [self.env[i] for i in places],
            [self.env[i] for i in inputs],
            None if cotangents is None else [self.kind.leaf(g, False) for g in cotangents],
            retain_graph=retain_graph,
            create_graph=create_graph,
            allow_unused=allow_unused,
        )
        self.recorded |= create_graph
        return [g for g in made if g is not None]


class Place:
    """A tensor of the program as an operand, by its number."""

    def __init__(self, place):
        self.place = place

    def __repr__(self):
        return f"t{self.place}"


# -- drawing one instruction ------------------------------------------------------------------------------------------

modes = st.sampled_from(["enable_grad"] * 6 + ["no_grad"])


def array_of(draw, shape, kinds=("float",)):
    """Draw values: even multiples of a half, where ties and zeros are usual, or random ones."""
    rng = np.random.default_rng(draw(st.integers(0, 20)))
    made = rng.integers(-4, 5, shape) / 2.0 if draw(st.booleans()) else rng.normal(size=shape)
    if draw(st.sampled_from(kinds)) == "complex":
        made = made + 1j * rng.normal(size=shape)
    return np.asarray(made)


def key_of(draw, shape, unique=False):
    """Draw a key for a shape, in the forms that PyTorch and NumPy read alike."""
    if not shape or draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from([..., None, (..., None), slice(None)][: 3 if not shape else 4]))
    kind = draw(st.sampled_from(["basic", "mask", "arrays", "arrays"]))
    if kind == "mask":
        covered = draw(st.integers(1, len(shape)))
        return np.random.default_rng(draw(st.integers(0, 9))).random(shape[:covered]) < 0.6
    parts, common = [], None
    for size in shape[: draw(st.integers(1, len(shape)))]:
        if kind == "arrays" and size and draw(st.booleans()):
            rng = np.random.default_rng(draw(st.integers(0, 9)))
            if unique:
                common = 1 if common else min(size, draw(st.integers(1, 2)))
                parts.append(rng.permutation(size)[:common])
            else:
                common = common or draw(st.integers(1, 3))
                parts.append(rng.integers(-size, size, common))
        elif kind == "basic" and size and draw(st.booleans()):
            parts.append(draw(st.integers(-size, size)))  # the last one is out of bounds
        else:
            parts.append(
                draw(st.sampled_from([slice(None), slice(0, 2), slice(1, None), slice(-2, None), slice(None, None, 2)]))
            )
    if draw(st.integers(0, 5)) == 0:
        parts.append(...)
    return tuple(parts)


def instruction_of(draw, machine):
    """Draw an instruction that the tensors of a machine allow, or that fails."""
    env = machine.env
    places = st.integers(0, len(env) - 1)

    def place(among=None):
        return draw(st.sampled_from(among) if among else places)

    kind = draw(
        st.sampled_from(
            ["leaf"] * 2
            + ["unary"] * 5
            + ["binary"] * 6
            + ["reduction"] * 3
            + ["read"] * 3
            + ["join", "split", "apply", "detach"]
            + ["update"] * 4
            + ["write"] * 3
            + ["hook"] * 2
            + ["reverse"] * 4
            + ["gradient"] * 4
        )
    )
    if kind == "leaf":
        kinds = ("float",) * 6 + ("complex",)
        return (
            "leaf",
            array_of(draw, draw(st.sampled_from(SHAPES)), kinds),
            draw(st.sampled_from([True, True, False])),
        )
    if kind == "unary":
        return ("compute", draw(modes), UNARY, draw(st.sampled_from(list(UNARY))), Place(place()))
    if kind == "binary":
        return ("compute", draw(modes), BINARY, draw(st.sampled_from(list(BINARY))), Place(place()), Place(place()))
    if kind == "reduction":
        i = place()
        axis = draw(st.sampled_from([None, *range(-env[i].ndim, env[i].ndim)]))
        keep = axis is not None and draw(st.booleans())
        return ("compute", draw(modes), REDUCTIONS, draw(st.sampled_from(list(REDUCTIONS))), Place(i), axis, keep)
    if kind == "read":
        i = place()
        return ("read", draw(modes), i, key_of(draw, tuple(env[i].shape)))
    if kind == "join":
        how, first = draw(st.sampled_from(["concat", "stack"])), place()
        same = [j for j, tensor in enumerate(env) if tensor.shape == env[first].shape]
        others = draw(st.lists(st.sampled_from(same), min_size=1, max_size=2))
        return ("join", how, [first, *others], draw(st.sampled_from([0, -1])))
    if kind == "split":
        return (
            "split",
            place([i for i, tensor in enumerate(env) if tensor.ndim] or [0]),
            draw(st.sampled_from([0, -1])),
        )
    if kind == "apply":
        i = place()
        if draw(st.booleans()):
            return ("apply", cut, i, 1.5)
        same = [j for j, tensor in enumerate(env) if tensor.shape == env[i].shape]
        return ("apply", pair, i, Place(place(same)))
    if kind == "detach":
        return ("detach", place())
    if kind == "update":
        inner = [i for i, tensor in enumerate(env) if not (tensor.is_leaf and tensor.requires_grad)]
        i = place(inner) if inner and draw(st.integers(0, 5)) else place()
        return ("update", draw(modes), draw(st.sampled_from(list(UPDATES))), i, place())
    if kind == "write":
        inner = [i for i, tensor in enumerate(env) if not (tensor.is_leaf and tensor.requires_grad)]
        i = place(inner) if inner and draw(st.integers(0, 5)) else place()
        value = draw(st.sampled_from([0.0, 1.5, None, None]))
        key = key_of(draw, tuple(env[i].shape), unique=True)
        return ("write", draw(modes), i, key, Place(place()) if value is None else value)
    if kind == "hook":
        return ("hook", place(), draw(st.sampled_from([2.0, -0.5, None])))
    recorded = [i for i, tensor in enumerate(env) if tensor.requires_grad]
    roots = [i for i in recorded if not env[i].is_leaf] or recorded
    chosen = [place(roots) if roots and draw(st.integers(0, 9)) else place()]
    if draw(st.integers(0, 3)) == 0:
        chosen.append(place(roots) if roots else place())
    cotangents = None
    if draw(st.integers(0, 9)):
        cotangents = [
            array_of(draw, tuple(env[i].shape), ["complex" if env[i].is_complex() else "float"]) for i in chosen
        ]
    retain_graph, create_graph = draw(st.sampled_from([None, True, True, True])), draw(st.booleans())
    if kind == "reverse":
        inputs = [place(recorded)] if recorded and draw(st.integers(0, 5)) == 0 else None
        return ("reverse", chosen, cotangents, retain_graph, create_graph, inputs)
    inputs = draw(
        st.lists(
            st.sampled_from(recorded) if recorded and draw(st.integers(0, 9)) else places,
            min_size=1,
            max_size=2,
            unique=True,
        )
    )
    return ("gradient", chosen, cotangents, inputs, retain_graph, create_graph, bool(draw(st.integers(0, 3))))


# -- comparing --------------------------------------------------------------------------------------------------------


def outcome(machine, instruction):
    """Run an instruction; give what it made and its error."""
    try:
        return machine.run(instruction), None
    except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError) as error:
        return [], error


def flags(tensor):
    return bool(tensor.requires_grad), bool(tensor.is_leaf)


def settled(array):
    """Tell whether values are of a size at which rounding does not count."""
    return bool(np.all(np.isfinite(array))) and bool(np.all(np.abs(array) < 1e4))


def close(one, other):
    return one.shape == other.shape and np.allclose(one, other, rtol=1e-7, atol=1e-7)


def at_kink(value, name, places, env):
    """Tell whether an operand is so near a kink, yet not on it, that rounding decides which way it goes."""
    operands = [np.atleast_1d(value(env[i])) for i in places]
    if any(np.iscomplexobj(x) for x in operands) or not all(map(settled, operands)):
        return False
    if name in COMPARING or name in COMPARING_UPDATES:
        try:
            gaps = [np.subtract(*operands), operands[1]]
        except ValueError:
            return False
    elif name in KINKED:
        gaps = [KINKED[name](operands[0])]
    elif "clamp_" in name:
        gaps = [KINKED["clip"](operands[0])]
    else:
        return False
    return any(bool(np.any((gap != 0) & (np.abs(gap) < 1e-6))) for gap in gaps)


def grads_of(machine):
    return [tensor.grad for tensor in machine.env]


def is_constant(gradient, machine):
    """Tell whether a gradient that was recorded has no derivative that is not 0."""
    leaves = [tensor for tensor in machine.env if tensor.requires_grad and tensor.is_leaf]
    rng = np.random.default_rng(0)
    cotangent = machine.kind.leaf(rng.normal(size=tuple(gradient.shape)), False) * machine.lib.ones_like(
        gradient.detach()
    )
    found = machine.kind.grad(gradient, leaves, cotangent, retain_graph=True, allow_unused=True)
    return not any(g is not None and np.any(machine.kind.value(g)) for g in found)


class Ended(Exception):
    """The program cannot be compared any further."""


def compare(instruction, reference, tested, made, errors, *, of_complex):
    """Compare what an instruction left in both machines; raise `Ended` where the comparison ends."""
    (expected, got), (theirs, ours) = made, errors
    if theirs is not None or ours is not None:
        if of_complex and (theirs is None or ours is None):
            raise Ended  # one of them has no complex form
        first = str(theirs).partition("\n")[0].removeprefix("a view of ").replace("torch.", "")
        if "a second time" in first + str(ours) and (theirs is None or ours is None):
            raise Ended  # which nodes save nothing differs: agrad's x * 2 saves the 2
        assert theirs is not None, f"agrad alone raises {ours!r}"
        assert ours is not None, f"PyTorch alone raises {theirs!r}"
        if any(words in first for words in WORDS) and not (
            instruction[0] in {"reverse", "gradient"} and len(instruction[1]) > 1
        ):
            assert type(ours) is type(theirs)
            line = str(ours).partition("\n")[0]
            assert first.startswith(line) or line.startswith(first), f"{first!r} against {line!r}"
            if "a second time" in first or "not have been used" in first:
                raise Ended
        return
    assert len(expected) == len(got)
    for one, other in zip(expected + grads_of(reference), got + grads_of(tested), strict=True):
        if one is not None and other is not None and one.requires_grad != other.requires_grad:
            # Accumulating without create_graph: PyTorch keeps the history of the old part. Else its backward formula
            # depends on x formally only, as that of relu, or agrad's, as that of x**0.
            accumulated = instruction[0] == "reverse" and not instruction[4]
            assert accumulated or is_constant(*((one, reference) if one.requires_grad else (other, tested)))
            raise Ended
    for one, other in zip(reference.env, tested.env, strict=True):
        value = Torch.value(one)
        if not settled(value):
            raise Ended
        assert close(value, Agrad.value(other)), f"values {value} and {Agrad.value(other)}"
        assert value.dtype == Agrad.value(other).dtype
        assert flags(one) == flags(other), f"requires_grad, is_leaf: {flags(one)} and {flags(other)}"
    for number, (one, other) in enumerate(zip(grads_of(reference), grads_of(tested), strict=True)):
        if other is None and instruction[0] == "reverse" and number not in (instruction[5] or [number]):
            raise Ended  # PyTorch also fills that of another result of an operation whose result is asked for
        assert (one is None) == (other is None), f"t{number}.grad: {one} and {other}"
        if one is not None:
            value = Torch.value(one)
            if not settled(value):
                raise Ended
            assert close(value, Agrad.value(other)), f"t{number}.grad: {value} and {Agrad.value(other)}"
            assert flags(one) == flags(other), f"t{number}.grad's flags: {flags(one)} and {flags(other)}"
    if instruction[0] == "gradient" or (instruction[0] == "reverse" and instruction[5] is not None):
        tested.calls[:] = reference.calls  # PyTorch also calls hooks of roots that lead to no input
    assert reference.calls == tested.calls, f"calls of hooks: {reference.calls} and {tested.calls}"


def text(instruction):
    name, *args = instruction
    return f"{name}({', '.join(repr(arg) for arg in args if not isinstance(arg, dict))})"


def uses_complex(machine, instruction):
    """Tell whether an operand is complex."""
    places = [arg.place for arg in instruction[1:] if isinstance(arg, Place)]
    places += instruction[3:] if instruction[0] == "update" else []
    places += instruction[2:3] if instruction[0] in {"apply", "write"} else []
    return any(machine.env[i].is_complex() for i in places)


def excluded(reference, instruction):
    """Tell whether an instruction is not to be run: rounding would decide, or agrad differs there on purpose."""
    name, *args = instruction
    env = reference.env
    if name in {"gradient", "reverse"} and reference.recorded:
        # On the way of a second derivative some formulas read the result of an operation, others its operands: what
        # arrives at a result is not determined, what arrives at leaves is.
        inner = {i for i, tensor in enumerate(env) if not tensor.is_leaf}
        special = {
            *reference.hooked,
            *(i for i in inner if env[i].retains_grad),
            *(args[2] if name == "gradient" else args[4] or []),
        }
        if inner & special:
            return True
    if (name == "gradient" or (name == "reverse" and args[4])) and any(env[i].retains_grad for i in args[0]):
        return True  # PyTorch fills the .grad of a root that leads to no input
    if name == "gradient":
        return bool(reference.hooked.intersection(args[2]))
    if name == "compute":
        if args[2] in {"logsumexp", "softmax"} and 0 in env[args[3].place].shape:
            return True
        if args[2] == "mask" and env[args[4].place].numel() == 0:
            return True  # NumPy takes an empty mask for any length
        if args[2] in AXIS_NEEDED and env[args[3].place].ndim == 0:
            return True
        return at_kink(Torch.value, args[2], [arg.place for arg in args[3:] if isinstance(arg, Place)], env)
    if name == "write" and isinstance(args[3], Place):
        try:  # PyTorch also takes values with more axes than the place has, of length 1
            return env[args[3].place].ndim > np.empty(tuple(env[args[1]].shape))[args[2]].ndim
        except IndexError:
            return False
    if name == "update":
        return at_kink(Torch.value, args[1], args[2:], env)
    return False


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)
@given(st.data())
def test_a_program_does_in_agrad_what_it_does_in_pytorch(data):
    reference, tested = Machine(Torch), Machine(Agrad)
    with warnings.catch_warnings(), torch.autograd.graph.allow_mutation_on_saved_tensors():
        warnings.simplefilter("ignore")
        for step in range(data.draw(st.integers(4, 24), label="steps")):
            if step == 0:
                instruction = ("leaf", array_of(data.draw, data.draw(st.sampled_from(SHAPES))), True)
            else:
                instruction = instruction_of(data.draw, reference)
            if excluded(reference, instruction):
                continue
            note(f"t{len(reference.env)}: {text(instruction)}")
            of_complex = instruction[0] in {"apply", "compute", "update", "write"} and uses_complex(
                reference, instruction
            )
            expected, theirs = outcome(reference, instruction)
            got, ours = outcome(tested, instruction)
            try:
                compare(instruction, reference, tested, (expected, got), (theirs, ours), of_complex=of_complex)
            except Ended:
                return
