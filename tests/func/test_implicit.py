"""Implicit derivatives: against analytic ones, finite differences and matrices, in every mode, by every linear solver."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize

import agrad as ag
from agrad.autograd import gradcheck, gradgradcheck
from agrad.func import ImplicitError, implicit, krylov

SOLVERS = ["auto", "dense", "gmres", "bicgstab"]


def by_newton(a):
    x = 1.0
    for _ in range(50):
        x = x - (x**3 + x - float(a)) / (3 * x**2 + 1)
    return x


cubic = implicit(by_newton, lambda x, a: x**3 + x - a)


def by_scipy(matrix, b):
    matrix, b = np.asarray(matrix.numpy()), np.asarray(b.numpy())
    return optimize.root(lambda x: np.tanh(matrix @ x) + x - b, np.zeros(b.shape), tol=1e-13).x


def layer(x, matrix, b):
    return ag.tanh(matrix @ x) + x - b


def operands(n=4, **options):
    rng = np.random.default_rng(n)
    matrix = rng.normal(size=(n, n)) / n + np.eye(n)
    return ag.tensor(matrix, **options), ag.tensor(rng.normal(size=n), **options)


class TestRoots:
    def test_three_orders_of_one_number(self):
        """With s = 3 x^2 + 1: x' = 1 / s, x'' = -6 x / s^3, x''' = (90 x^2 - 6) / s^5."""
        a = ag.tensor(10.0, requires_grad=True)
        first, *_ = ag.grad(cubic(a), a, create_graph=True)
        second, *_ = ag.grad(first, a, create_graph=True)
        third, *_ = ag.grad(second, a)
        np.testing.assert_allclose([first.item(), second.item()], [1 / 13, -12 / 13**3], rtol=1e-10)
        np.testing.assert_allclose(third.item(), (90 * 4 - 6) / 13**5, rtol=1e-8)

    @pytest.mark.parametrize("outer", [ag.func.grad, ag.func.deriv])
    @pytest.mark.parametrize("inner", [ag.func.grad, ag.func.deriv])
    def test_modes_compose(self, outer, inner):
        np.testing.assert_allclose(outer(inner(cubic))(10.0), -12 / 13**3, rtol=1e-10)

    @pytest.mark.parametrize("linear", SOLVERS)
    def test_scipys_solver_by_all_modes(self, linear):
        root = implicit(by_scipy, layer, linear=linear)
        inputs = operands(requires_grad=True)
        assert gradcheck(root, inputs, check_forward_ad=True)
        assert gradgradcheck(root, inputs, check_fwd_over_rev=True)

    @pytest.mark.parametrize("linear", ["dense", "gmres"])
    def test_jacobians_and_hessians_are_mapped(self, linear):
        matrix, b = operands()
        root = implicit(by_scipy, layer, linear=linear)
        x = root(matrix, b).numpy()
        slope = 1 - np.tanh(matrix.numpy() @ x) ** 2
        expected = np.linalg.inv(slope[:, None] * matrix.numpy() + np.eye(4))
        for transform in (ag.func.jacrev, ag.func.jacfwd):
            np.testing.assert_allclose(transform(root, 1)(matrix, b).numpy(), expected, rtol=1e-8, atol=1e-12)
        bent = ag.func.hessian(lambda b: ag.sum(root(matrix, b) ** 2))(b)
        step = 1e-5
        gradient = ag.func.grad(lambda b: ag.sum(root(matrix, b) ** 2))
        columns = [
            (gradient(b + step * e) - gradient(b - step * e)).numpy() / (2 * step) for e in ag.eye(4, dtype=b.dtype)
        ]
        np.testing.assert_allclose(bent.numpy(), np.stack(columns), rtol=1e-6, atol=1e-8)

    def test_rows_of_very_different_size_are_equally_accurate(self):
        scales = np.array([1.0, 1e-9])
        root = implicit(lambda b: b.numpy() * scales, lambda x, b: x / ag.asarray(scales) - b, linear="gmres")
        found = ag.func.jacrev(root)(ag.tensor([1.0, 2.0])).numpy()
        np.testing.assert_allclose(found, np.diag(scales), rtol=1e-9, atol=1e-20)

    def test_the_solver_is_not_recorded_and_sees_no_history(self):
        def solve(a):
            assert not a.requires_grad
            w = ag.tensor(0.0, requires_grad=True)
            optimizer = ag.optim.SGD([w], lr=0.4)
            for _ in range(60):
                optimizer.zero_grad()
                ((w - a) ** 2).backward()
                optimizer.step()
            return w

        a = ag.tensor(3.0, requires_grad=True)
        minimum = implicit(solve, lambda w, a: (w - a) ** 2, kind="minimum")
        (g,) = ag.grad(minimum(a) ** 2, a)
        np.testing.assert_allclose(g.item(), 6.0)
        assert a.grad is None

    def test_containers_keywords_and_what_is_no_tensor(self):
        def solve(p, *, power, name):
            assert name == "cubes"
            return {"x": [p["a"].item() ** (1 / power)], "y": np.asarray([p["b"].item()])}

        def residual(found, p, *, power, name):
            return {"x": [found["x"][0] ** power - p["a"]], "y": found["y"] - ag.stack([p["b"]])}

        root = implicit(solve, residual)
        p = {"a": ag.tensor(8.0, requires_grad=True), "b": ag.tensor(5.0, requires_grad=True), "n": ag.asarray(3)}
        found = root(p, power=3, name="cubes")
        assert set(found) == {"x", "y"}
        grads = ag.grad(found["x"][0] + 2 * found["y"][0], (p["a"], p["b"]))
        np.testing.assert_allclose([g.item() for g in grads], [1 / 12, 2.0])

    def test_raw_in_raw_out_and_auxiliary_values(self):
        root = implicit(lambda a: (by_newton(a), {"steps": 50}), lambda x, a: x**3 + x - a, has_aux=True)
        x, aux = root(10.0)
        assert isinstance(x, float)
        assert aux == {"steps": 50}
        assert isinstance(root(ag.tensor(10.0))[0], ag.Tensor)
        np.testing.assert_allclose(ag.func.grad(lambda a: root(a)[0])(10.0), 1 / 13)

    def test_complex_roots(self):
        """Of z^2 = a, by two real equations: also where the residual is not holomorphic."""
        root = implicit(lambda a: np.sqrt(a.numpy()), lambda z, a: z * z - a)
        a = ag.tensor([1.0 + 2.0j, -3.0 + 0.5j], requires_grad=True)
        assert gradcheck(root, (a,), check_forward_ad=True)
        assert gradgradcheck(root, (a,))
        mirrored = implicit(lambda a: np.conj(a.numpy()) / 2, lambda z, a: 2 * ag.conj(z) - a, linear="gmres")
        assert gradcheck(mirrored, (a,), check_forward_ad=True)

    def test_single_precision(self):
        matrix, b = operands(dtype=ag.float32, requires_grad=True)
        root = implicit(lambda m, b: by_scipy(m, b).astype(np.float32), layer, linear="gmres")
        found = root(matrix, b)
        assert found.dtype == ag.float32
        (g,) = ag.grad(found.sum(), b)
        exact = [t.detach().to(ag.float64) for t in (matrix, b)]
        expected = ag.func.grad(lambda b: implicit(by_scipy, layer)(exact[0], b).sum())(exact[1])
        np.testing.assert_allclose(g.numpy(), expected.numpy(), rtol=1e-4)

    def test_vmap_of_a_solver_of_agrads_functions(self):
        def solve(a):
            x = a * 0 + 1
            for _ in range(40):
                x = x - (x**3 + x - a) / (3 * x**2 + 1)
            return x

        values = ag.tensor([10.0, 2.0, 30.0])
        root = implicit(solve, lambda x, a: x**3 + x - a)
        x = ag.func.vmap(root)(values).numpy()
        np.testing.assert_allclose(x, [by_newton(float(a)) for a in values], rtol=1e-12)
        slopes = ag.func.vmap(ag.func.grad(root))(values).numpy()
        np.testing.assert_allclose(slopes, 1 / (3 * x**2 + 1), rtol=1e-10)
        second = ag.func.vmap(ag.func.grad(ag.func.grad(root)))(values).numpy()
        np.testing.assert_allclose(second, -6 * x / (3 * x**2 + 1) ** 3, rtol=1e-9)
        both = ag.func.vmap(ag.func.vmap(ag.func.grad(root)))(ag.stack([values, values + 1])).numpy()
        np.testing.assert_allclose(both[0], slopes, rtol=1e-10)
        with pytest.raises(RuntimeError):
            ag.func.vmap(cubic)(values)

    @pytest.mark.parametrize("backend", ["numpy", "strict", "dask"], indirect=True)
    @pytest.mark.parametrize("linear", ["dense", "gmres", "cg", "bicgstab"])
    def test_backends(self, backend, linear):
        rng = np.random.default_rng(0)
        half = rng.normal(size=(3, 3))
        matrix, b = ag.asarray(half @ half.T + np.eye(3)), ag.asarray(rng.normal(size=3))
        expected = ag.func.grad(lambda m: ag.sum(ag.linalg.solve(m, b) ** 2))(matrix).numpy()
        there = [ag.asarray(t.tolist(), device=backend, dtype=ag.float64) for t in (matrix, b)]
        host = lambda t: np.asarray(t.tolist())
        root = implicit(lambda m, b: np.linalg.solve(host(m), host(b)), lambda x, m, b: m @ x - b, linear=linear)
        found = ag.func.grad(lambda m: ag.sum(root(m, there[1]) ** 2))(there[0])
        np.testing.assert_allclose(np.asarray(found.tolist()), expected, rtol=1e-7)


class TestFixedPointsAndMinima:
    def test_a_fixed_point(self):
        def iterate(matrix, b):
            x = b * 0
            for _ in range(200):
                x = ag.tanh(matrix @ x + b)
            return x

        fixed = implicit(iterate, lambda x, matrix, b: ag.tanh(matrix @ x + b), kind="fixed_point")
        matrix, b = operands()
        inputs = ((0.3 * matrix).detach().requires_grad_(), b.detach().requires_grad_())
        assert gradcheck(fixed, inputs, check_forward_ad=True)
        unrolled = ag.grad(ag.sum(iterate(*inputs) ** 2), inputs)
        ours = ag.grad(ag.sum(fixed(*inputs) ** 2), inputs)
        for mine, theirs in zip(ours, unrolled, strict=True):
            np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-9, atol=1e-12)

    @pytest.mark.parametrize("linear", ["auto", "cg", "dense", "gmres"])
    def test_a_ridge_regression_by_its_weight_and_its_data(self, linear):
        rng = np.random.default_rng(1)
        x, y = rng.normal(size=(30, 5)), rng.normal(size=30)

        def loss(w, x, y, weight):
            return ag.sum((x @ w - y) ** 2) + weight * ag.sum(w**2)

        def fit(x, y, weight):
            return np.linalg.solve(x.numpy().T @ x.numpy() + float(weight) * np.eye(5), x.numpy().T @ y.numpy())

        inputs = [ag.tensor(v, requires_grad=True) for v in (x, y, np.float64(0.7))]
        found = implicit(fit, loss, kind="minimum", linear=linear)(*inputs)
        w, h = found.detach().numpy(), np.linalg.inv(x.T @ x + 0.7 * np.eye(5))
        grads = [g.numpy() for g in ag.grad(ag.sum(found), inputs)]
        np.testing.assert_allclose(grads[1], x @ h @ np.ones(5), rtol=1e-9)
        np.testing.assert_allclose(grads[2], -np.ones(5) @ h @ w, rtol=1e-9)
        u = h @ np.ones(5)
        np.testing.assert_allclose(grads[0], np.outer(y - x @ w, u) - np.outer(x @ u, w), rtol=1e-8, atol=1e-12)

    def test_many_unknowns_by_products_alone(self):
        """A discretised boundary value problem, ``-u'' + u^3 = f``: the matrix is never made."""
        n = 400
        grid = np.linspace(0, 1, n + 2)[1:-1]

        def energy(u, f):
            steps = ag.concat([u, ag.zeros(1)]) - ag.concat([ag.zeros(1), u])
            return (n + 1) * ag.sum(steps**2) / 2 + ag.sum(u**4 / 4 - f * u) / (n + 1)

        def solve(f):
            u, f = np.zeros(n), f.numpy()
            laplacian = (2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)) * (n + 1) ** 2
            for _ in range(20):
                u = u - np.linalg.solve(laplacian + np.diag(3 * u**2), laplacian @ u + u**3 - f)
            return u

        f = ag.tensor(20 * np.sin(3 * grid), requires_grad=True)
        u = implicit(solve, energy, kind="minimum")(f)
        (g,) = ag.grad(ag.sum(u) / n, f)
        laplacian = (2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)) * (n + 1) ** 2
        expected = np.linalg.solve(laplacian + np.diag(3 * u.detach().numpy() ** 2), np.ones(n) / n)
        np.testing.assert_allclose(g.numpy(), expected, rtol=1e-6)


class TestRefusals:
    def test_what_has_not_converged(self):
        root = implicit(lambda a: 1.9, lambda x, a: x**3 + x - a)
        with pytest.raises(ImplicitError, match=r"not small.*has not converged"):
            root(ag.tensor(10.0))
        assert float(implicit(lambda a: 1.9, lambda x, a: x**3 + x - a, tol=0.1)(ag.tensor(10.0))) == 1.9
        assert math.isnan(implicit(lambda a: math.nan, lambda x, a: x - a, tol=math.inf)(ag.tensor(10.0)).item())
        with pytest.raises(ImplicitError, match="not small"):
            implicit(lambda a: math.nan, lambda x, a: x - a)(ag.tensor(10.0))

    @pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
    def test_the_check_knows_neither_scale_nor_unit(self, scale):
        a = ag.tensor(10.0)
        assert implicit(by_newton, lambda x, a: scale * (x**3 + x - a))(a).item() == pytest.approx(2.0)
        with pytest.raises(ImplicitError):
            implicit(lambda a: 2.01, lambda x, a: scale * (x**3 + x - a))(a)

    @pytest.mark.parametrize("linear", SOLVERS)
    def test_a_double_root_has_no_derivative(self, linear):
        root = implicit(lambda a: a.numpy() * 0, lambda x, a: x * x - a * 0, tol=math.inf, linear=linear)
        a = ag.tensor([1.0, 2.0], requires_grad=True)
        with pytest.raises(ImplicitError, match="no derivative"):
            ag.grad(root(a).sum(), a)

    @pytest.mark.parametrize("linear", ["auto", "dense", "gmres", "bicgstab", "cg"])
    def test_a_family_of_solutions_has_none_though_the_equations_can_be_solved(self, linear):
        """x + y = a says nothing of x - y, and a right side along (1, 1) has solutions."""
        matrix = ag.ones((2, 2))
        root = implicit(
            lambda a: np.array([0.5, 0.5]) * float(a), lambda x, a: matrix @ x - a * ag.ones(2), linear=linear
        )
        a = ag.tensor(1.0, requires_grad=True)
        with pytest.raises(ImplicitError, match="no derivative"):
            ag.grad(root(a).sum(), a)

    def test_a_saddle_is_no_minimum_for_conjugate_gradients(self):
        saddle = implicit(
            lambda a: a.numpy(), lambda x, a: (x[0] - a[0]) ** 2 - (x[1] - a[1]) ** 2, kind="minimum", linear="cg"
        )
        a = ag.tensor([1.0, 2.0], requires_grad=True)
        with pytest.raises(ImplicitError, match="not positive definite"):
            ag.grad(saddle(a).sum(), a)

    def test_too_few_products(self):
        matrix, b = operands(40)
        root = implicit(by_scipy, layer, linear="gmres", maxiter=3)
        with pytest.raises(ImplicitError, match="maxiter"):
            ag.func.grad(lambda b: root(matrix, b).sum())(b)

    def test_a_tensor_of_the_closure_is_refused(self):
        w = ag.tensor(2.0, requires_grad=True)
        root = implicit(lambda a: 2.0 * float(a), lambda x, a: x - a * w)
        with pytest.raises(ImplicitError, match=r"depends on w, .* not one of its arguments.*\n  Make w an argument\."):
            root(ag.tensor(1.0))
        with ag.no_grad():
            assert root(ag.tensor(1.0)).item() == 2.0

        def of(w):
            return implicit(lambda a: 2.0 * float(a), lambda x, a: x - a * w)(ag.tensor(1.0))

        for transform in (ag.func.grad, ag.func.deriv):
            with pytest.raises(ImplicitError, match=r"depends on w, .* not one of its arguments"):
                transform(of)(ag.tensor(2.0))

    def test_what_does_not_fit(self):
        a = ag.tensor([1.0, 2.0])
        with pytest.raises(ImplicitError, match="structure and the shapes"):
            implicit(lambda a: a, lambda x, a: ag.sum(x - a))(a)
        with pytest.raises(TypeError, match="floating-point"):
            implicit(lambda a: [1, 2], lambda x, a: x - a)(a)
        with pytest.raises(TypeError, match="holds numbers"):
            implicit(lambda a: None, lambda x, a: x - a)(a)
        with pytest.raises(ValueError, match="kind is"):
            implicit(lambda a: a, lambda x, a: x - a, kind="saddle")
        with pytest.raises(ValueError, match="linear is"):
            implicit(lambda a: a, lambda x, a: x - a, linear="lu")

    def test_what_the_solver_raises_comes_through(self):
        def fails(a):
            raise optimize.NoConvergence

        with pytest.raises(optimize.NoConvergence):
            implicit(fails, lambda x, a: x - a)(ag.tensor(1.0))


class TestLinearSolvers:
    @pytest.mark.parametrize("n", [1, 7, 150])
    @pytest.mark.parametrize("name", ["dense", "gmres", "bicgstab", "cg"])
    def test_against_numpy(self, name, n):
        rng = np.random.default_rng(n)
        matrix = rng.normal(size=(n, n)) / n**0.5
        matrix = matrix @ matrix.T + np.eye(n) if name == "cg" else matrix + 3 * np.eye(n)
        b, held = rng.normal(size=n), ag.asarray(matrix)
        found = krylov.solve(krylov.Method(name), lambda v: held @ v, ag.asarray(b), 1, probe=True)
        np.testing.assert_allclose(found.numpy(), np.linalg.solve(matrix, b), rtol=1e-8, atol=1e-9)

    def test_gmres_begins_anew(self):
        n = 300
        matrix = np.diag(np.linspace(1, 2000, n)) + np.eye(n, k=1)
        b, held = np.ones(n), ag.asarray(matrix)
        found = krylov.solve(krylov.Method("gmres", maxiter=20000), lambda v: held @ v, ag.asarray(b), 1, probe=False)
        np.testing.assert_allclose(matrix @ found.numpy(), b, atol=1e-8)

    def test_a_solver_of_the_users_own(self):
        calls = []

        def mine(product, b):
            calls.append(b.shape)
            return b / 2

        root = implicit(lambda a: a.numpy() / 2, lambda x, a: 2 * x - a, linear=mine)
        a = ag.tensor([1.0, 2.0], requires_grad=True)
        (g,) = ag.grad(root(a).sum(), a)
        np.testing.assert_allclose(g.numpy(), [0.5, 0.5])
        assert set(calls) == {(2,)}

    def test_equations_in_different_units_are_not_singular(self):
        scales = np.array([1e-14, 1.0, 1e14])
        held = ag.asarray(np.diag(scales) @ (np.ones((3, 3)) + np.eye(3)))
        b = np.array([1.0, 2.0, 3.0])
        found = krylov.solve(krylov.Method("dense"), lambda v: held @ v, ag.asarray(b), 1, probe=True)
        np.testing.assert_allclose(found.numpy(), np.linalg.solve(np.ones((3, 3)) + np.eye(3), b / scales), rtol=1e-10)
