"""Solvers as differentiable functions: what they find is SciPy's, derivatives are differences' of that."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize as theirs

import agrad as ag
import agrad.numpy as anp
from agrad.autograd import gradcheck, gradgradcheck
from agrad.func import ImplicitError
from agrad.scipy import optimize


def leaf(values):
    return ag.tensor(np.asarray(values, dtype=float), requires_grad=True)


def curves(x, p):
    return ag.stack([x[0] ** 2 + x[1] - p["a"], x[0] - x[1] ** 2 + p["b"]])


TIMES = np.linspace(0, 2, 9)
DATA = 2.5 * np.exp(-1.3 * TIMES) + 0.05 * np.sin(7 * TIMES)


def misfit(p, y):
    return p[0] * ag.exp(-p[1] * ag.asarray(TIMES)) - y


def distance(x, data):
    return ag.sum(ag.sqrt(1 + (x - data) ** 2)) + ag.sum(x**2) * 0.1


class TestRoot:
    @pytest.mark.parametrize("method", ["hybr", "lm", "krylov"])
    def test_by_its_arguments(self, method):
        expected = theirs.root(lambda x: [x[0] ** 2 + x[1] - 3, x[0] - x[1] ** 2 + 1], [1.0, 1.0], tol=1e-10)
        p = {"a": leaf(3.0), "b": leaf(1.0)}
        found = optimize.root(curves, [1.0, 1.0], (p,), method, tol=1e-10)
        np.testing.assert_allclose(found.x.detach().numpy(), expected.x, rtol=1e-7)
        of = lambda a, b: optimize.root(curves, [1.0, 1.0], ({"a": a, "b": b},), method, tol=1e-12).x
        assert gradcheck(of, (p["a"], p["b"]), check_forward_ad=True)

    def test_second_order_and_no_derivative_by_the_start(self):
        x0 = leaf([1.0, 1.0])
        of = lambda a, b: optimize.root(curves, x0, ({"a": a, "b": b},), tol=1e-12).x
        a, b = leaf(3.0), leaf(1.0)
        assert gradgradcheck(of, (a, b), check_fwd_over_rev=True)
        assert ag.grad(of(a, b).sum(), x0, allow_unused=True) == (None,)

    def test_raw_arguments_and_what_is_not_found(self):
        found = optimize.root(curves, [1.0, 1.0], ({"a": 3.0, "b": 1.0},))
        assert type(found.x) is np.ndarray
        nowhere = lambda x, a: x**2 + a
        with np.errstate(all="ignore"):
            assert not optimize.root(nowhere, [1.0], (1.0,)).success
            with pytest.raises(ImplicitError, match=r"not small[^§]*SciPy says of root"):
                optimize.root(nowhere, [1.0], (leaf(1.0),))
        with pytest.raises(ValueError, match="solver"):
            optimize.root(nowhere, [1.0], (1.0,), "bisect")

    @pytest.mark.parametrize("backend", ["numpy", "strict"], indirect=True)
    def test_backends(self, backend):
        a = ag.asarray(2.0, device=backend, dtype=ag.float64)
        of = lambda a: ag.sum(optimize.root(lambda x, a: x**2 - a, [1.0], (a,)).x)
        np.testing.assert_allclose(float(ag.func.grad(of)(a)), 0.5 / 2**0.5, rtol=1e-7)

    def test_lazy_arrays_are_refused(self, dask_backend):
        with pytest.raises(ag.UnsupportedOp, match=r"compute\(\)"):
            optimize.root(lambda x, a: x - a, [1.0], (ag.asarray(1.0, device="dask"),))


class TestOneNumber:
    def test_brentq(self):
        kepler = lambda x, m, e: x - e * ag.sin(x) - m
        expected = theirs.brentq(lambda x: x - 0.3 * np.sin(x) - 1, 0, 2)
        assert optimize.brentq(kepler, 0, 2, (1.0, 0.3)) == pytest.approx(expected, rel=1e-14)
        of = lambda m, e: optimize.brentq(kepler, 0, 2, (m, e), xtol=1e-14)
        inputs = (leaf(1.0), leaf(0.3))
        assert gradcheck(of, inputs, check_forward_ad=True)
        assert gradgradcheck(of, inputs)
        x, report = optimize.brentq(kepler, 0, 2, inputs, full_output=True)
        assert x.requires_grad
        assert report.converged
        with pytest.raises(ValueError, match="different signs"):
            optimize.brentq(kepler, 5, 6, inputs)
        with pytest.raises(RuntimeError, match="converge"):
            optimize.brentq(kepler, 0, 2, inputs, maxiter=2)

    @pytest.mark.parametrize("method", ["del2", "iteration"])
    def test_fixed_point(self, method):
        of = lambda a: optimize.fixed_point(lambda x, a: ag.cos(a * x), [0.7, 0.6], (a,), 1e-13, 5000, method)
        a = leaf(0.9)
        expected = theirs.fixed_point(lambda x: np.cos(0.9 * x), [0.7, 0.6], (), 1e-13, 5000, method)
        np.testing.assert_allclose(of(a).detach().numpy(), expected, rtol=1e-12)
        assert gradcheck(of, (a,), check_forward_ad=True)
        with pytest.raises(RuntimeError, match="Failed to converge"):
            optimize.fixed_point(lambda x, a: a * x + 1, 1.0, (leaf(2.0),), method="iteration", maxiter=20)


class TestMinima:
    @pytest.mark.parametrize("method", [None, "Newton-CG", "trust-exact"])
    def test_minimize(self, method):
        of = lambda data: optimize.minimize(distance, [0.0], (data,), method, tol=1e-12).x
        data = leaf([1.0, 2.0, 6.0])
        expected = theirs.minimize(
            lambda x: np.sum(np.sqrt(1 + (x - data.detach().numpy()) ** 2)) + 0.1 * np.sum(x**2), [0.0], tol=1e-8
        )
        np.testing.assert_allclose(of(data).detach().numpy(), expected.x, rtol=1e-5)
        assert gradcheck(of, (data,), check_forward_ad=True, eps=1e-3, atol=1e-3)
        x = of(data).item()
        bent = (1 + (x - data.detach().numpy()) ** 2) ** -1.5
        (g,) = ag.grad(of(data).sum(), data)
        np.testing.assert_allclose(g.numpy(), bent / (bent.sum() + 0.2), rtol=1e-6)

    def test_limits(self):
        found = optimize.minimize(distance, [0.0], (np.array([1.0, 2.0, 6.0]),), "L-BFGS-B", bounds=[(0.0, 1.0)])
        np.testing.assert_allclose(found.x, [1.0])
        with pytest.raises(
            ag.UnsupportedOp, match="minimize with bounds, of what is differentiated, is not supported: drop bounds"
        ):
            optimize.minimize(distance, [0.0], (leaf([1.0, 2.0, 6.0]),), bounds=[(0.0, 1.0)])
        with pytest.raises(
            ag.UnsupportedOp, match="least_squares with loss, of what is differentiated, is not supported"
        ):
            optimize.least_squares(misfit, [1.0, 1.0], (leaf(DATA),), loss="cauchy")

    @pytest.mark.parametrize("method", ["trf", "dogbox", "lm"])
    def test_a_fit_by_its_data(self, method):
        exact = {"ftol": 1e-15, "xtol": 1e-15, "gtol": 1e-15}
        of = lambda y: optimize.least_squares(misfit, [1.0, 1.0], (y,), method, **exact).x
        y = leaf(DATA)
        expected = theirs.least_squares(lambda p: p[0] * np.exp(-p[1] * TIMES) - DATA, [1.0, 1.0], **exact).x
        np.testing.assert_allclose(of(y).detach().numpy(), expected, rtol=1e-7)
        assert gradcheck(of, (y,), check_forward_ad=True, fast_mode=True, atol=1e-4)

    def test_too_little_data_has_no_derivative(self):
        flat = lambda p, y: (p[0] + p[1]) * ag.asarray(TIMES) - y
        with pytest.raises(ImplicitError, match="no derivative"):
            ag.grad(optimize.least_squares(flat, [1.0, 1.0], (y := leaf(DATA),)).x.sum(), y)


class TestCurves:
    """`curve_fit` gives SciPy's parameters and covariances, with derivatives by the data and their errors."""

    SIGMA = 0.1 + 0.02 * np.arange(9)
    COVARIANCE = np.diag(SIGMA**2) + 0.001

    @pytest.mark.parametrize(
        "options",
        [{}, {"sigma": SIGMA}, {"sigma": SIGMA, "absolute_sigma": True}, {"sigma": COVARIANCE}, {"p0": [2.0, 1.0]},
         {"sigma": 0.5, "absolute_sigma": True}, {"maxfev": 500},
         {"bounds": ([0.0, 0.0], [9.0, 1.0])}],
    )  # fmt: skip
    def test_parameters_and_covariances(self, options):
        of = lambda t, size, rate: size * ag.exp(-rate * t)
        popt, pcov = optimize.curve_fit(of, TIMES, DATA, **options, xtol=1e-14, ftol=1e-14)
        plain = lambda t, size, rate: size * np.exp(-rate * t)
        expected = theirs.curve_fit(plain, TIMES, DATA, **options, xtol=1e-14, ftol=1e-14)
        assert type(popt) is type(pcov) is np.ndarray
        np.testing.assert_allclose(popt, expected[0], rtol=1e-7)
        np.testing.assert_allclose(pcov, expected[1], rtol=1e-5)

    def test_derivatives(self):
        of = lambda t, size, rate: size * ag.exp(-rate * t)

        def fit(t, y, sigma=None):
            if sigma is not None and sigma.ndim == 2:
                sigma = (sigma + sigma.T) / 2  # one triangle is read
            return optimize.curve_fit(of, t, y, None, sigma, xtol=1e-15, ftol=1e-15, gtol=1e-15)

        for errors in (self.SIGMA[::2], self.COVARIANCE[::2, ::2]):
            data = [leaf(x) for x in (TIMES[::2], DATA[::2], errors)]
            assert gradcheck(fit, data, check_forward_ad=errors.ndim == 1, fast_mode=True, eps=1e-4)

    def test_what_is_wrong(self):
        with pytest.raises(ValueError, match="pass p0"):
            optimize.curve_fit(lambda t, *p: p[0] * t, TIMES, DATA)
        with pytest.raises(RuntimeError, match="Optimal parameters not found"):
            optimize.curve_fit(lambda t, a, b: a * ag.exp(-b * t), TIMES, DATA, max_nfev=1)
        with pytest.raises(RuntimeError, match="Optimal parameters not found"):
            optimize.curve_fit(lambda t, a, b: a * ag.exp(-b * t), TIMES, DATA, maxfev=1)
        with pytest.raises(ImplicitError, match="depends on a"):
            ag.func.grad(lambda a: optimize.curve_fit(lambda t, p: p * a * t, TIMES, DATA)[0][0])(2.0)


class TestWhatIsSeenBesideTheArguments:
    """The gradient by a tensor in a closure would be lost: an error says so, in every mode and with every kind of argument."""

    FITS = {
        "brentq": lambda f, *args: optimize.brentq(f, 0.0, 5.0, args),
        "root": lambda f, *args: optimize.root(f, [1.0], args).x,
        "krylov": lambda f, *args: optimize.root(f, [1.0], args, "krylov").x,
        "fixed_point": lambda f, *args: optimize.fixed_point(lambda x, *args: x - f(x, *args) / 9, 1.0, args),
        "minimize": lambda f, *args: optimize.minimize(lambda x, *args: ag.sum(f(x, *args) ** 2), [1.0], args).x,
        "values": lambda f, *args: (
            optimize.minimize(lambda x, *args: ag.sum(f(x, *args) ** 2), [1.0], args, "Powell").x
        ),
        "least_squares": lambda f, *args: optimize.least_squares(f, [1.0], args).x,
        "optim": lambda f, *args: (
            ag.optim.minimize(lambda x, *args: f(x, *args) ** 2, ag.tensor(1.0), args=args).params
        ),
    }

    @pytest.mark.parametrize("name", FITS)
    def test_is_refused(self, name):
        fit, cube = self.FITS[name], lambda x: x * x * x
        held = lambda a: a * ag.sum(fit(lambda x: cube(x) - a))
        beside = lambda a: ag.sum(fit(lambda x, b: cube(x) - a * b, a))
        for of in (held, beside):
            with pytest.raises(ImplicitError, match=r"depends on a,[^§]*Make a an argument"):
                ag.func.grad(of)(2.0)
            with pytest.raises(ImplicitError, match="gradient would be lost"):
                ag.func.jvp(of, (ag.tensor(2.0),), (ag.tensor(1.0),))
            with pytest.raises(ImplicitError, match="gradient would be lost"):
                of(leaf(2.0))
        with pytest.raises(RuntimeError, match="vmap"):
            ag.func.vmap(held)(ag.tensor([2.0, 3.0]))
        a = leaf(2.0)
        with ag.no_grad():
            np.testing.assert_allclose(float(held(a)), 2 * 2 ** (1 / 3), rtol=1e-2)

    def test_the_same_by_arguments(self):
        of = lambda a: a * optimize.brentq(lambda x, a: x**3 - a, 0.0, 5.0, (a,))
        np.testing.assert_allclose(float(ag.func.grad(of)(2.0)), 4 / 3 * 2 ** (1 / 3), rtol=1e-9)


class TestReports:
    """Of what a solver reports, all has its derivative or is not there."""

    def test_the_least_value(self):
        # min of x^2 - a x is -a^2 / 4, at a / 2
        least = lambda a: optimize.minimize(lambda x, a: ag.sum(x**2 - a * x), [1.0], (a,), tol=1e-12).fun
        np.testing.assert_allclose(float(ag.func.grad(least)(3.0)), -1.5, rtol=1e-9)
        np.testing.assert_allclose(float(ag.func.grad(ag.func.grad(least))(3.0)), -0.5, rtol=1e-9)
        np.testing.assert_allclose(float(ag.func.jvp(least, (ag.tensor(3.0),), (ag.tensor(1.0),))[1]), -1.5, rtol=1e-9)

    @pytest.mark.parametrize("method", ["Nelder-Mead", "BFGS", "L-BFGS-B", "SLSQP", "trust-exact", "trust-constr"])
    def test_what_has_no_derivative_is_not_there(self, method):
        found = optimize.minimize(lambda x, a: ag.sum((x - a) ** 2), [1.0], (leaf(3.0),), method)
        assert {"x", "fun"} <= {name for name, value in found.items() if ag.is_tensor(value) and value.requires_grad}
        values = {name: getattr(value, "detach", lambda value=value: value)() for name, value in found.items()}
        kept = {name for name, value in values.items() if np.asarray(value).dtype.kind == "f"}
        assert kept <= {"x", "fun", "jac", "grad", "lagrangian_grad", "optimality"}
        left = {"BFGS": "hess_inv", "L-BFGS-B": "hess_inv", "trust-exact": "hess", "Nelder-Mead": "final_simplex"}
        for name in [left[method]] if method in left else []:
            with pytest.raises(AttributeError, match=rf"minimize: '{name}' is [^§]*Differentiable are x, fun: "):
                getattr(found, name)
            with pytest.raises(AttributeError, match="no derivative"):
                found[name]
        assert not hasattr(found, "nothing_of_the_kind")
        assert "success: True" in repr(found)

    def test_squares(self):
        y = leaf(DATA)
        of = lambda name: (
            lambda y: ag.sum(
                optimize.least_squares(misfit, [1.0, 1.0], (y,), xtol=1e-15)[name] * TIMES ** (name == "fun")
            )
        )
        assert gradcheck(of("cost"), (y,), check_forward_ad=True, fast_mode=True, atol=1e-5)
        assert gradcheck(of("fun"), (y,), check_forward_ad=True, fast_mode=True, atol=1e-5)
        found = optimize.least_squares(misfit, [1.0, 1.0], (y,))
        np.testing.assert_allclose(
            ag.grad(found.cost, y)[0].numpy(), -found.fun.detach().numpy(), atol=1e-6
        )  # the envelope
        with pytest.raises(AttributeError, match="least_squares: 'jac'"):
            found.jac

    def test_roots(self):
        found = optimize.root(lambda x, a: x**2 - a, [1.0], (leaf(2.0),))
        assert abs(found.fun) < 1e-9
        with pytest.raises(AttributeError, match="root: 'fjac'"):
            found.fjac
        _, report = optimize.brentq(lambda x, a: x**2 - a, 0.0, 5.0, (a := leaf(2.0),), full_output=True)
        np.testing.assert_allclose(ag.grad(report.root, a)[0].item(), 0.5 / 2**0.5, rtol=1e-9)
        assert report.iterations > 0

    def test_containers_of_parameters(self):
        def loss(p, a):
            return (p["slope"] - a) ** 2 + ag.sum((p["offsets"] - a * p["slope"]) ** 2) + a**2

        def found(a, **options):
            return ag.optim.minimize(loss, {"slope": 0.0, "offsets": ag.zeros(2)}, args=(a,), **options)

        for of, slope in ((lambda a: found(a).params["slope"], 1.0), (lambda a: ag.sum(found(a).params["offsets"]), 12.0),
                          (lambda a: ag.sum(found(a).x), 13.0), (lambda a: found(a).fun, 6.0)):  # fmt: skip
            np.testing.assert_allclose(float(ag.func.grad(of)(3.0)), slope, rtol=1e-4)
        with pytest.raises(ag.UnsupportedOp, match=r"optim\.minimize with bounds"):
            found(leaf(3.0), bounds=(0.0, 1.0))

    def test_bounds_are_scipys(self):
        far = optimize.minimize(lambda x: ag.sum((x - 9.0) ** 2), [0.5, 2.5], (), "L-BFGS-B", bounds=[(0, 1), (2, 3)])
        np.testing.assert_allclose(far.x, [1.0, 3.0])
        bounds = theirs.Bounds([0, 2], [1, 3])
        near = optimize.minimize(lambda x: ag.sum((x + 9.0) ** 2), [0.5, 2.5], (), "L-BFGS-B", bounds=bounds)
        np.testing.assert_allclose(near.x, [0.0, 2.0])

    def test_limits_are_no_constants(self):
        square = lambda x: ag.sum((x - 9.0) ** 2)
        limited = {
            "minimize": lambda a: optimize.minimize(square, [1.0], (), "L-BFGS-B", bounds=[(0.0, a)]).x,
            "Bounds": lambda a: optimize.minimize(square, [1.0], bounds=theirs.Bounds([0.0], ag.stack([a]))).x,
            "least_squares": lambda a: optimize.least_squares(lambda x: x - 9.0, [1.0], bounds=([0.0], [a])).x,
            "optim": lambda a: ag.optim.minimize(square, ag.ones(1), bounds=(0.0, a)).params,
        }
        for of in limited.values():
            with pytest.raises(ag.UnsupportedOp, match="bounds, of what is differentiated"):
                ag.func.grad(lambda a, of=of: ag.sum(of(a)))(2.0)
        with pytest.raises(RuntimeError, match=rf"Can't call numpy\(\)[^§]*{__file__}"):
            ag.func.grad(
                lambda a: optimize.minimize(
                    square, [1.0], (), "SLSQP", constraints={"type": "ineq", "fun": lambda x: a - x[0]}
                ).x[0]
            )(2.0)


class TestScipysOwn:
    """SciPy's solvers take functions that give tensors, those too that write into what they got."""

    curve = staticmethod(lambda x: anp.array([x[0] ** 2 + x[1] ** 2 - 1, x[1] - x[0] - 1]))
    square = staticmethod(lambda x: anp.sum((x - 1.3) ** 2))

    @pytest.mark.parametrize("form", ["dict", "dict with jac", "NonlinearConstraint", "with jac", "with hess"])
    def test_inequalities_of_trust_constr(self, form):
        f, jac = self.curve, ag.func.jacrev(self.curve)
        constraint = {
            "dict": {"type": "ineq", "fun": lambda x: -f(x)},
            "dict with jac": {"type": "ineq", "fun": lambda x: -f(x), "jac": lambda x: -jac(x)},
            "NonlinearConstraint": theirs.NonlinearConstraint(f, -np.inf, 0),
            "with jac": theirs.NonlinearConstraint(f, -np.inf, anp.zeros(2), jac=jac),
            "with hess": theirs.NonlinearConstraint(
                f, -np.inf, 0, jac=jac, hess=lambda x, v: ag.func.hessian(lambda x: anp.dot(f(x), v))(x)
            ),
        }[form]
        given = {"jac": ag.func.grad(self.square), "constraints": constraint}
        found = theirs.minimize(self.square, [0.1, 0.2], method="trust-constr", **given)
        np.testing.assert_allclose(found.x, [0.5**0.5, 0.5**0.5], atol=1e-4)

    def test_limits_that_are_tensors(self):
        bounds = theirs.Bounds(anp.zeros(2), anp.array([1.0, 3.0]))
        for method in ("Powell", "trust-constr"):
            found = theirs.minimize(self.square, [0.5, 2.0], method=method, bounds=bounds)
            np.testing.assert_allclose(found.x, [1.0, 1.3], atol=1e-3)
        sum_of = theirs.LinearConstraint(anp.ones((1, 2)), 0.0, 1.0)
        found = theirs.minimize(self.square, [0.5, 0.2], method="trust-constr", constraints=sum_of)
        np.testing.assert_allclose(found.x, [0.5, 0.5], atol=1e-3)

    def test_a_value_that_is_followed_stays_a_tensor(self):
        x = leaf([1.0, 2.0])
        assert ag.grad(np.atleast_1d(x).sum(), x)[0].tolist() == [1.0, 1.0]
        assert ag.is_tensor(np.atleast_1d(x.detach()))


def test_standard_errors_of_least_squares_are_those_of_scipys_curve_fit():
    found = optimize.least_squares(misfit, [1.0, 1.0], (DATA,), xtol=1e-14, ftol=1e-14)
    freedom = len(DATA) - 2
    covariance = np.linalg.inv(found.jac.T @ found.jac) * 2 * found.cost / freedom
    _, expected = theirs.curve_fit(lambda t, a, b: a * np.exp(-b * t), TIMES, DATA, xtol=1e-14, ftol=1e-14)
    np.testing.assert_allclose(covariance, expected, rtol=1e-6)
