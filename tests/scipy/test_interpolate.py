"""Interpolation: values as SciPy's, derivatives as finite differences', by places, values and knots."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import interpolate as theirs

import agrad as ag
from agrad.autograd import gradcheck, gradgradcheck
from agrad.scipy import interpolate

RNG = np.random.default_rng(0)
KNOTS = np.array([0.0, 0.7, 1.5, 2.0, 3.2, 4.0])
VALUES = RNG.normal(size=6)
PLACES = np.array([0.1, 0.9, 1.6, 2.5, 3.9])
CONDITIONS = [
    "not-a-knot",
    "natural",
    "clamped",
    ("natural", "not-a-knot"),
    ((1, 0.5), (2, -1.0)),
    "periodic",
]


def leaf(values):
    return ag.tensor(np.asarray(values), requires_grad=True)


def values_for(condition, n=6):
    values = RNG.normal(size=n)
    if condition == "periodic":
        values[-1] = values[0]
    return values


class TestSplines:
    @pytest.mark.parametrize("n", [2, 3, 4, 6])
    @pytest.mark.parametrize("condition", CONDITIONS, ids=str)
    def test_values_derivatives_and_integrals_are_scipys(self, condition, n):
        values = values_for(condition, n)
        expected = theirs.CubicSpline(KNOTS[:n], values, bc_type=condition)
        found = interpolate.CubicSpline(KNOTS[:n], values, bc_type=condition)
        places = np.linspace(-1, 5, 31)
        for nu in range(5):
            near = {"rtol": 1e-10, "atol": 1e-10}
            inside = places if nu < 2 else places[(places > KNOTS[0]) & (places < KNOTS[n - 1])]
            np.testing.assert_allclose(found(inside, nu).numpy(), expected(inside, nu), **near)
        np.testing.assert_allclose(found.derivative()(0.3).item(), expected.derivative()(0.3))
        if condition != "periodic":
            np.testing.assert_allclose(found.integrate(-0.2, 1.7).item(), expected.integrate(-0.2, 1.7), rtol=1e-10)
        np.testing.assert_allclose(found.c.numpy(), expected.c, rtol=1e-9, atol=1e-10)

    @pytest.mark.parametrize("condition", CONDITIONS, ids=str)
    def test_by_places_values_and_knots(self, condition):
        def of(places, values, knots):
            if condition == "periodic":
                values = ag.concat([values, values[:1]])
            return interpolate.CubicSpline(knots, values, bc_type=condition)(places)

        values = VALUES[:-1] if condition == "periodic" else VALUES
        inputs = (leaf(PLACES), leaf(values), leaf(KNOTS))
        assert gradcheck(of, inputs, check_forward_ad=True, atol=1e-5)
        assert gradgradcheck(of, inputs, fast_mode=True, atol=1e-4, check_fwd_over_rev=True)

    def test_by_the_conditions_at_the_ends(self):
        def of(first, last):
            return interpolate.CubicSpline(KNOTS, VALUES, bc_type=((1, first), (2, last)))(PLACES)

        assert gradcheck(of, (leaf(0.5), leaf(-1.0)), check_forward_ad=True)

    @pytest.mark.parametrize("axis", [0, 1, -1])
    def test_axes_and_shapes_of_places(self, axis):
        values = np.moveaxis(RNG.normal(size=(6, 2, 3)), 0, axis)
        places = PLACES[:4].reshape(2, 2)
        expected = theirs.CubicSpline(KNOTS, values, axis)(places)
        np.testing.assert_allclose(interpolate.CubicSpline(KNOTS, values, axis)(places).numpy(), expected, rtol=1e-10)
        expected = theirs.interp1d(KNOTS, values, axis=axis)(places)
        np.testing.assert_allclose(interpolate.interp1d(KNOTS, values, axis=axis)(places).numpy(), expected, rtol=1e-10)

    @pytest.mark.parametrize("condition", ["not-a-knot", "periodic"])
    def test_complex_values(self, condition):
        values = values_for(condition) + 1j * values_for(condition)
        expected = theirs.CubicSpline(KNOTS, values, bc_type=condition)(PLACES)
        np.testing.assert_allclose(interpolate.CubicSpline(KNOTS, values, bc_type=condition)(PLACES).numpy(), expected)
        if condition != "periodic":
            assert gradcheck(
                lambda v: interpolate.CubicSpline(KNOTS, v)(PLACES), (leaf(values),), check_forward_ad=True
            )

    def test_beyond_the_knots(self):
        spline = interpolate.CubicSpline(KNOTS, VALUES, extrapolate=False)
        assert np.isnan(spline([-1.0, 5.0]).numpy()).all()
        assert np.isfinite(spline([-1.0, 5.0], extrapolate=True).numpy()).all()
        (g,) = ag.grad(ag.sum(spline(places := leaf([-1.0, 1.0]))[1:]), places)
        assert g[0].item() == 0

    @pytest.mark.parametrize("backend", ["numpy", "strict"], indirect=True)
    def test_backends(self, backend):
        knots, values, places = (
            ag.asarray(v.tolist(), device=backend, dtype=ag.float64) for v in (KNOTS, VALUES, PLACES)
        )
        for condition in ("not-a-knot", "natural", "periodic"):
            given = ag.concat([values[:-1], values[:1]]) if condition == "periodic" else values
            found = ag.func.grad(
                lambda p, given=given, condition=condition: ag.sum(
                    interpolate.CubicSpline(knots, given, bc_type=condition)(p)
                )
            )(places)
            expected = theirs.CubicSpline(KNOTS, np.asarray(given.tolist()), bc_type=condition)(PLACES, 1)
            np.testing.assert_allclose(np.asarray(found.tolist()), expected, rtol=1e-9)

    def test_lazy_places_are_served_and_lazy_knots_refused(self, dask_backend):
        places = ag.asarray(PLACES, device="dask")
        for made, expected in (
            (interpolate.CubicSpline(KNOTS, VALUES), theirs.CubicSpline(KNOTS, VALUES)),
            (interpolate.interp1d(KNOTS, VALUES), theirs.interp1d(KNOTS, VALUES)),
        ):
            np.testing.assert_allclose(made(places).numpy(), expected(PLACES), rtol=1e-10)
        with pytest.raises(ag.UnsupportedOp, match=r"CubicSpline.*compute\(\)"):
            interpolate.CubicSpline(ag.asarray(KNOTS, device="dask"), VALUES)

    def test_make_interp_spline(self):
        for k in (1, 3):
            expected = theirs.make_interp_spline(KNOTS, VALUES, k)(PLACES)
            np.testing.assert_allclose(interpolate.make_interp_spline(KNOTS, VALUES, k)(PLACES).numpy(), expected)
        with pytest.raises(NotImplementedError, match="degree"):
            interpolate.make_interp_spline(KNOTS, VALUES, 5)

    def test_what_scipy_refuses(self):
        for x, y, options in (
            (KNOTS[::-1], VALUES, {}),
            (KNOTS, VALUES[:-1], {}),
            (KNOTS[:1], VALUES[:1], {}),
            (KNOTS[:, None], VALUES, {}),
            (KNOTS, np.where(KNOTS > 3, np.nan, VALUES), {}),
            (KNOTS, VALUES, {"bc_type": "periodic"}),
            (KNOTS, VALUES, {"bc_type": "free"}),
            (KNOTS, VALUES, {"bc_type": ((3, 0.0), (1, 0.0))}),
            (KNOTS, VALUES, {"bc_type": ("natural",)}),
        ):
            for CubicSpline in (theirs.CubicSpline, interpolate.CubicSpline):
                with pytest.raises(ValueError):
                    CubicSpline(x, y, **options)


class TestLinear:
    def test_values_are_scipys(self):
        order = RNG.permutation(6)
        for options in ({}, {"fill_value": "extrapolate"}, {"fill_value": (1.0, 2.0), "bounds_error": False}):
            places = PLACES if not options else np.array([-1.0, *PLACES, 5.0, np.nan])
            for kind in ("linear", "cubic"):
                expected = theirs.interp1d(KNOTS[order], VALUES[order], kind, **options)(places)
                found = interpolate.interp1d(KNOTS[order], VALUES[order], kind, **options)(places)
                np.testing.assert_allclose(found.numpy(), expected, rtol=1e-10)
        for bad in (-1.0, 5.0):
            for interp1d in (theirs.interp1d, interpolate.interp1d):
                with pytest.raises(ValueError, match="interpolation range"):
                    interp1d(KNOTS, VALUES)(bad)
        with pytest.raises(NotImplementedError, match="kind"):
            interpolate.interp1d(KNOTS, VALUES, "nearest")

    @pytest.mark.parametrize("kind", ["linear", "cubic"])
    def test_by_places_values_and_knots(self, kind):
        of = lambda places, values, knots: interpolate.interp1d(knots, values, kind)(places)
        inputs = (leaf(PLACES), leaf(VALUES), leaf(KNOTS))
        assert gradcheck(of, inputs, check_forward_ad=True, atol=1e-5)
        assert gradgradcheck(of, inputs, fast_mode=True, atol=1e-4)

    def test_every_place_by_itself(self):
        spline = interpolate.interp1d(KNOTS, VALUES)
        slopes = ag.func.elementwise_grad(spline)(ag.asarray(PLACES)).numpy()
        at = np.searchsorted(KNOTS, PLACES) - 1
        np.testing.assert_allclose(slopes, np.diff(VALUES)[at] / np.diff(KNOTS)[at])


class TestGrids:
    GRID = (KNOTS, np.array([0.0, 1.0, 3.0]), np.array([-1.0, 1.0]))

    def test_values_are_scipys(self):
        values = RNG.normal(size=(6, 3, 2, 2))
        places = RNG.uniform(0, 1, size=(4, 5, 3))
        expected = theirs.RegularGridInterpolator(self.GRID, values)(places)
        np.testing.assert_allclose(interpolate.RegularGridInterpolator(self.GRID, values)(places).numpy(), expected)
        beyond = np.array([[-1.0, 0.5, 0.0], [1.0, 4.0, 0.0], [1.0, 1.0, 0.5]])
        for fill in (None, 7.0, np.nan):
            expected = theirs.RegularGridInterpolator(self.GRID, values, bounds_error=False, fill_value=fill)(beyond)
            found = interpolate.RegularGridInterpolator(self.GRID, values, bounds_error=False, fill_value=fill)(beyond)
            np.testing.assert_allclose(found.numpy(), expected)
        for kind in (theirs, interpolate):
            with pytest.raises(ValueError, match="out of bounds in dimension 0"):
                kind.RegularGridInterpolator(self.GRID, values)(beyond)
            with pytest.raises(ValueError, match="dimension"):
                kind.RegularGridInterpolator(self.GRID, values)([[1.0, 2.0]])
            with pytest.raises(ValueError, match="dimension"):
                kind.RegularGridInterpolator(self.GRID, values[0, 0])

    def test_by_places_values_and_knots(self):
        values, places = RNG.normal(size=(6, 3, 2)), RNG.uniform(0.1, 0.6, size=(4, 3))

        def of(places, values, *grid):
            return interpolate.RegularGridInterpolator(grid, values)(places)

        inputs = (leaf(places), leaf(values), *map(leaf, self.GRID))
        assert gradcheck(of, inputs, check_forward_ad=True, fast_mode=True)
        assert gradgradcheck(of, inputs, fast_mode=True)


class TestGivenSlopes:
    BEYOND = np.linspace(-0.5, 4.5, 15)

    @pytest.mark.parametrize("n", [2, 3, 4, 6])
    def test_monotone_pieces_are_scipys(self, n):
        x = KNOTS[:n]
        for y in (
            VALUES[:n],
            np.sort(VALUES[:n]),
            np.array([0.0, 0.0, 1.0, 1.0, 0.5, 2.0])[:n],
            RNG.normal(size=(n, 2)),
        ):
            for extrapolate in (None, False):
                found = interpolate.PchipInterpolator(x, y, extrapolate=extrapolate)
                known = theirs.PchipInterpolator(x, y, extrapolate=extrapolate)
                for nu in (0, 1):
                    np.testing.assert_allclose(found(self.BEYOND, nu).numpy(), known(self.BEYOND, nu), atol=1e-12)
            np.testing.assert_allclose(found.integrate(0.2, 0.6).numpy(), known.integrate(0.2, 0.6), rtol=1e-12)
        columns = RNG.normal(size=(3, n))
        np.testing.assert_allclose(
            interpolate.PchipInterpolator(x, columns, axis=1)(PLACES).numpy(),
            theirs.PchipInterpolator(x, columns, axis=1)(PLACES),
            atol=1e-12,
        )

    def test_given_slopes_are_kept(self):
        slopes = RNG.normal(size=6)
        found = interpolate.CubicHermiteSpline(KNOTS, VALUES, slopes)
        known = theirs.CubicHermiteSpline(KNOTS, VALUES, slopes)
        np.testing.assert_allclose(found(self.BEYOND).numpy(), known(self.BEYOND), atol=1e-12)
        np.testing.assert_allclose(found(KNOTS, 1).numpy(), slopes, atol=1e-12)

    def test_derivatives(self):
        def monotone(x, y, places):
            return interpolate.PchipInterpolator(x, y)(places)

        def hermite(x, y, dydx, places):
            return interpolate.CubicHermiteSpline(x, y, dydx)(places)

        operands = leaf(KNOTS), leaf(VALUES), leaf(PLACES)
        rising = leaf(KNOTS), leaf(np.sort(VALUES)), leaf(PLACES)
        for function, given in (
            (monotone, operands),
            (monotone, rising),
            (hermite, (*operands[:2], leaf(VALUES[::-1]), leaf(PLACES))),
        ):
            assert gradcheck(function, given, check_forward_ad=True, fast_mode=True)
            assert gradgradcheck(function, given, check_fwd_over_rev=True, fast_mode=True)

    def test_level_lines_have_a_gradient(self):
        y = leaf([1.0, 1.0, 1.0, 2.0])
        (g,) = ag.grad(interpolate.PchipInterpolator(np.arange(4.0), y)(np.array([0.5, 1.5])).sum(), y)
        assert np.isfinite(g.numpy()).all()

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda m: m.PchipInterpolator(KNOTS[::-1], VALUES), "strictly increasing"),
            (lambda m: m.PchipInterpolator(KNOTS, VALUES * 1j), "only works with real values"),
            (lambda m: m.CubicHermiteSpline(KNOTS, VALUES, np.ones((6, 2))), "must be identical"),
        ],
    )
    def test_bad_input(self, call, message):
        for module in (interpolate, theirs):
            with pytest.raises(ValueError, match=message if module is interpolate else None):
                call(module)


def test_antiderivatives():
    x, y, places = (
        np.asarray([0.0, 1.0, 2.5, 3.0]),
        np.asarray([[1.0, 2.0, -1.0, 1.0], [0.0, 1.0, 4.0, 1.0]]),
        [[-0.5, 0.3], [2.7, 3.4]],
    )
    for further in (None, False, "periodic"):
        found = interpolate.CubicSpline(x, y, axis=1, extrapolate=further).antiderivative()(places)
        expected = theirs.CubicSpline(x, y, axis=1, extrapolate=further).antiderivative()(places)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, atol=1e-14)
    leaves = [ag.tensor(np.asarray(t), requires_grad=True) for t in (x, y[0], places)]
    assert gradcheck(
        lambda x, y, at: interpolate.PchipInterpolator(x, y).antiderivative()(at), leaves, check_forward_ad=True
    )
