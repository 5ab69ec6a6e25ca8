"""Ordinary differential equations: states as SciPy's, derivatives as finite differences' and as those of known solutions."""

from __future__ import annotations

import functools
import gc
import math
import sys
import warnings
import weakref

import numpy as np
import pytest
from scipy import integrate as theirs

import agrad as ag
import agrad.numpy as anp
from agrad.autograd import gradcheck, gradgradcheck
from agrad.compiled import adaptive
from agrad.func import ImplicitError
from agrad.program.executing import may_choose_native
from agrad.scipy import integrate
from agrad.scipy.integrate import odeint, solve_ivp

METHODS = ["RK23", "RK45", "DOP853", "Radau", "BDF", "LSODA"]
TIGHT = {"rtol": 1e-10, "atol": 1e-10}


def leaf(values):
    return ag.tensor(np.asarray(values, dtype=float), requires_grad=True)


def hips(y, t, a, b):
    """The equations of HIPS autograd's own test."""
    return -ag.sqrt(t) - y + a - ag.mean((y + b) ** 2)


def swing(t, y, k):
    return ag.stack([y[1], -k[0] * y[0] - k[1] * y[1] + ag.sin(t)])


def swing_in_numpy(t, y):
    return np.array([y[1], -4 * y[0] - 0.3 * y[1] + np.sin(t)])


START, PULL = np.array([1.0, 0.0]), np.array([4.0, 0.3])


class TestOdeint:
    def operands(self):
        rng = np.random.default_rng(0)
        return (
            leaf(rng.normal(size=3)),
            leaf(np.linspace(0.1, 0.2, 4)),
            leaf(rng.normal(size=3)),
            leaf([0.1, -2.0, 1.0]),
        )

    def test_states_are_scipys(self):
        y0, t, a, b = (x.detach().numpy() for x in self.operands())
        expected = theirs.odeint(lambda y, t: -np.sqrt(t) - y + a - np.mean((y + b) ** 2), y0, t)
        found = odeint(hips, y0, t, (ag.asarray(a), ag.asarray(b)))
        np.testing.assert_array_equal(found.numpy(), expected)
        raw = odeint(hips, y0, t, (a, b))
        assert type(raw) is np.ndarray
        np.testing.assert_array_equal(raw, expected)

    def test_by_start_times_and_arguments_in_both_modes(self):
        inputs = self.operands()
        assert gradcheck(lambda y0, t, a, b: odeint(hips, y0, t, (a, b)), inputs, check_forward_ad=True, fast_mode=True)

    def test_second_order(self):
        def of(y0, t, a):
            return odeint(lambda y, t, a: ag.sin(a * y) - t * y, y0, t, (a,))

        inputs = (leaf([0.5]), leaf([0.1, 0.4, 0.6]), leaf([1.5]))
        assert gradgradcheck(of, inputs, check_fwd_over_rev=True, fast_mode=True)

    def test_of_a_known_solution(self):
        """y = y0 exp(-a t): all derivatives to second order."""

        def end(y0, a, t):
            return odeint(lambda y, t, a: -a * y, ag.stack([y0]), ag.stack([0 * t, t]), (a,), **TIGHT)[-1, 0]

        at = tuple(ag.tensor(v) for v in (2.0, 0.7, 1.5))
        y = 2 * np.exp(-0.7 * 1.5)
        np.testing.assert_allclose(ag.func.grad(end, (0, 1, 2))(*at), [y / 2, -1.5 * y, -0.7 * y], rtol=1e-7)
        np.testing.assert_allclose(ag.func.hessian(end, 1)(*at), 1.5**2 * y, rtol=1e-6)
        mixed = ag.func.grad(ag.func.grad(end, 1), 2)(*at)
        np.testing.assert_allclose(mixed, (0.7 * 1.5 - 1) * y, rtol=1e-6)
        np.testing.assert_allclose(ag.func.jvp(end, at, (ag.tensor(0.0), ag.tensor(1.0), ag.tensor(0.0)))[1], -1.5 * y)

    def test_backwards_in_time_repeated_times_and_one(self):
        a = leaf([0.7])
        for times in ([2.0, 1.0, 0.0], [0.0, 1.0, 1.0, 2.0], [0.0, 0.0], [3.0]):
            found = odeint(lambda y, t, a: -a * y, [1.0], times, (a,))
            at = np.asarray(times) - times[0]
            np.testing.assert_allclose(found.detach().numpy()[:, 0], np.exp(-0.7 * at), rtol=1e-6)
            (g,) = ag.grad(found.sum(), a)
            np.testing.assert_allclose(g.item(), -np.sum(at * np.exp(-0.7 * at)), rtol=1e-5, atol=1e-12)

    def test_containers_lists_of_results_and_options(self):
        def lotka(t, y, p, name):
            assert name == "hares"
            return [p["a"] * y[0] - p["b"][0] * y[0] * y[1], p["b"][1] * y[0] * y[1] - 3 * y[1]]

        p = {"a": ag.tensor(1.5), "b": [ag.tensor(1.0), ag.tensor(1.0)]}
        times = np.linspace(0, 3, 4)

        def end(p):
            states, info = odeint(lotka, [10.0, 5.0], times, (p, "hares"), tfirst=True, full_output=True, mxstep=1000)
            assert info["message"] == "Integration successful."
            return states[-1, 0]

        grads = ag.func.grad(end)(p)
        for name, step in (("a", {"a": 1e-5, "b": [0, 0]}), ("b", {"a": 0, "b": [1e-5, 0]})):
            high, low = (ag.tree.map(lambda x, d, s=sign: x + s * d, p, step) for sign in (1, -1))
            expected = (end(high) - end(low)).item() / 2e-5
            found = grads[name][0] if name == "b" else grads[name]
            np.testing.assert_allclose(found.item(), expected, rtol=1e-4)

    @pytest.mark.parametrize("checkpoints", [0, 3])
    def test_stiff_equations(self, checkpoints):
        """y' = -k (y - cos t): backwards it grows by exp(500) per unit of time."""

        def end(k):
            found = odeint(
                lambda y, t, k: -k * (y - ag.cos(t)), [0.0], np.linspace(0, 3, 4), (k,), checkpoints=checkpoints
            )
            return found[-1, 0]

        k = 500.0
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = ag.func.grad(end)(ag.tensor(k)).item()
        # of the solution that is left after the start: (k^2 cos t + k sin t) / (k^2 + 1)
        c, s = np.cos(3), np.sin(3)
        expected = (2 * k * c + s) / (k**2 + 1) - 2 * k * (k**2 * c + k * s) / (k**2 + 1) ** 2
        np.testing.assert_allclose(found, expected, rtol=1e-3)
        with pytest.raises(RuntimeError, match=r"backwards|Excess work"):
            ag.func.grad(ag.func.grad(end))(ag.tensor(k))

    def test_jacobians_are_mapped(self):
        def of(a):
            return odeint(lambda y, t, a: -a * y, [1.0, 2.0], [0.0, 0.5], (a,), **TIGHT)[-1]

        a = ag.tensor([0.3, 0.8])
        expected = np.diag(-0.5 * np.array([1.0, 2.0]) * np.exp(-0.5 * a.numpy()))
        for transform in (ag.func.jacrev, ag.func.jacfwd):
            np.testing.assert_allclose(transform(of)(a).numpy(), expected, rtol=1e-7, atol=1e-9)
        starts = ag.tensor([[1.0], [2.0], [3.0]])
        batch = ag.func.vmap(lambda y0: odeint(lambda y, t: -y, y0, [0.0, 1.0], **TIGHT)[-1])(starts)
        np.testing.assert_allclose(batch.numpy(), starts.numpy() / np.e, rtol=1e-7)
        slopes = ag.func.vmap(ag.func.grad(lambda y0: odeint(lambda y, t: -(y**2), y0, [0.0, 1.0], **TIGHT)[-1].sum()))
        np.testing.assert_allclose(slopes(starts).numpy(), (1 + starts.numpy()) ** -2.0, rtol=1e-6)

    @pytest.mark.parametrize("backend", ["numpy", "strict"], indirect=True)
    def test_backends(self, backend):
        y0, a = (ag.asarray([v], device=backend, dtype=ag.float64) for v in (2.0, 0.7))
        found = ag.func.grad(lambda a: ag.sum(odeint(lambda y, t, a: -a * y, y0, [0.0, 1.5], (a,), **TIGHT)))(a)
        np.testing.assert_allclose(float(found[0]), -3 * np.exp(-1.05), rtol=1e-7)
        assert found.device == a.device

    def test_lazy_arrays_are_refused(self, dask_backend):
        a = ag.asarray([0.7], device="dask")
        with pytest.raises(ag.UnsupportedOp, match=r"odeint.*compute\(\)"):
            odeint(lambda y, t, a: -a * y, [1.0], [0.0, 1.0], (a,))


class TestSolveIvp:
    @pytest.mark.parametrize("options", [{}, {"t_eval": np.linspace(0.1, 1.9, 5)}, {"t_eval": [0.0, 1.0, 2.0]}])
    @pytest.mark.parametrize("method", METHODS)
    def test_states_are_scipys(self, method, options):
        expected = theirs.solve_ivp(swing_in_numpy, (0.0, 2.0), START, method, **options)
        plain = solve_ivp(swing, (0.0, 2.0), START, method, args=(PULL,), **options)
        assert type(plain.y) is np.ndarray
        recorded = solve_ivp(swing, (0.0, 2.0), leaf(START), method, args=(leaf(PULL),), **options)
        for found in (plain.y, recorded.y.detach().numpy()):
            np.testing.assert_allclose(found, expected.y, rtol=1e-12, atol=1e-14)
        np.testing.assert_array_equal(recorded.t.numpy(), expected.t)
        assert (recorded.success, recorded.nfev) == (expected.success, expected.nfev)

    @pytest.mark.parametrize("method", METHODS)
    def test_adjoint_and_tangent_of_every_method(self, method):
        tight = {"rtol": 1e-8, "atol": 1e-9} if method in ("Radau", "BDF", "RK23") else TIGHT

        def end(y0, k):
            return solve_ivp(swing, (0.0, 0.5), y0, method, t_eval=[0.2, 0.5], args=(k,), **tight).y

        assert gradcheck(end, (leaf(START), leaf(PULL)), check_forward_ad=True, atol=1e-4, rtol=1e-3, fast_mode=True)

    @pytest.mark.parametrize("checkpoints", [0, 2])
    @pytest.mark.parametrize("gradient", ["adjoint", "discrete"])
    def test_by_start_span_times_and_arguments(self, gradient, checkpoints):
        how = {"gradient": gradient, "checkpoints": checkpoints, **TIGHT}

        def end(a, b, y0, k):
            return solve_ivp(swing, (a, b), y0, args=(k,), **how).y[:, -1]

        def between(a, t, y0, k):
            return solve_ivp(swing, (a, 0.2), y0, t_eval=t, args=(k,), **how).y

        inputs = (leaf(0.0), leaf(0.2), leaf(START), leaf(PULL))
        assert gradcheck(end, inputs, check_forward_ad=True, atol=1e-4, fast_mode=True)
        inputs = (leaf(0.0), leaf([0.05, 0.1, 0.18]), leaf(START), leaf(PULL))
        assert gradcheck(between, inputs, check_forward_ad=True, atol=1e-4, fast_mode=True)

    def test_the_discrete_gradient_is_that_of_the_numbers_given(self):
        """With five steps of a loose tolerance: by differences that keep the steps, which first_step and max_step do."""
        loose = {"rtol": 1e9, "atol": 1e9, "first_step": 0.4, "max_step": 0.4}

        def end(k):
            return solve_ivp(swing, (0.0, 2.0), START, "RK23", args=(k,), gradient="discrete", **loose).y[0, -1]

        k = leaf(PULL)
        (g,) = ag.grad(end(k), k)
        steps = 1e-5 * np.eye(2)
        expected = [(end(ag.asarray(PULL + h)) - end(ag.asarray(PULL - h))).item() / 2e-5 for h in steps]
        np.testing.assert_allclose(g.numpy(), expected, rtol=1e-8)
        exact = ag.func.grad(lambda k: solve_ivp(swing, (0.0, 2.0), START, args=(k,), **TIGHT).y[0, -1])(k.detach())
        assert np.abs(exact.numpy() - g.numpy()).max() > 1e-4  # the solution's is another

    @pytest.mark.parametrize("gradient", ["adjoint", "discrete"])
    def test_second_order(self, gradient):
        def end(y0, k):
            found = solve_ivp(
                lambda t, y, k: -k * y**2, (0.0, 0.4), y0, t_eval=[0.2, 0.4], args=(k,), gradient=gradient, **TIGHT
            )
            return found.y

        assert gradgradcheck(end, (leaf([0.8]), leaf([1.3])), check_fwd_over_rev=True, atol=1e-4, fast_mode=True)

    def test_a_stiff_system_by_an_implicit_method(self):
        """Robertson's reactions; against differences of a tighter solution, SciPy's."""

        def reactions(t, y, k, made=ag.stack):
            first, second, third = k[0] * y[0], k[1] * y[1] * y[2], k[2] * y[1] ** 2
            return made([second - first, first - second - third, third])

        how = {"y0": [1.0, 0.0, 0.0], "method": "BDF", "t_eval": [1.0, 100.0]}

        def end(k):
            return solve_ivp(reactions, (0.0, 100.0), args=(k,), rtol=1e-6, atol=1e-10, **how).y[0, -1]

        def tight(k):
            found = theirs.solve_ivp(reactions, (0.0, 100.0), args=(k, np.array), rtol=1e-10, atol=1e-14, **how)
            return found.y[0, -1]

        k = np.array([0.04, 1e4, 3e7])
        found = ag.func.grad(end)(ag.asarray(k)).numpy() * k
        steps = [np.where(np.arange(3) == i, 1e-3 * k, 0) for i in range(3)]
        expected = [(tight(k + h) - tight(k - h)) / 2e-3 for h in steps]
        np.testing.assert_allclose(found, expected, rtol=1e-3)

    @pytest.mark.parametrize("method", ["RK45", "BDF"])
    def test_complex_states(self, method):
        tight = {"rtol": 1e-7, "atol": 1e-8} if method == "BDF" else TIGHT

        def end(y0, w, c):
            equations = lambda t, y, w, c: 1j * w * y + c * ag.conj(y)
            return solve_ivp(equations, (0.0, 0.5), y0, method, t_eval=[0.2, 0.5], args=(w, c), **tight).y

        y0 = ag.tensor([1.0 + 0.5j], requires_grad=True)
        c = ag.tensor(0.3 - 0.2j, dtype=ag.complex128, requires_grad=True)
        assert gradcheck(end, (y0, leaf(2.0), c), check_forward_ad=True, atol=1e-4, rtol=1e-3, fast_mode=True)

    def test_a_real_state_by_a_complex_parameter(self):
        def end(c):
            return solve_ivp(lambda t, y, c: ag.real(c * c) * y, (0.0, 1.0), [1.0], args=(c,), t_eval=[1.0], **TIGHT).y

        c = ag.tensor(0.3 - 0.2j, dtype=ag.complex128, requires_grad=True)
        assert gradcheck(end, (c,), check_forward_ad=True, fast_mode=True)

    @pytest.mark.parametrize("gradient", ["adjoint", "discrete"])
    def test_dense_output(self, gradient):
        expected = theirs.solve_ivp(swing_in_numpy, (0.0, 2.0), START, dense_output=True, **TIGHT).sol
        k, t = leaf(PULL), leaf([1.5, 0.2, 0.9])
        found = solve_ivp(swing, (0.0, 2.0), START, args=(k,), dense_output=True, gradient=gradient, **TIGHT).sol
        np.testing.assert_allclose(found(t).detach().numpy(), expected(t.detach().numpy()), rtol=1e-12)
        assert found(0.3).shape == (2,)
        grads = ag.grad(found(t)[0].sum(), (k, t))
        np.testing.assert_allclose(grads[1].numpy(), expected(t.detach().numpy())[1], rtol=1e-6)
        at = lambda k: solve_ivp(swing, (0.0, 2.0), START, args=(k,), t_eval=[0.2, 0.9, 1.5], **TIGHT).y[0].sum()
        np.testing.assert_allclose(grads[0].numpy(), ag.func.grad(at)(k.detach()).numpy(), rtol=1e-6)
        with pytest.raises(ValueError, match="within the span"):
            found(2.5)

    def test_columns_jacobian_and_events(self):
        k = ag.asarray(PULL)
        columns = lambda t, y, k: ag.stack([y[1], -k[0] * y[0] - k[1] * y[1] + ag.sin(t)])
        slope = lambda t, y, k: ag.stack([ag.asarray([0.0, 1.0]), -k])
        crossing = lambda t, y, k: y[0]
        crossing.terminal = True
        expected = theirs.solve_ivp(swing_in_numpy, (0.0, 2.0), START, "Radau", events=lambda t, y: y[0])
        found = solve_ivp(
            columns, (0.0, 2.0), START, "Radau", vectorized=True, args=(k,), jac=slope, events=crossing, rtol=1e-8
        )
        assert found.status == 1
        np.testing.assert_allclose(found.t_events[0], expected.t_events[0], rtol=1e-3)
        with pytest.raises(
            ag.UnsupportedOp, match=r"with events, of what is differentiated, is not supported: .*func\.implicit"
        ):
            solve_ivp(swing, (0.0, 2.0), START, args=(leaf(PULL),), events=crossing)
        with pytest.raises(ImplicitError, match=r"solve_ivp: an event depends on a,[^§]*func\.implicit; detach a"):
            ag.func.grad(
                lambda a: solve_ivp(lambda t, y: -y, (0.0, 1.0), [1.0], events=lambda t, y: y[0] - a).y[0, 0] * a
            )(0.5)

    def test_what_does_not_arrive(self):
        blows = lambda t, y, a: a * y**2
        expected = theirs.solve_ivp(lambda t, y: y**2, (0.0, 2.0), [1.0])
        a = leaf(1.0)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = solve_ivp(blows, (0.0, 2.0), [1.0], args=(a,))
            assert (found.success, found.message) == (False, expected.message)
            assert found.y.shape == expected.y.shape
            with pytest.raises(RuntimeError, match="odeint: "):
                odeint(lambda y, t, a: a * y**2, [1.0], [0.0, 2.0], (a,))

    def test_what_a_function_sees_beside_its_arguments(self):
        a = leaf(1.0)
        with pytest.raises(ImplicitError, match="solve_ivp: the function depends on"):
            solve_ivp(lambda t, y: -a * y, (0.0, 1.0), [1.0])
        with pytest.raises(ImplicitError, match="odeint: the function depends on"):
            ag.func.jvp(lambda a: odeint(lambda y, t: -a * y, [1.0], [0.0, 1.0]), (ag.tensor(1.0),), (ag.tensor(1.0),))

    def test_what_does_not_fit(self):
        decay = lambda t, y: -y
        with pytest.raises(ValueError, match="1-dimensional"):
            solve_ivp(decay, (0.0, 1.0), [[1.0]])
        with pytest.raises(ValueError, match="t_eval"):
            solve_ivp(decay, (0.0, 1.0), [1.0], t_eval=[2.0])
        with pytest.raises(ValueError, match="method"):
            solve_ivp(decay, (0.0, 1.0), [1.0], "Euler")
        with pytest.raises(ValueError, match="gradient is"):
            solve_ivp(decay, (0.0, 1.0), [1.0], gradient="both")
        with pytest.raises(ag.UnsupportedOp, match="is not supported: it repeats the steps of RK23 and RK45"):
            solve_ivp(decay, (0.0, 1.0), [1.0], "BDF", gradient="discrete")
        with pytest.raises(ValueError, match="one axis"):
            odeint(decay, [[1.0]], [0.0, 1.0])


def test_the_names():
    assert integrate.__all__ == ["cumulative_trapezoid", "nquad", "odeint", "quad", "simpson", "solve_ivp", "trapezoid"]


def hunters(y, t, p):
    return ag.stack([p["a"] * y[0] - y[0] * y[1], p["c"] * y[0] * y[1] - 3 * y[1]])


def pulsed(y, t, p):
    return ag.stack([p["a"] * y[0], -p["c"] * y[1]]) if t > 0.4 else -p["a"] * y


def bent(y, t, p):
    return p["a"] * y if y[0] > 1.2 else -p["c"] * y


@pytest.mark.parametrize("rhs", [hunters, pulsed, bent])
@pytest.mark.parametrize("run", [odeint, lambda f, y, t, args: ivp(f, y, t, args)])
def test_programs_of_the_right_side_change_nothing(rhs, run, monkeypatch):
    def all_of(before):
        monkeypatch.setattr(adaptive, "CALLS_BEFORE_CAPTURE", before)
        p = {"a": ag.tensor(1.5, requires_grad=True), "c": ag.tensor(0.7, requires_grad=True)}
        y = run(rhs, ag.asarray([1.0, 0.5]), np.linspace(0, 1, 5), (p,))
        return [y.detach(), *ag.grad(y.sum(), [*p.values()])]

    recorded = []
    original = adaptive.AdaptiveFunction._recorded
    monkeypatch.setattr(
        adaptive.AdaptiveFunction, "_recorded", lambda self, *a: recorded.append(original(self, *a)) or recorded[-1]
    )
    expected = all_of(10**9)
    assert not recorded
    for found, known in zip(all_of(3), expected, strict=True):
        assert np.array_equal(found.numpy(), known.numpy())
    assert recorded
    assert all(kept is not None for _, kept, _ in recorded)


def ivp(f, y, t, args):
    return solve_ivp(lambda t, y, *args: f(y, t, *args), (t[0], t[-1]), y, t_eval=t, args=args).y.T


def test_a_right_side_that_counts_its_calls_is_called_each_time():
    calls = []

    def counting(y, t):
        calls.append(1)
        return ag.stack([y[1], -y[0]])

    _, info = odeint(counting, [1.0, 0.0], np.linspace(0, 20, 5), full_output=True)
    assert info["nfe"][-1] > 200
    assert len(calls) - info["nfe"][-1] in (1, 2)  # more often, before, for what it takes and what it depends on


RUNS = [odeint, lambda f, y, t, args=(): ivp(f, y, t, args)]


@pytest.mark.parametrize("run", RUNS, ids=["odeint", "solve_ivp"])
class TestOfPlainArrays:
    TIMES = np.linspace(0.0, 1.0, 5)

    def same(self, run, rhs, of_arrays, *args):
        theirs_run = theirs.odeint if run is odeint else theirs_ivp
        found = run(rhs, START, self.TIMES, args)
        assert type(found) is np.ndarray
        np.testing.assert_array_equal(found, theirs_run(of_arrays, START, self.TIMES, args))

    @pytest.mark.parametrize("made", [list, np.array, tuple])
    def test_the_function_is_called_with_such(self, run, made):
        kinds = []

        def rhs(y, t, p):
            kinds.append(type(y))
            return made([y[1], -p[0] * y[0] - p[1] * y[1]])

        self.same(run, rhs, rhs, PULL)
        kinds.clear()
        run(rhs, START, self.TIMES, (PULL,))
        assert kinds.count(ag.Tensor) <= 1
        assert len(kinds) > 10

    def test_what_takes_tensors_alone_gets_them(self, run):
        self.same(run, lambda y, t: -y.exp(), lambda y, t: -np.exp(y))

    def test_and_does_on_a_way_that_is_taken_later(self, run):
        def rhs(y, t):
            return -(y * 0.5) if t < 0.5 else -(y.square() * 0.5)

        self.same(run, rhs, lambda y, t: -(y * 0.5) if t < 0.5 else -(np.square(y) * 0.5))

    def test_it_may_write_to_its_argument(self, run):
        def rhs(y, t):
            y *= -0.5
            return y

        self.same(run, rhs, lambda y, t: y * -0.5)

    def test_what_differs_on_arrays_gets_tensors(self, run):
        self.same(run, lambda y, t: -y * (2 if isinstance(y, ag.Tensor) else 3), lambda y, t: -y * 2)

    def test_its_own_errors_are_raised(self, run):
        def rhs(y, t):
            if t > 0.5:
                raise ArithmeticError("no further")
            return -y

        with pytest.raises(ArithmeticError, match="no further"):
            run(rhs, START, self.TIMES)

    def test_what_it_sees_beside_is_refused_still(self, run):
        rate = leaf([0.5])
        with pytest.raises(ImplicitError, match=r"depends on rate, .*\n  Make rate an argument.*args=\(rate,\)"):
            run(lambda y, t: -rate * y, START, self.TIMES)

    def test_functions_of_agrad_numpy_take_such_too(self, run):
        def rhs(y, t, p):
            return anp.array([y[1], -p[0] * anp.sin(y[0]) - p[1] * y[1]])

        self.same(run, rhs, lambda y, t, p: np.array([y[1], -p[0] * np.sin(y[0]) - p[1] * y[1]]), PULL)


def ivp_of_one_function(f, y, t, args=()):
    turned = vars(f).setdefault(f"of {id(f)}", lambda t, y, *args: f(y, t, *args))  # the same at every call
    return solve_ivp(turned, (t[0], t[-1]), y, t_eval=t, args=args).y.T


@pytest.mark.parametrize("run", [odeint, ivp_of_one_function], ids=["odeint", "solve_ivp"])
class TestProgramsOfPlainArrays:
    """Functions that were often called run as programs, and then as machine code; what they mean stays."""

    TIMES = np.linspace(0.0, 1.0, 5)

    @pytest.fixture(autouse=True, params=["text", "native"])
    def soon(self, monkeypatch, request):
        monkeypatch.setattr(adaptive, "CALLS_BEFORE_CAPTURE", 5)
        if request.param == "native":
            if not may_choose_native():
                pytest.skip("there is no native executor here")
            monkeypatch.setattr(adaptive, "CALLS_BEFORE_C", 20)
        return request.param

    def test_what_runs(self, run, soon):
        def rhs(y, t, p):
            return anp.stack([y[1], -p * anp.sin(y[0]) + t])

        self.runs(run, rhs, lambda y, t, p: np.array([y[1], -p * np.sin(y[0]) + t]), 2.0)
        if "_adaptive_plain" not in vars(rhs):  # a function that calls it
            return
        (kept,) = vars(rhs.__dict__["_adaptive_plain"])["_programs"].programs
        runs = [*vars(kept)["_runs"].values()]
        natives = [one for one in runs if type(one).__name__ == "ExecutorRun"]
        assert len(natives) == (soon == "native")
        assert all(one._run is not None and not one.why_not for one in natives)

    def runs(self, run, rhs, of_arrays, *args, starts=(START, 2 * START, START + 1.0)):
        theirs_run = theirs.odeint if run is odeint else theirs_ivp
        for start in starts:
            found = run(rhs, start, self.TIMES, args)
            np.testing.assert_array_equal(found, theirs_run(of_arrays, start, self.TIMES, args))

    def test_the_function_is_not_called_any_more(self, run):
        def rhs(y, t, p):
            return anp.stack([y[1], -p[0] * anp.sin(y[0]) - p[1] * y[1] + t])

        self.runs(run, rhs, lambda y, t, p: np.array([y[1], -p[0] * np.sin(y[0]) - p[1] * y[1] + t]), PULL)
        met = []
        sys.setprofile(lambda frame, event, _: met.append(frame.f_code) if event == "call" else None)
        try:
            run(rhs, START, self.TIMES, (PULL,))
        finally:
            sys.setprofile(None)
        assert met.count(rhs.__code__) == 2  # at the start: with arrays, and with tensors

    def test_further_arguments_may_be_others(self, run):
        def rhs(y, t, p, power):
            return -p * y**power

        for p, power in ((1.0, 1), (2.0, 1), (np.asarray([1.0, 2.0]), 1), (1.0, 2), (np.asarray([2.0, 2.0]), 1)):
            self.runs(run, rhs, rhs, p, power)

    def test_branches_by_values_are_followed(self, run):
        def by_time(y, t):
            return -y if t < 0.5 else -3 * anp.sin(y)

        def by_state(y, t):
            return -y if y[0] > 0.6 else -3 * anp.sin(y)

        self.runs(run, by_time, lambda y, t: -y if t < 0.5 else -3 * np.sin(y))
        self.runs(run, by_state, lambda y, t: -y if y[0] > 0.6 else -3 * np.sin(y))

    def test_numbers_that_python_computes_are_computed_each_time(self, run):
        self.runs(run, lambda y, t: -y * math.cos(t), lambda y, t: -y * math.cos(t))

    def test_state_counts(self, run):
        state = {"rate": 1.0}

        def rhs(y, t):
            return -state["rate"] * anp.sin(y)

        for rate in (1.0, 2.0, 3.0):
            state["rate"] = rate
            self.runs(run, rhs, lambda y, t: -state["rate"] * np.sin(y))

    def test_state_that_it_changes_is_changed_each_time(self, run):
        calls = []

        def rhs(y, t):
            calls.append(t)
            return -anp.sin(y)

        counts = []
        for _ in range(4):
            calls.clear()
            run(rhs, START, self.TIMES)
            counts.append(len(calls))
        assert counts[0] in (counts[1], counts[1] - 1)  # one more may be the one that is looked at
        assert counts[2] == counts[3] == counts[0]

    def test_its_own_errors_are_raised(self, run):
        def rhs(y, t):
            if t > 0.5:
                raise ArithmeticError("no further")
            return -anp.sin(y)

        for _ in range(3):
            with pytest.raises(ArithmeticError, match="no further"):
                run(rhs, START, self.TIMES)

    def test_what_wraps_it_is_another_function(self, run):
        def rhs(y, t):
            return -anp.sin(y)

        self.runs(run, rhs, lambda y, t: -np.sin(y))

        @functools.wraps(rhs)
        def twice(y, t):
            return 2 * rhs(y, t)

        self.runs(run, twice, lambda y, t: -2 * np.sin(y))

    def test_it_is_not_kept_alive(self, run):
        def rhs(y, t):
            return -anp.sin(y)

        self.runs(run, rhs, lambda y, t: -np.sin(y))
        there = weakref.ref(rhs)
        del rhs
        gc.collect()
        assert there() is None


def theirs_ivp(f, y, t, args):
    return theirs.solve_ivp(lambda t, y, *args: f(y, t, *args), (t[0], t[-1]), y, t_eval=t, args=args).y.T


# -- integrals ----------------------------------------------------------------------------------------------------------


def wave(x, p, q):
    return ag.exp(-p * x * x) * ag.cos(q[0] * x + q[1])


def wave_in_numpy(x, p, q):
    return np.exp(-p * x * x) * np.cos(q[0] * x + q[1])


WAVE = (0.7, np.array([0.4, 0.2]))


class TestQuad:
    EXACT = {"epsabs": 1e-12, "epsrel": 1e-12}

    @pytest.mark.parametrize("limits", [(-0.3, 1.2), (1.0, 0.0), (0.0, np.inf), (-np.inf, np.inf), (0.5, 0.5)])
    def test_values_are_scipys(self, limits):
        expected = theirs.quad(wave_in_numpy, *limits, args=WAVE)
        assert integrate.quad(wave_in_numpy, *limits, args=WAVE) == expected
        found, error = integrate.quad(wave, *limits, args=(WAVE[0], leaf(WAVE[1])))
        np.testing.assert_allclose(found.item(), expected[0], rtol=1e-14)
        np.testing.assert_allclose(error, expected[1], rtol=0.1, atol=1e-14)
        assert found.requires_grad

    def test_derivatives(self):
        def of(a, b, p, q):
            return integrate.quad(wave, a, b, (p, q), **self.EXACT)[0]

        operands = leaf(-0.3), leaf(1.2), leaf(WAVE[0]), leaf(WAVE[1])
        assert gradcheck(of, operands, check_forward_ad=True, fast_mode=True)
        assert gradgradcheck(lambda b, p: of(-0.3, b, p, WAVE[1]), operands[1:3], check_fwd_over_rev=True)

    def test_known_derivatives(self):
        """Of exp(-p x) over the half line, 1 / p."""

        def of(p):
            return integrate.quad(lambda x, p: ag.exp(-p["rate"] * x), 0.0, ag.inf, (p,))[0]

        p = {"rate": ag.tensor(2.0)}
        np.testing.assert_allclose(ag.func.grad(of)(p)["rate"].item(), -1 / 4, rtol=1e-8)
        np.testing.assert_allclose(ag.func.hessian(of)(p)["rate"]["rate"].item(), 2 / 8, rtol=1e-8)
        mapped = ag.func.vmap(lambda rate: of({"rate": rate}))(ag.tensor([2.0, 4.0]))
        np.testing.assert_allclose(mapped.numpy(), [1 / 2, 1 / 4], rtol=1e-8)

    def test_complex_arguments(self):
        def of(z):
            return integrate.quad(lambda x, z: ag.real(ag.exp(z * x)), 0.0, 1.0, (z,), **self.EXACT)[0]

        assert gradcheck(of, (ag.tensor(0.3 + 0.7j, requires_grad=True),))

    def test_kinks_are_told(self):
        c = leaf(0.3)
        found, _ = integrate.quad(lambda x, c: ag.abs(x - c), 0.0, 1.0, (c,), points=[0.3])
        np.testing.assert_allclose(found.item(), (0.3**2 + 0.7**2) / 2)
        np.testing.assert_allclose(ag.grad(found, c)[0].item(), 0.3 - 0.7, rtol=1e-12)

    def test_functions_of_python_numbers(self):
        assert integrate.quad(lambda x: math.sin(x), 0.0, 1.0) == theirs.quad(math.sin, 0.0, 1.0)
        assert len(integrate.quad(math.sin, 0.0, 1.0, full_output=1)) == 3

    def test_what_it_sees_beside_is_refused(self):
        rate = leaf(0.5)
        for args in ((), (leaf(1.0),)):
            with pytest.raises(ImplicitError, match="not one of its arguments"):
                integrate.quad(lambda x, *_: rate * x, 0.0, 1.0, args)

    def test_a_derivative_that_does_not_converge_is_no_number(self):
        p = leaf(0.999)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found, _ = integrate.quad(lambda x, p: x**-p, 0.0, 1.0, (p,), limit=5)
            with pytest.raises(RuntimeError, match="does not converge"):
                ag.grad(found, p)

    def test_lazy_arguments_are_refused(self, dask_backend):
        with pytest.raises(ag.UnsupportedOp, match=r"scipy\.integrate\.quad"):
            integrate.quad(lambda x, p: p * x, 0.0, 1.0, (ag.asarray(1.0, device="dask"),))


def bump(x, y, p, q):
    return ag.exp(-p * x * y) * ag.cos(q[0] * x + q[1])


def bump_in_numpy(x, y, p, q):
    return np.exp(-p * x * y) * np.cos(q[0] * x + q[1])


class TestNQuad:
    EXACT = {"epsabs": 1e-11, "epsrel": 1e-11}

    @pytest.mark.parametrize(
        "ranges",
        [
            [(-0.3, 1.2), (0.2, 0.9)],
            [lambda y, p, q: (0.0, y * p), (0.0, 1.5)],
            [lambda y, p, q: (y, 1.0), lambda p, q: (0.0, q[1])],
        ],
    )
    @pytest.mark.parametrize("opts", [None, EXACT, [EXACT, {"limit": 20}], [lambda *_: {"epsabs": 1e-10}] * 2])
    def test_values_are_scipys(self, ranges, opts):
        expected = theirs.nquad(bump_in_numpy, ranges, WAVE, opts)
        assert integrate.nquad(bump_in_numpy, ranges, WAVE, opts) == expected
        assert integrate.nquad(bump_in_numpy, ranges, WAVE, opts, full_output=True)[2]["neval"] >= 441
        found, error = integrate.nquad(bump, ranges, (WAVE[0], leaf(WAVE[1])), opts)
        np.testing.assert_allclose(found.item(), expected[0], rtol=1e-13)
        np.testing.assert_allclose(error, expected[1], rtol=0.1, atol=1e-14)
        assert found.requires_grad

    def test_derivatives_by_arguments_and_limits(self):
        """Of x y**2 p, for x from 0 to y b, and y from a to c: p b**2 (c**5 - a**5) / 10."""

        def of(a, b, c, p):
            inner = lambda y, p, b: (0.0, y * b)
            return integrate.nquad(lambda x, y, p, b: x * y**2 * p, [inner, (a, c)], (p, b), self.EXACT)[0]

        a, b, c, p = values = (0.5, 1.3, 2.0, 0.7)
        operands = tuple(map(leaf, values))
        found = of(*operands)
        np.testing.assert_allclose(found.item(), p * b**2 * (c**5 - a**5) / 10, rtol=1e-12)
        expected = [-p * b**2 * a**4 / 2, p * b * (c**5 - a**5) / 5, p * b**2 * c**4 / 2, b**2 * (c**5 - a**5) / 10]
        np.testing.assert_allclose([g.item() for g in ag.grad(found, operands)], expected, rtol=1e-10)
        tangent = ag.func.jvp(of, operands, (ag.tensor(0.0), ag.tensor(1.0), ag.tensor(0.0), ag.tensor(0.0)))[1]
        np.testing.assert_allclose(tangent.item(), expected[1], rtol=1e-10)
        twice = ag.func.grad(ag.func.grad(lambda b: of(a, b, c, p)))(ag.tensor(b, dtype=ag.float64))
        np.testing.assert_allclose(twice.item(), p * (c**5 - a**5) / 5, rtol=1e-9)
        mapped = ag.func.vmap(lambda p: of(a, b, c, p))(ag.tensor([0.7, 1.4], dtype=ag.float64))
        np.testing.assert_allclose(mapped.numpy(), [found.item(), 2 * found.item()], rtol=1e-10)

    def test_of_three_variables(self):
        """The volume of a ball's eighth, pi r**3 / 6, and its surface by the radius."""
        r = leaf(1.2)
        ranges = [
            lambda y, z, r: (0.0, ag.sqrt(ag.maximum(r * r - y * y - z * z, 0.0))),
            lambda z, r: (0.0, ag.sqrt(r * r - z * z)),
            (0.0, r),
        ]
        loose = {"epsabs": 1e-4, "epsrel": 1e-4}
        found, _ = integrate.nquad(lambda x, y, z, r: 1.0 + 0.0 * x, ranges, (r,), loose)
        np.testing.assert_allclose(found.item(), math.pi * 1.2**3 / 6, rtol=1e-4)

    def test_what_it_sees_beside_is_refused(self):
        rate = leaf(0.5)
        for args in ((), (leaf(1.0),)):
            with pytest.raises(ImplicitError, match="not one of its arguments"):
                integrate.nquad(lambda x, y, *_: rate * (x * y), [(0.0, 1.0)] * 2, args)
        with pytest.raises(ImplicitError, match="not one of its arguments"):
            integrate.nquad(lambda x, y, p: p * x * y, [lambda y, p: (0.0, rate), (0.0, 1.0)], (leaf(1.0),))

    def test_refusals(self, dask_backend):
        with pytest.raises(ValueError, match="2 ranges and 1 opts"):
            integrate.nquad(bump, [(0.0, 1.0)] * 2, WAVE, [{}])
        with pytest.raises(ag.UnsupportedOp, match=r"scipy\.integrate\.nquad"):
            integrate.nquad(lambda x, p: p * x, [(0.0, 1.0)], (ag.asarray(1.0, device="dask"),))
        p = leaf(0.5)
        found, _ = integrate.nquad(lambda x, p: p * x, [(0.0, 1.0)], (p,), {"weight": "cos", "wvar": 1.0})
        with pytest.raises(ValueError, match="derivatives of an integral with weight, wvar"):
            ag.grad(found, p)


class TestOftenInC:
    """Integrands that are called often are functions of C, which nobody can tell from what they give."""

    @pytest.fixture(autouse=True)
    def soon(self, monkeypatch):
        pytest.importorskip("llvmlite", reason="functions of C are made by llvmlite")
        if not may_choose_native():
            pytest.skip("no function of C can be made here")
        monkeypatch.setattr(adaptive, "CALLS_BEFORE_C", 50)

    def is_in_c(self, function):
        return any(made is not None for _, made, _ in vars(function)["_adaptive_in_c"]._cached)

    @pytest.mark.parametrize("limits", [(-0.3, 1.2), (0.0, np.inf), (-np.inf, np.inf)])
    @pytest.mark.parametrize("args", [WAVE, (ag.tensor(0.7), WAVE[1]), (0.7, leaf(WAVE[1]))])
    def test_same_bits(self, limits, args):
        def own(x, p, q):
            return ag.exp(-p * x * x) * ag.cos(q[0] * x + q[1]) + ag.log1p(x * x) * ag.exp(-x * x)

        def number(found):
            value, error = found
            return (value.item() if isinstance(value, ag.Tensor) else value), error

        found = [number(integrate.quad(own, *limits, args)) for _ in range(8)]
        assert self.is_in_c(own)
        assert len(set(found)) == 1
        other = (0.9, *args[1:])
        wanted = number(integrate.quad(lambda *given: own(*given), *limits, other))
        assert number(integrate.quad(own, *limits, other)) == wanted

    def test_of_several_variables(self):
        found = [integrate.nquad(bump, [lambda y, p, q: (0.0, y * p), (0.0, 1.5)], WAVE) for _ in range(4)]
        assert len(set(found)) == 1
        assert self.is_in_c(bump)

    def test_derivatives(self):
        def own(x, p):
            return ag.exp(-p * x)

        for _ in range(5):
            p = leaf(2.0)
            found, _ = integrate.quad(own, 0.0, np.inf, (p,))
            np.testing.assert_allclose(ag.grad(found, p)[0].item(), -1 / 4, rtol=1e-8)
        assert self.is_in_c(own)

    def test_what_changes_outside_is_seen(self):
        scale = ag.tensor(1.0, dtype=ag.float64)
        factor = 2.0

        def own(x):
            return scale * factor * ag.cos(x)

        for _ in range(8):
            assert integrate.quad(own, 0.0, 1.0)[0] == pytest.approx(2.0 * math.sin(1.0))
        assert self.is_in_c(own)
        scale.mul_(3.0)
        assert integrate.quad(own, 0.0, 1.0)[0] == pytest.approx(6.0 * math.sin(1.0))
        factor = 1.0
        assert integrate.quad(own, 0.0, 1.0)[0] == pytest.approx(3.0 * math.sin(1.0))

    @pytest.mark.parametrize(
        "own",
        [
            lambda x: math.sin(x),
            lambda x: np.sin(x),
            lambda x: ag.sin(x) if x > 0.5 else ag.cos(x),
            lambda x: ag.linalg.inv(ag.eye(2) * (1.0 + x))[0, 0],  # it may raise
            lambda x: ag.sum(ag.sort(x * ag.arange(20.0))),  # no kernel
        ],
    )
    def test_what_is_none_goes_on_as_it_is(self, own):
        found = [integrate.quad(own, 0.0, 1.0) for _ in range(6)]
        assert not self.is_in_c(own)
        assert len({str(one) for one in found}) == 1

    def test_side_effects_are_kept(self):
        calls = []

        def own(x):
            calls.append(x)
            return ag.cos(x)

        for _ in range(6):
            before = len(calls)
            info = integrate.quad(own, 0.0, 1.0, full_output=1)[2]
            assert len(calls) - before == info["neval"]
        assert not self.is_in_c(own)

    def test_it_can_be_turned_off(self, monkeypatch):
        monkeypatch.setenv("AGRAD_EXECUTOR", "text")

        def own(x):
            return ag.cos(x)

        for _ in range(6):
            integrate.quad(own, 0.0, 1.0)
        assert not self.is_in_c(own)


class TestRules:
    @pytest.mark.parametrize("name", ["simpson", "trapezoid", "cumulative_trapezoid"])
    @pytest.mark.parametrize("n", [2, 3, 4, 7, 8])
    def test_of_samples(self, name, n):
        rng = np.random.default_rng(n)
        y, x = rng.normal(size=(2, n)), np.sort(rng.normal(size=n))
        mine, of_scipy = getattr(integrate, name), getattr(theirs, name)
        for given in ({}, {"dx": 0.5}, {"x": x}, {"x": np.stack([x, 2 * x])}):
            np.testing.assert_allclose(mine(y, **given).numpy(), of_scipy(y, **given), rtol=1e-12)
        np.testing.assert_allclose(mine(y.T, x, axis=0).numpy(), of_scipy(y.T, x, axis=0), rtol=1e-12)
        assert gradcheck(mine, (leaf(y), leaf(x)), check_forward_ad=True, fast_mode=True)
        assert gradgradcheck(mine, (leaf(y), leaf(x)), fast_mode=True)

    def test_places_that_are_the_same(self):
        y, x = [1.0, 2.0, 4.0, 3.0, 5.0], [0.0, 1.0, 1.0, 2.0, 2.0]
        np.testing.assert_allclose(integrate.simpson(y, x).item(), theirs.simpson(y, x))

    def test_places_that_do_not_fit(self):
        for module in (integrate, theirs):
            with pytest.raises(ValueError, match="length of x along axis must be the same as y"):
                module.simpson([1.0, 2.0, 3.0], [1.0, 2.0])

    def test_in_chunks(self, dask_backend):
        y = np.random.default_rng(0).normal(size=(9, 2))
        lazy = ag.asarray(y, device="dask").rechunk((4, 1)).requires_grad_()
        found = integrate.simpson(lazy, axis=0)
        np.testing.assert_allclose(found.detach().to_device("numpy").numpy(), theirs.simpson(y, axis=0))
        weights = np.array([1, 4, 2, 4, 2, 4, 2, 4, 1]) / 3
        gradient = ag.grad(found.sum(), lazy)[0].to_device("numpy").numpy()
        np.testing.assert_allclose(gradient, np.stack([weights, weights], axis=1))
