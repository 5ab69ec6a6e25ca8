from __future__ import annotations

import numpy as np
import pytest
import scipy.fft

import agrad as ag

NORMS = ["backward", "ortho", "forward"]
rng = np.random.default_rng(5)


def signal(*shape, kind="complex"):
    made = rng.standard_normal(shape)
    return made + 1j * rng.standard_normal(shape) if kind == "complex" else made


def dft(n, sign, norm):
    """The matrix of the transform, from its definition."""
    k = np.arange(n)
    scale = {"backward": 1 if sign < 0 else n, "ortho": np.sqrt(n), "forward": n if sign < 0 else 1}[norm]
    return np.exp(sign * 2j * np.pi * np.outer(k, k) / n) / scale


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("n", [1, 4, 5])
def test_values_and_gradients_follow_the_definition(norm, n):
    for name, sign in (("fft", -1), ("ifft", 1)):
        z, w = signal(n), signal(n)
        x = ag.asarray(z, requires_grad=True)
        y = getattr(ag.fft, name)(x, norm=norm)
        F = dft(n, sign, norm)
        np.testing.assert_allclose(np.asarray(y.detach()), F @ z, atol=1e-13)
        (g,) = ag.autograd.grad(y, x, ag.asarray(w))
        np.testing.assert_allclose(np.asarray(g), F.conj().T @ w, atol=1e-13)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("n", [4, 5])
def test_half_spectra_follow_the_definition(norm, n):
    """Rows 0 to n // 2 of the matrix; back from them, the conjugate rows are filled in."""
    m = n // 2 + 1
    a, w = signal(n, kind="real"), signal(m)
    for name, sign in (("rfft", -1), ("ihfft", 1)):
        half = dft(n, sign, norm)[:m]
        x = ag.asarray(a, requires_grad=True)
        y = getattr(ag.fft, name)(x, norm=norm)
        np.testing.assert_allclose(np.asarray(y.detach()), half @ a, atol=1e-13)
        (g,) = ag.autograd.grad(y, x, ag.asarray(w))
        np.testing.assert_allclose(np.asarray(g), (half.conj().T @ w).real, atol=1e-13)
    z, v = signal(m), signal(n, kind="real")
    filled = np.concatenate([[z[0].real], z[1 : n - m + 1], [z[-1].real] * (n % 2 == 0), z[1 : n - m + 1][::-1].conj()])
    for name, sign in (("irfft", 1), ("hfft", -1)):
        x = ag.asarray(z, requires_grad=True)
        y = getattr(ag.fft, name)(x, n=n, norm=norm)
        np.testing.assert_allclose(np.asarray(y.detach()), (dft(n, sign, norm) @ filled).real, atol=1e-13)
        (g,) = ag.autograd.grad(y, x, ag.asarray(v))
        np.testing.assert_allclose(np.vdot(np.asarray(g), z).real, v @ np.asarray(y.detach()), rtol=1e-12)  # adjoint
        assert g[0].imag == 0
        assert n % 2 or g[-1].imag == 0


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "ihfft", "irfft", "hfft"])
def test_single_precision_stays(name, backend):
    kind = np.float32 if name in ("rfft", "ihfft") else np.complex64
    x = ag.asarray(signal(5).real.astype(kind), device=backend, requires_grad=True)
    y = getattr(ag.fft, name)(x)
    assert y._spec.backend.dtype_name(y.dtype) == ("float32" if name in ("irfft", "hfft") else "complex64")
    (g,) = ag.autograd.grad(y, x, ag.ones_like(y))
    assert g.dtype == x.dtype


def test_against_scipy_over_several_axes():
    z, a = signal(3, 4, 2), signal(3, 4, 2, kind="real")
    for name, x in (("fftn", z), ("ifftn", z), ("rfftn", a), ("irfftn", z)):
        for norm in NORMS:
            expected = getattr(scipy.fft, name)(x, s=(5, 3), axes=(2, 0), norm=norm)
            got = getattr(ag.fft, name)(ag.asarray(x), s=(5, 3), axes=(2, 0), norm=norm)
            np.testing.assert_allclose(np.asarray(got), expected, atol=1e-13)


def test_parseval_has_the_gradient_of_the_norm():
    a = signal(6, kind="real")
    x = ag.asarray(a, requires_grad=True)
    ag.sum(ag.square(ag.abs(ag.fft.fft(x, norm="ortho")))).backward()
    np.testing.assert_allclose(np.asarray(x.grad), 2 * a, rtol=1e-13)


def test_a_filter_and_its_gradient():
    """A circular convolution by way of the spectrum; its gradient is the circular correlation."""
    a, k, w = (signal(7, kind="real") for _ in range(3))
    x = ag.asarray(a, requires_grad=True)
    y = ag.fft.irfft(ag.fft.rfft(x) * ag.fft.rfft(ag.asarray(k)), n=7)
    C = np.array([[k[(i - j) % 7] for j in range(7)] for i in range(7)])
    np.testing.assert_allclose(np.asarray(y.detach()), C @ a, atol=1e-13)
    (g,) = ag.autograd.grad(y, x, ag.asarray(w))
    np.testing.assert_allclose(np.asarray(g), C.T @ w, atol=1e-13)


@pytest.mark.parametrize("n", [1, 2, 5, 8])
@pytest.mark.parametrize("d", [1.0, 0.1])
def test_frequencies(n, d, backend):
    for name in ("fftfreq", "rfftfreq"):
        made = getattr(ag.fft, name)(n, d=d, device=backend, dtype=ag.float64)
        assert made.device == backend
        np.testing.assert_array_equal(np.asarray(made.tolist()), getattr(np.fft, name)(n, d=d))


def test_frequencies_are_created_as_asked():
    assert ag.fft.fftfreq(3).dtype == ag.get_default_dtype()
    assert ag.fft.rfftfreq(3, dtype="float32").dtype == ag.float32
    assert ag.fft.fftfreq(3, requires_grad=True).requires_grad
    assert ag.namespace("numpy").fft.fftfreq(3).device == "numpy"


@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
def test_frequencies_refuse(name):
    with pytest.raises(ValueError, match=rf"{name}\(\) takes a positive number of samples, got 0"):
        getattr(ag.fft, name)(0)
    with pytest.raises(TypeError, match="real floating-point dtype, got int64"):
        getattr(ag.fft, name)(3, dtype="int64")


def test_an_axis_twice_has_no_gradient():
    x = ag.asarray(signal(3), requires_grad=True)
    y = ag.fft.fftn(x, axes=(0, -1))
    with pytest.raises(ValueError, match="must be distinct"):
        ag.autograd.grad(y, x, ag.ones_like(y))


def test_an_unknown_norm_is_refused():
    with pytest.raises(ValueError, match="norm") as caught:
        ag.fft.fft(ag.asarray(signal(3)), norm="both")
    assert "fft.fft" in caught.value.__notes__[0]


def test_bound_namespaces_have_all():
    chapter = ag.namespace("numpy").fft
    standard = set(ag.fft.__all__) - {"fft2", "ifft2", "irfft2", "rfft2"}  # PyTorch's
    assert all(hasattr(chapter, name) for name in standard)
    assert len(standard) == 14


def test_minus_one_is_a_length_without_padding(backend):
    """In the standard's words; NumPy's own irfftn takes the length of the half spectrum for that of the result."""
    z = signal(3, 4)
    for name, x, lengths in (("fftn", z, (5, 4)), ("rfftn", z.real, (5, 4)), ("irfftn", z, (5, 6))):
        expected = getattr(scipy.fft, name)(x, s=lengths, axes=(0, 1))
        for axes in ((0, 1), (-2, -1)):
            got = getattr(ag.fft, name)(ag.asarray(x, device=backend), s=(5, -1), axes=axes)
            np.testing.assert_allclose(np.asarray(got), expected, atol=1e-13)
