"""Rules on shapes, axes and parameters that hypothesis draws: forward mode against a central difference of the kernels,
reverse mode against forward mode.
"""

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agrad as ag
from agrad.core.forward import level, tangent_of, with_tangent

shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
full_shapes = hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=3)
STEP = 1e-6
drawn = settings(max_examples=25, deadline=None)


def values(shape, seed, kind):
    """Numbers from 0.3 to 1.8 that lie apart from one another; complex ones with such an imaginary part."""
    rng = np.random.default_rng(seed)
    count = int(np.prod(shape))
    made = 0.3 + 1.5 * (rng.permutation(count) + rng.uniform(0.2, 0.8, count)) / max(count, 1)
    return (made + 1j * rng.uniform(0.3, 1.8, count) if kind == "complex" else made).reshape(shape)


def check(function, arrays):
    """Check the derivative of a function of arrays along a random direction, forward and in reverse."""
    rng = np.random.default_rng(5)
    directions = [
        rng.standard_normal(a.shape) + (1j * rng.standard_normal(a.shape) if a.dtype == complex else 0) for a in arrays
    ]

    def moved(step):
        return np.asarray(
            function(*(ag.asarray(a + step * v) for a, v in zip(arrays, directions, strict=True))).numpy()
        )

    wanted = (moved(STEP) - moved(-STEP)) / (2 * STEP)
    leaves = [ag.asarray(a, requires_grad=True) for a in arrays]
    with level() as at:
        duals = [with_tangent(x.detach(), ag.asarray(v), at) for x, v in zip(leaves, directions, strict=True)]
        pushed = np.asarray(tangent_of(function(*duals), at).numpy())
    np.testing.assert_allclose(pushed, wanted, rtol=1e-6, atol=1e-6)

    result = function(*leaves)
    g = rng.standard_normal(result.shape) + (1j * rng.standard_normal(result.shape) if pushed.dtype == complex else 0)
    gradients = ag.autograd.grad(result, leaves, ag.asarray(g))
    for gradient, array in zip(gradients, arrays, strict=True):
        assert gradient.shape == array.shape
        assert gradient.numpy().dtype == array.dtype
    along = np.vdot(g, pushed).real
    against = sum(np.vdot(d.numpy(), v).real for d, v in zip(gradients, directions, strict=True))
    np.testing.assert_allclose(against, along, rtol=1e-9, atol=1e-9)


BINARY = ("add", "subtract", "multiply", "divide", "pow", "atan2", "hypot", "logaddexp", "maximum", "minimum")


@pytest.mark.parametrize("op", BINARY)
@drawn
@given(pair=hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, min_side=0, max_side=3), data=st.data())
def test_broadcasting(op, pair, data):
    kinds = ("real", "complex") if op in ("add", "subtract", "multiply", "divide", "pow") else ("real",)
    one, other = (values(s, seed, data.draw(st.sampled_from(kinds))) for seed, s in enumerate(pair.input_shapes))
    check(getattr(ag, op), [one, other + 0.01])


@drawn
@given(triple=hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=3, min_side=0, max_side=3), data=st.data())
def test_where_and_clip(triple, data):
    shape, one, other = triple.input_shapes
    condition = ag.asarray(data.draw(hnp.arrays(bool, shape)))
    check(lambda x, y: ag.where(condition, x, y), [values(one, 1, "real"), values(other, 2, "complex")])
    if triple.result_shape == shape:
        low = values(one, 3, "real") / 2
        check(ag.clip, [values(shape, 1, "real"), low, low + values(other, 4, "real")])


@pytest.mark.parametrize("op", ["sum", "mean", "prod", "max", "min", "var", "std", "logsumexp"])
@drawn
@given(shape=full_shapes, data=st.data())
def test_reductions(op, shape, data):
    axes = data.draw(
        st.none() | st.sets(st.integers(-len(shape), len(shape) - 1)).filter(lambda s: distinct(s, len(shape)))
    )
    axis = None if axes is None else tuple(axes)
    reduced = range(len(shape)) if axis is None else [a % len(shape) for a in axis]
    if op == "std" and all(shape[a] == 1 for a in reduced):
        return  # of one number: a kink
    function = ag.special.logsumexp if op == "logsumexp" else getattr(ag, op)
    keepdims = data.draw(st.booleans())
    kind = data.draw(st.sampled_from(("real", "complex"))) if op in ("sum", "mean", "prod") else "real"
    check(lambda x: function(x, axis=axis, keepdims=keepdims), [values(shape, 1, kind)])


def distinct(axes, rank):
    return len({a % rank for a in axes}) == len(axes)


@pytest.mark.parametrize("op", ["cumulative_sum", "cumulative_prod", "sort", "flip", "diff"])
@drawn
@given(shape=full_shapes, data=st.data())
def test_along_one_axis(op, shape, data):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    more = {}
    if op.startswith("cumulative"):
        more["include_initial"] = data.draw(st.booleans())
    if op == "sort":
        more["descending"] = data.draw(st.booleans())
    if op == "diff":
        more["n"] = data.draw(st.integers(0, 2))
    check(lambda x: getattr(ag, op)(x, axis=axis, **more), [values(shape, 1, "real")])


@drawn
@given(shape=shapes, data=st.data())
def test_rearranging(shape, data):
    rank = len(shape)
    x = [values(shape, 1, data.draw(st.sampled_from(("real", "complex"))))]
    axes = tuple(data.draw(st.permutations(range(rank))))
    check(lambda x: ag.permute_dims(x, axes), x)
    check(lambda x: ag.reshape(x, (1, *(shape[a] for a in axes))), x)
    new = data.draw(st.integers(-rank - 1, rank))
    check(lambda x: ag.expand_dims(x, axis=new), x)
    check(lambda x: ag.broadcast_to(x, (2, *shape)), x)
    if rank:
        shift, axis = data.draw(st.integers(-4, 4)), data.draw(st.integers(-rank, rank - 1))
        check(lambda x: ag.roll(x, shift, axis=axis), x)
        check(lambda x: ag.moveaxis(x, axis, 0), x)
        check(lambda x: ag.repeat(x, 2, axis=axis), x)
        repetitions = tuple(data.draw(st.lists(st.integers(0, 2), min_size=1, max_size=3)))
        check(lambda x: ag.tile(x, repetitions), x)
        check(lambda x: ag.stack([x, 2.0 * x, x], axis=axis), x)
        check(lambda x: ag.concat([x, x * x], axis=axis), x)
    if rank >= 2:
        k = data.draw(st.integers(-3, 3))
        check(lambda x: ag.tril(x, k=k), x)
        check(lambda x: ag.triu(x, k=k), x)


@drawn
@given(
    pair=hnp.mutually_broadcastable_shapes(signature="(m?,n),(n,p?)->(m?,p?)", max_dims=2, min_side=0, max_side=3),
    data=st.data(),
)
def test_matmul(pair, data):
    kinds = st.sampled_from(("real", "complex"))
    check(ag.matmul, [values(s, seed, data.draw(kinds)) for seed, s in enumerate(pair.input_shapes)])


@drawn
@given(free1=st.lists(st.integers(0, 3), max_size=2), free2=st.lists(st.integers(0, 3), max_size=2), data=st.data())
def test_tensordot(free1, free2, data):
    shared = data.draw(st.lists(st.integers(1, 3), max_size=2))
    axes, operands = [], []
    for seed, free in enumerate((free1, free2)):
        sizes = [(n, None) for n in free] + [(n, i) for i, n in enumerate(shared)]
        order = data.draw(st.permutations(sizes))
        axes.append(tuple(next(k for k, (_, which) in enumerate(order) if which == i) for i in range(len(shared))))
        operands.append(values(tuple(n for n, _ in order), seed, data.draw(st.sampled_from(("real", "complex")))))
    check(lambda a, b: ag.tensordot(a, b, axes=tuple(axes)), operands)


def test_the_check_sees_a_wrong_derivative():
    @ag.elementwise(name="mine.drawn_wrong", x=lambda x: 1.001 * x, kernel=lambda xp, x: x * x / 2)
    def wrong(x, /):
        """A wrong partial."""

    with pytest.raises(AssertionError):
        check(wrong, [values((2,), 1, "real")])
