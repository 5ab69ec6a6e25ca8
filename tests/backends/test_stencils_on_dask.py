"""Differences of slices in chunks: chunks that begin a few elements apart meet, gradients go where they came from, in tiles."""

from __future__ import annotations

import operator
import pickle
import tracemalloc

import numpy as np
import pytest

import agrad as ag

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
agrad_dask = pytest.importorskip("agrad_dask")
fusing = pytest.importorskip("agrad_dask.fusing")
indexing = pytest.importorskip("agrad_dask.indexing")
tiling = pytest.importorskip("agrad_dask.tiling")
spec = pytest.importorskip("dask._task_spec")

pytestmark = pytest.mark.usefixtures("dask_backend")


@pytest.fixture(autouse=True)
def in_this_thread():
    with dask.config.set(scheduler="sync"):
        yield


def numbers(*shape, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


# -- operands that are cut a few elements apart ---------------------------------------------------------------------------


@pytest.mark.parametrize("n", [29, 32, 33, 36])
@pytest.mark.parametrize("size", [4, 5, 8])
@pytest.mark.parametrize("shift", [1, 2])
def test_slices_that_begin_apart_meet_in_as_many_chunks(n, size, shift):
    values = numbers(n, 3)
    x = ag.asarray(da.from_array(values, chunks=(size, 3)), requires_grad=True)
    made = x[shift:] - x[:-shift]
    assert made.detach().to_dask_array().numblocks[0] <= -(-n // size)
    assert (made.detach().numpy() == values[shift:] - values[:-shift]).all()
    ag.sum(made**2).backward()
    twice, expected = 2 * (values[shift:] - values[:-shift]), np.zeros_like(values)
    expected[shift:] += twice
    expected[:-shift] -= twice
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-14)
    assert x.grad.to_dask_array().chunks == x.detach().to_dask_array().chunks


def test_a_centred_difference_meets_in_as_many_chunks_too():
    values = numbers(40, 2)
    x = ag.asarray(da.from_array(values, chunks=(8, 2)))
    made = x[2:] - 2 * x[1:-1] + x[:-2]
    assert made.detach().to_dask_array().numblocks == (5, 1)
    assert (made.detach().numpy() == values[2:] - 2 * values[1:-1] + values[:-2]).all()


def test_along_two_axes_and_beside_a_row_and_a_column():
    values, row, column = numbers(24, 24), numbers(22), numbers(22, 1, seed=1)
    x = ag.asarray(da.from_array(values, chunks=(6, 6)))
    made = x[2:, :-2] * x[1:-1, 1:-1] + ag.asarray(da.from_array(row, chunks=5)) / ag.asarray(column)
    assert made.detach().to_dask_array().numblocks == (4, 4)
    assert (made.detach().numpy() == values[2:, :-2] * values[1:-1, 1:-1] + row / column).all()


@pytest.mark.parametrize(
    ("one", "other", "count"),
    [((4, 4, 4), (12,), 3), ((6, 6), (4, 4, 4), 4), ((3, 3, 3, 3), (1, 1, 10), 6), ((2, 4, 4, 2), (4, 4, 4), 3)],
)
def test_only_chunks_that_are_shifted_by_half_of_one_are_moved(one, other, count):
    left, right = numbers(12), numbers(12, seed=1)
    made = ag.asarray(da.from_array(left, chunks=(one,))) + ag.asarray(da.from_array(right, chunks=(other,)))
    assert made.detach().to_dask_array().numblocks == (count,)
    assert (made.detach().numpy() == left + right).all()


def test_lengths_that_do_not_fit_are_refused_as_before():
    x = ag.asarray(da.ones(32, chunks=8))
    with pytest.raises(ValueError, match=r"\(30,\)"):
        x[2:] + x[:-1]


def test_the_gradient_of_a_stencil_has_one_task_for_a_chunk_and_its_neighbour():
    x = ag.asarray(da.from_array(numbers(64, 4, 4), chunks=(4, 4, 4)), requires_grad=True)
    at = x[:-1, :-1, :-1]
    steps = [x[1:, :-1, :-1] - at, x[:-1, 1:, :-1] - at, x[:-1, :-1, 1:] - at]
    ag.sum(ag.sqrt(sum(step * step for step in steps) + 1e-3)).backward()
    ran = []
    with dask.callbacks.Callback(pretask=lambda key, *_: ran.append(key)):
        x.grad.numpy()
    assert len(ran) <= 6 * 16  # twelve a chunk where each was cut in two


# -- gradients of slices --------------------------------------------------------------------------------------------------


def drawn_key(rng, shape):
    def part(n):
        kind = rng.integers(5)
        if kind == 0:
            return int(rng.integers(-n, n))
        start, stop = sorted(rng.integers(0, n + 1, 2).tolist())
        if start == stop:
            return slice(None)
        step = int(rng.integers(1, 4)) if kind > 2 else 1
        return slice(start, stop, step) if kind != 4 else slice(stop - 1, start - 1 if start else None, -step)

    return tuple(part(n) for n in shape)


@pytest.mark.parametrize("seed", range(60))
def test_sums_of_gradients_of_slices_are_those_of_numpy(seed):
    """Each slice's gradient, added up: NumPy adds to zeros."""
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(3, 9, 3).tolist())
    chunks = tuple(int(rng.integers(1, n + 1)) for n in shape)
    values = numbers(*shape, seed=seed)
    x = ag.asarray(da.from_array(values, chunks=chunks), requires_grad=True)
    loss, expected = ag.sum(x * 0.5), np.full(shape, 0.5)
    for _ in range(3):
        key = drawn_key(rng, shape)
        weights = rng.standard_normal(values[key].shape)
        loss = loss + ag.sum(x[key] * ag.asarray(weights))
        expected[key] += weights
    loss.backward()
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("chunks", [(6,), (2, 2, 2), (1, 5)])
@pytest.mark.parametrize("key", [slice(1, 5), slice(0, 6, 2), slice(2, 4)])
def test_zeros_that_are_not_made_change_no_bit(chunks, key):
    """``-0.0 + 0.0`` is ``0.0``: so the elements beside those that are added to are."""
    values = np.asarray([-0.0, 1.0, -0.0, np.nan, np.inf, -0.0], np.float32)
    part = np.full(len(values[key]), -0.0, np.float32)
    zeros = ag.zeros(6, dtype=ag.float32, device="dask", chunks=(chunks,))
    spread = indexing.scatter_add(agrad_dask.DaskBackend().spec(zeros.to_dask_array()), key, da.from_array(part))
    whole = np.zeros(6, np.float32)
    whole[key] = part
    for found in (
        ag.add(ag.asarray(da.from_array(values, chunks=(chunks,))), ag.asarray(spread)),
        ag.add(ag.asarray(spread), ag.asarray(da.from_array(values, chunks=(chunks,)))),
    ):
        expected = values + whole
        assert (found.numpy().view(np.int32) == expected.view(np.int32)).all()


# -- tiles ----------------------------------------------------------------------------------------------------------------


def calls(*steps):
    """Return steps for ``tiled``: a function, the key of its result, and keys or numbers."""
    made = []
    for function, key, *args in steps:
        refs = [spec.TaskRef(a) if isinstance(a, str) else a for a in args]
        needs = tuple(dict.fromkeys(a for a in args if isinstance(a, str)))
        made.append((fusing.TaskCall(spec.Task(key, function, *refs)), key, needs))
    return made


STEPS = calls(
    (operator.sub, "a", "x", "y"),
    (np.multiply, "b", "a", "a"),
    (np.add, "c", "b", np.asarray(1e-3, np.float32)),
    (np.sqrt, "d", "c"),
    (operator.truediv, "e", 0.5, "d"),
    (np.multiply, "f", "e", "row"),
    (np.less, "g", "f", "y"),
    (operator.neg, "h", "f"),
)


def expected_of(x, y, row):
    a = x - y
    d = np.sqrt(a * a + np.asarray(1e-3, np.float32))
    f = 0.5 / d * row
    return {"d": d, "g": f < y, "h": -f}


def run(steps, given, results):
    return dict(zip(results, fusing.task_list_of(steps, results, {}).run(dict(given)), strict=True))


@pytest.mark.parametrize(
    "shape", [(700, 701), (3, 500, 401), (600_001,), (2, 2, 2, 300, 301), (270_000, 2), (1, 400_000), (5, 3)]
)
@pytest.mark.parametrize("layout", ["whole", "parts", "transposed", "broadcast"])
def test_tiles_give_the_bits_of_the_functions_themselves(shape, layout):
    x, y = numbers(*shape, dtype=np.float32), numbers(*shape, seed=1, dtype=np.float32)
    if layout == "parts":
        x = numbers(*(n + 1 for n in shape), dtype=np.float32)[(slice(1, None),) * len(shape)]
    if layout == "transposed":
        x, y = (np.ascontiguousarray(each.T).T for each in (x, y))
    if layout == "broadcast":
        y = np.broadcast_to(y[:1], shape)
    given = {"x": x, "y": y, "row": numbers(shape[-1], dtype=np.float32)}
    steps = tiling.tiled(STEPS, ("d", "g", "h"), lambda _: "alike")
    assert [type(task) for task, *_ in steps] == [tiling.Tiled]
    found = run(pickle.loads(pickle.dumps(steps)), given, ("d", "g", "h"))
    for key, value in expected_of(**given).items():
        assert (found[key] == value).all(), key
        assert (found[key].dtype, found[key].strides) == (value.dtype, value.strides), key


def test_a_tile_holds_what_is_needed_as_a_whole_alone():
    x = numbers(16, 512, 512, dtype=np.float32)
    names = [f"v{i}" for i in range(12)]
    steps = calls(*((np.sin, name, before) for before, name in zip(["x", *names], names, strict=False)))
    tiles = tiling.tiled(steps, (names[-1],), lambda _: "alike")
    tracemalloc.start()
    fusing.task_list_of(tiles, (names[-1],), {}).run({"x": x})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert x.nbytes <= peak < x.nbytes + 2**20


def test_steps_on_other_chunks_and_what_would_be_held_longer_stay_apart():
    total = lambda value: value.sum()
    apart = calls((np.sin, "a", "x"), (total, "s", "a"), (np.cos, "b", "x"), (total, "t", "b"))
    assert [key for _, key, _ in tiling.tiled(apart, ("s", "t"), lambda _: "alike")] == ["a", "s", "b", "t"]
    waits = calls((np.sin, "a", "x"), (total, "s", "a"), (np.cos, "b", "a"), (np.exp, "c", "b"))
    assert [key for _, key, _ in tiling.tiled(waits, ("s", "c"), lambda _: "alike")] == [None, "s"]
    cut = {"a": 1, "b": 1, "c": 2}.get
    other = calls((np.sin, "a", "x"), (np.cos, "b", "a"), (np.exp, "c", "b"))
    assert [key for _, key, _ in tiling.tiled(other, ("c",), cut)] == [None, "c"]
    assert [key for _, key, _ in tiling.tiled(other, ("c",), lambda _: None)] == ["a", "b", "c"]


def test_tasks_of_any_kind_are_steps():
    """A function may be unhashable, and a task may be a container with keys of its own."""

    class Times:
        __hash__ = None

        def __init__(self, factor):
            self.factor = factor

        def __eq__(self, other):
            return isinstance(other, Times) and other.factor == self.factor

        def __call__(self, value):
            return value * self.factor

    steps = calls((Times(2), "a", "x"), (np.sin, "b", "a"))
    found = run(tiling.tiled(steps, ("a", "b"), lambda _: "alike"), {"x": np.ones(3)}, ("a", "b"))
    assert (found["b"] == np.sin(2 * np.ones(3))).all()
    held = spec.Dict({"factor": 3.0})
    steps = [(held, "held", ()), *calls((operator.itemgetter("factor"), "a", "held"))]
    assert run(steps, {}, ("held", "a")) == {"held": {"factor": 3.0}, "a": 3.0}


def test_an_error_names_the_step():
    steps = tiling.tiled(calls((np.sin, "a", "x"), (np.bitwise_and, "b", "a", "a")), ("b",), lambda _: "alike")
    with pytest.raises(TypeError, match="bitwise_and") as failed:
        fusing.task_list_of(steps, ("b",), {}).run({"x": numbers(600, 600)})
    assert any(getattr(f.frame.f_locals.get("self"), "key", None) == "b" for f in failed.traceback)


def test_a_loss_over_large_chunks_runs_in_tiles_and_has_the_same_bits(monkeypatch):
    values = numbers(9 * 8, 200, 200, dtype=np.float32)

    def gradient():
        x = ag.asarray(da.from_array(values, chunks=(8, 200, 200)), requires_grad=True)
        at = x[:-1, :-1]
        loss = ag.sum(ag.sqrt((x[1:, :-1] - at) ** 2 + (x[:-1, 1:] - at) ** 2 + 1e-3))
        loss.backward()
        return x.grad.numpy()

    ran = []
    whole = tiling.Tiled._in_tiles
    monkeypatch.setattr(tiling.Tiled, "_in_tiles", lambda self, given: ran.append(whole(self, given)) or ran[-1])
    found = gradient()
    assert sum(made is not None for made in ran) >= 9
    monkeypatch.setattr(tiling.Tiled, "_in_tiles", lambda *_: None)
    assert (found.view(np.int32) == gradient().view(np.int32)).all()
