"""Signals: values are SciPy's, derivatives those of finite differences, on every backend."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.signal

import agrad as ag
from agrad.autograd import gradcheck, gradgradcheck
from agrad.scipy import signal

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=7), RNG.normal(size=3)
IMAGE, STAMP = RNG.normal(size=(4, 5)), RNG.normal(size=(2, 3))


def value(tensor):
    return tensor.detach().to_device("numpy").numpy()


def leaves(device, *values):
    return tuple(ag.asarray(np.asarray(v), device=device).requires_grad_() for v in values)


def checked(function, *operands, second=True):
    assert gradcheck(function, operands, check_forward_ad=True, fast_mode=True)
    if second:
        assert gradgradcheck(function, operands, check_fwd_over_rev=True, fast_mode=True)


PAIRS = {
    "vectors": (X, Y),
    "the shorter one first": (Y, X),
    "even lengths": (X[:6], Y[:2]),
    "one element": (X, Y[:1]),
    "complex": (X + 1j * X[::-1], Y - 1j),
    "real and complex": (X, Y - 1j),
    "images": (IMAGE, STAMP),
    "the smaller image first": (STAMP, IMAGE),
    "volumes": (RNG.normal(size=(2, 3, 4)), RNG.normal(size=(2, 1, 2))),
}
MODES = ["full", "same", "valid"]


@pytest.mark.parametrize(("name", "mode"), list(itertools.product(["convolve", "correlate"], MODES)))
@pytest.mark.parametrize("pair", PAIRS)
def test_convolution(pair, name, mode):
    x, y = PAIRS[pair]
    for method in ("direct", "fft", "auto"):
        function, expected = getattr(signal, name), getattr(scipy.signal, name)(x, y, mode, method)
        found = function(x, y, mode, method)
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        np.testing.assert_allclose(value(found), expected, atol=1e-13)
        if method != "auto":
            checked(lambda x, y: function(x, y, mode, method), *leaves(None, x, y), second=mode != "same")  # noqa: B023


@pytest.mark.parametrize("boundary", ["fill", "wrap", "symm"])
@pytest.mark.parametrize(("name", "mode"), list(itertools.product(["convolve2d", "correlate2d"], MODES)))
def test_convolution_of_matrices(name, mode, boundary):
    function = getattr(signal, name)
    for x, y in ((IMAGE, STAMP), (STAMP, IMAGE), (IMAGE, STAMP + 1j), (STAMP - 1j, IMAGE + 1j), (IMAGE, IMAGE[:4, :2])):
        for more in ((boundary,), (boundary, 1.5)):
            found, expected = function(x, y, mode, *more), getattr(scipy.signal, name)(x, y, mode, *more)
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(value(found), expected, atol=1e-13)
    checked(lambda x, y: function(x, y, mode, boundary, 1.5), *leaves(None, IMAGE, STAMP), second=mode == "same")


@pytest.mark.parametrize("mode", MODES)
def test_transforms_along_some_axes(mode):
    x, y = RNG.normal(size=(3, 4)), RNG.normal(size=(3, 2))
    for axes, other in ((1, y), ([-1], y[:1]), ((0, 1), y), (0, y[:2, :1])):
        found = signal.fftconvolve(x, other, mode, axes)
        np.testing.assert_allclose(value(found), scipy.signal.fftconvolve(x, other, mode, axes), atol=1e-13)
        checked(lambda x, y: signal.fftconvolve(x, y, mode, axes), *leaves(None, x, other), second=False)  # noqa: B023


@pytest.mark.parametrize("backend", ["strict", "dask"], indirect=True)
@pytest.mark.parametrize("pair", ["vectors", "complex", "images"])
def test_convolution_on_other_backends(pair, backend):
    x, y = PAIRS[pair]
    for mode, method in (("full", "direct"), ("valid", "direct"), ("same", "fft")):
        given = leaves(backend, x, y)
        np.testing.assert_allclose(value(signal.convolve(*given, mode, method)), scipy.signal.convolve(x, y, mode))
        checked(lambda x, y: signal.convolve(x, y, mode, method), *given, second=False)  # noqa: B023


@pytest.mark.parametrize("dtype", ["float32", "complex128", "float16"])
@pytest.mark.parametrize(
    "shapes",
    [((90, 40), (5, 6)), ((2, 300, 3), (2, 7, 2)), ((64, 1), (3, 1)), ((5, 6), (90, 40)), ((3, 4, 5, 2), (2, 3, 1, 2))],
)
def test_images_by_products_of_matrices(shapes, dtype):
    rng = np.random.default_rng(3)
    x, y = (rng.normal(size=shape) for shape in shapes)
    x, y = (v + 1j * rng.normal(size=v.shape) if dtype == "complex128" else v for v in (x, y))
    a, b = (ag.tensor(v.astype(dtype), requires_grad=True) for v in (x[::-1], y))
    found = signal.convolve(a, b, method="direct")
    assert str(found.dtype).endswith(dtype)
    tolerance = {"float32": 1e-5, "complex128": 1e-13, "float16": 1e-2}[dtype]
    close = lambda got, known: np.abs(got - known).max() <= tolerance * np.abs(known).max()
    expected = scipy.signal.convolve(x[::-1], y, method="direct")
    assert close(value(found), expected)
    weights = rng.normal(size=expected.shape)
    gradients = ag.grad(found, (a, b), ag.asarray(weights.astype(dtype)))
    for gradient, other, like in zip(gradients, (y, x[::-1]), (x, y), strict=True):
        known = scipy.signal.correlate(weights, other, method="direct")
        middle = tuple(slice(n - 1, n - 1 + m) for n, m in zip(other.shape, like.shape, strict=True))
        assert close(value(gradient), known[middle])


def test_integers_stay_integers():
    found = signal.convolve([1, 2, 3], [1, 1])
    assert found.dtype == np.int64
    assert found.tolist() == [1, 3, 5, 3]
    assert signal.correlate(np.ones(4, np.float32), np.ones(2, np.float32)).dtype == np.float32


def test_large_operands_take_transforms():
    x, y = RNG.normal(size=4000), RNG.normal(size=3000)
    node = signal.convolve(ag.tensor(x, requires_grad=True), y).grad_fn
    assert "Convolve" not in node.name()
    assert "Convolve" in signal.convolve(ag.tensor(x, requires_grad=True), y[:50]).grad_fn.name()
    np.testing.assert_allclose(value(signal.convolve(x, y)), np.convolve(x, y), atol=1e-10)


def test_vmap_of_convolution():
    rows, weights = RNG.normal(size=(3, 6)), RNG.normal(size=(3, 2))
    both = ag.vmap(signal.convolve)(ag.asarray(rows), ag.asarray(weights))
    np.testing.assert_allclose(value(both), [np.convolve(x, w) for x, w in zip(rows, weights, strict=True)])
    one = ag.vmap(lambda x: signal.correlate(x, weights[0], "valid"))(ag.asarray(rows))
    np.testing.assert_allclose(value(one), [np.correlate(x, weights[0]) for x in rows])
    g = ag.vmap(ag.grad(lambda x: (signal.convolve(x, weights[0]) ** 2).sum()))(ag.asarray(rows))
    expected = [np.correlate(2 * np.convolve(x, weights[0]), weights[0]) for x in rows]
    np.testing.assert_allclose(value(g), expected)


# -- filters ----------------------------------------------------------------------------------------------------------

B, A = np.asarray([0.5, 0.2, 0.1]), np.asarray([2.0, -0.6, 0.3, 0.1])
ROWS = RNG.normal(size=(2, 6))
FILTERS = {
    "both": (B, A, ROWS),
    "finite": (B, A[:1], X),
    "recursive": (B[:1], A, X),
    "complex": (B + 0.1j, A - 0.2j, ROWS + 1j),
    "a short signal": (B, A, X[:2]),
}


@pytest.mark.parametrize("name", FILTERS)
def test_filters(name):
    b, a, x = FILTERS[name]
    for axis in range(-1, x.ndim - 1):
        found = signal.lfilter(b, a, x, axis)
        np.testing.assert_allclose(value(found), scipy.signal.lfilter(b, a, x, axis), atol=1e-14)
        checked(lambda b, a, x: signal.lfilter(b, a, x, axis), *leaves(None, b, a, x))  # noqa: B023


@pytest.mark.parametrize("name", FILTERS)
def test_filters_with_states(name):
    b, a, x = FILTERS[name]
    order = max(len(a), len(b)) - 1
    state = RNG.normal(size=(*x.shape[:-1], order)) + 0 * b[0]
    found, expected = signal.lfilter(b, a, x, zi=state), scipy.signal.lfilter(b, a, x, zi=state)
    for y, z in zip(found, expected, strict=True):
        np.testing.assert_allclose(value(y), z, atol=1e-14)
    checked(lambda b, a, x, state: signal.lfilter(b, a, x, zi=state), *leaves(None, b, a, x, state), second=False)
    parts = np.split(x, [2], axis=-1)
    first, state = signal.lfilter(b, a, parts[0], zi=state)
    second, state = signal.lfilter(b, a, parts[1], zi=state)
    np.testing.assert_allclose(np.concatenate([value(first), value(second)], axis=-1), expected[0], atol=1e-14)
    np.testing.assert_allclose(value(state), expected[1], atol=1e-14)


def test_sections():
    sos = scipy.signal.butter(4, 0.3, output="sos")
    zi = RNG.normal(size=(2, 2, 2))
    np.testing.assert_allclose(value(signal.sosfilt(sos, ROWS)), scipy.signal.sosfilt(sos, ROWS))
    for y, z in zip(signal.sosfilt(sos, ROWS, zi=zi), scipy.signal.sosfilt(sos, ROWS, zi=zi), strict=True):
        np.testing.assert_allclose(value(y), z, atol=1e-14)
    checked(lambda x: signal.sosfilt(sos, x, axis=0), *leaves(None, ROWS.T))

    def of_coefficients(poles, x):  # the fourth column stays 1
        one = ag.asarray([[1.0], [1.0]])
        return signal.sosfilt(ag.concat([poles[:, :3], one, poles[:, 3:]], axis=1), x)

    checked(of_coefficients, *leaves(None, np.delete(sos, 3, axis=1), X), second=False)


@pytest.mark.parametrize("backend", ["strict", "dask"], indirect=True)
def test_filters_on_other_backends(backend):
    given = leaves(backend, B, A, ROWS)
    np.testing.assert_allclose(value(signal.lfilter(*given)), scipy.signal.lfilter(B, A, ROWS))
    checked(signal.lfilter, *given, second=False)


def test_vmap_of_filters():
    x = ag.asarray(ROWS)
    found = ag.vmap(lambda x: signal.lfilter(B, A, x))(x)
    np.testing.assert_allclose(value(found), scipy.signal.lfilter(B, A, ROWS))
    b = RNG.normal(size=(2, 3))
    found = ag.vmap(lambda b: signal.lfilter(b, A, X))(ag.asarray(b))
    np.testing.assert_allclose(value(found), [scipy.signal.lfilter(row, A, X) for row in b])
    g = ag.vmap(ag.grad(lambda a: (signal.lfilter(B, a, X) ** 2).sum()))(ag.asarray(np.stack([A, A[::-1]])))
    one = ag.grad(lambda a: (signal.lfilter(B, a, X) ** 2).sum())
    np.testing.assert_allclose(value(g)[1], value(one(ag.asarray(A[::-1].copy()))))


@pytest.mark.parametrize("padtype", ["odd", "even", "constant", None])
def test_filtering_forwards_and_backwards(padtype):
    b, a = scipy.signal.butter(2, 0.3)
    x = RNG.normal(size=(2, 15))
    for options in ({}, {"padlen": 4}):
        found = signal.filtfilt(b, a, x, padtype=padtype, **options)
        np.testing.assert_allclose(value(found), scipy.signal.filtfilt(b, a, x, padtype=padtype, **options), atol=1e-13)
        turned = signal.filtfilt(b, a, x.T, axis=0, padtype=padtype, **options)
        np.testing.assert_allclose(value(turned).T, value(found), atol=1e-14)
    checked(lambda b, a, x: signal.filtfilt(b, a, x, padtype=padtype), *leaves(None, b, a, x))


def test_steady_states():
    for b, a in ((X[:3], [2.0, 0.3, 0.1, 0.4]), ([0.5], [1.0, -0.3]), (X[:4], [2.0])):
        np.testing.assert_allclose(value(signal.lfilter_zi(b, a)), scipy.signal.lfilter_zi(b, a), atol=1e-14)
    checked(signal.lfilter_zi, *leaves(None, X[:3], [2.0, 0.3, 0.1, 0.4]))


@pytest.mark.parametrize("axis", [0, -1])
def test_analytic_signals_and_signals_without_trend(axis):
    calls = {
        "hilbert": [(), (8,), (3,)],
        "detrend": [("linear",), ("constant",), ("linear", 2), ("l", [1, 3])],
    }
    for name, each in calls.items():
        for more in each:
            words = dict(zip(("N",) if name == "hilbert" else ("type", "bp"), more, strict=False))
            found = getattr(signal, name)(IMAGE, axis=axis, **words)
            expected = getattr(scipy.signal, name)(IMAGE, axis=axis, **words)
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(value(found), expected, atol=1e-14)
            function = getattr(signal, name)
            checked(lambda x: function(x, axis=axis, **words), *leaves(None, IMAGE))  # noqa: B023
    np.testing.assert_allclose(
        value(signal.detrend(IMAGE + 1j * IMAGE[::-1])), scipy.signal.detrend(IMAGE + 1j * IMAGE[::-1]), atol=1e-14
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.convolve(X, IMAGE), "same dimensionality"),
        (lambda m: m.convolve(X, Y, "middle"), "acceptable mode flags"),
        (lambda m: m.convolve(X, Y, method="slow"), "Acceptable method flags"),
        (lambda m: m.convolve(np.ones((2, 3)), np.ones((3, 2)), "valid"), "at least as large as the other"),
        (lambda m: m.fftconvolve(IMAGE, STAMP, axes=0), "incompatible shapes"),
        (lambda m: m.fftconvolve(IMAGE, STAMP, axes=[]), "axes cannot be empty"),
        (lambda m: m.lfilter(B, A, X, zi=np.ones(2)), "Unexpected shape for zi"),
        (lambda m: m.lfilter(B, [0.0, 1.0], X), "must not be 0"),
        (lambda m: m.lfilter([], A, X), "b must be a vector"),
        (lambda m: m.sosfilt(np.ones((2, 5)), X), r"sos array must be shape \(n_sections, 6\)"),
        (lambda m: m.sosfilt(2 * np.ones((2, 6)), X), "should be all ones"),
        (lambda m: m.sosfilt(np.ones((2, 6)), X, zi=np.ones((2, 3))), "Invalid zi shape"),
        (lambda m: m.convolve2d(X, IMAGE), "must both be 2-D arrays"),
        (lambda m: m.convolve2d(IMAGE, STAMP, "full", "free"), "Acceptable boundary flags"),
        (lambda m: m.filtfilt(B, A, X[:5]), "must be greater than padlen"),
        (lambda m: m.filtfilt(B, A, X, padtype="oddly"), "Unknown value 'oddly'"),
        (lambda m: m.hilbert(X * 1j), "x must be real"),
        (lambda m: m.hilbert(X, 0), "N must be positive"),
        (lambda m: m.detrend(X, type="square"), "Trend type must be"),
        (lambda m: m.detrend(X, bp=[90]), "Breakpoints must be less"),
        (lambda m: m.detrend(X, bp=[-1]), "Breakpoints must be less"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message) as caught:
        call(signal)
    assert "test_signal.py" in str(caught.value)
    with pytest.raises(ValueError):
        call(scipy.signal)
