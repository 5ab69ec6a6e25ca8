"""Time sparse Jacobians and Hessians compared with the function, its gradient, and SciPy's finite differences; sparse products compared with SciPy's.

``python benchmarks/sparse_derivatives.py``; with ``--write`` the table goes to benchmarks/results/sparse.md. A figure is the median of paired
runs in one process and one thread, by CPU time, each with its goal; what both compute must agree. The function is compiled, where
it is what is counted by. With ``--asdex PYTHON``, an interpreter that has JAX and asdex, there is a row beside asdex: each library in
processes of its own, which take turns.
"""

from __future__ import annotations

import os

os.environ |= {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}

import argparse
import datetime as dt
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import integrate, optimize, sparse
from scipy.sparse import linalg

import agrad as ag
from agrad import func

RESULTS = Path(__file__).resolve().parent / "results" / "sparse.md"

ROUNDS = 31

#: What the written table is followed by.
NOTES = """\
By CPU time, as other work ran on the machine. Of a vector, a recorded call and a backward pass cost some 30 to 40 us beside the two
products, which took 340 us then; where they take 210 us, without load, the ratio is 1.15. Ratios to asdex were 0.35 to 1.14 in single
pairs of processes, as JAX's times differ from process to process. asdex gives rows, columns and entries as arrays of JAX's; agrad a matrix of SciPy's,
whose arrays are new at each call.
"""

#: What is timed, beside what, and how the ratio may be at most.
Row = tuple[str, str, float, float]


def tridiagonal(x: Any) -> Any:
    """A chain whose elements depend on their neighbours."""
    y = x * x
    return ag.concat([2 * y[:1] - x[1:2], 2 * y[1:-1] - x[:-2] - x[2:] * x[1:-1], 2 * y[-1:] - x[-2:-1]])


def rosenbrock(x: Any) -> Any:
    """The chained function of Rosenbrock."""
    return ag.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def brusselator(_: Any, flat: Any, n: int = 100) -> Any:
    """Two species that react and diffuse on a periodic grid (Hairer and Wanner)."""
    both = flat.reshape((2, n, n))
    u, v = both[0], both[1]

    def spread(w: Any) -> Any:
        return ag.roll(w, 1, axis=0) + ag.roll(w, -1, axis=0) + ag.roll(w, 1, axis=1) + ag.roll(w, -1, axis=1) - 4 * w

    made = [1 + u * u * v - 4.4 * u + spread(u), 3.4 * u - u * u * v + spread(v)]
    return ag.stack(made).reshape((-1,))


def seconds(call: Callable[[], Any]) -> float:
    """Return how long a call takes."""
    start = time.process_time()
    call()
    return time.process_time() - start


def paired(first: Callable[[], Any], second: Callable[[], Any], rounds: int = ROUNDS) -> tuple[float, float]:
    """Return the medians of two calls that take turns, after some warm-up."""
    for call in (first, second):
        for _ in range(6):
            call()
    both = [(seconds(first), seconds(second)) for _ in range(rounds)]
    return statistics.median(one for one, _ in both), statistics.median(other for _, other in both)


def beside_asdex(python: str, processes: int = 5, rounds: int = 9) -> float:
    """Return the ratio of the Jacobian's times to those of asdex: the median over pairs of processes that take turns."""
    file, ratios = str(Path(__file__).with_name("sparse_asdex.py")), []
    for _ in range(processes):
        pair = [
            subprocess.Popen([interpreter, file, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for interpreter, name in ((sys.executable, "agrad"), (python, "asdex"))
        ]
        answers: list[list[float]] = [[], []]
        for place, process in enumerate(pair):  # the sum of the entries
            assert process.stdout
            answers[place].append(float(process.stdout.readline()))
        np.testing.assert_allclose(*answers, rtol=1e-9)
        for _ in range(rounds):
            for place, process in enumerate(pair):
                assert process.stdin
                assert process.stdout
                process.stdin.write("go\n")
                process.stdin.flush()
                answers[place].append(float(process.stdout.readline()))
        for process in pair:
            process.communicate()
        mine, other = (statistics.median(taken[1:]) for taken in answers)
        print(f"agrad {1e6 * mine:.0f} us, asdex {1e6 * other:.0f} us", flush=True)
        ratios.append(mine / other)
    return statistics.median(ratios)


def rows(asdex: str | None) -> Iterator[Row]:
    """Run what is timed; give the rows of the table: what, beside what, the ratio, and its goal."""
    rng = np.random.default_rng(0)
    x = ag.asarray(rng.normal(size=10_000))
    f, jacobian = ag.compile(tridiagonal), func.sparse_jacobian(tridiagonal)
    mine, other = paired(lambda: jacobian(x), lambda: f(x), 101)
    small = x[:60]
    np.testing.assert_allclose(jacobian(small).toarray(), func.jacrev(tridiagonal)(small).numpy())
    yield "Jacobian of a tridiagonal system, n = 10,000, 3 colours", "one evaluation of f, compiled", mine / other, 8

    if asdex is not None:
        yield "the same", "asdex on JAX, jitted, a matrix of JAX's", beside_asdex(asdex), 1

    hessian, slope = func.sparse_hessian(rosenbrock), ag.compile(func.grad(rosenbrock))
    mine, other = paired(lambda: hessian(x), lambda: slope(x), 101)
    np.testing.assert_allclose(hessian(small).toarray(), func.hessian(rosenbrock)(small).numpy(), atol=1e-9)
    yield "Hessian of a chained Rosenbrock, n = 10,000", "one gradient, compiled", mine / other, 10

    u = rng.uniform(0.5, 3.0, 20_000)
    compiled, jacobian = ag.compile(brusselator), func.sparse_jacobian(brusselator, 1)

    def plain(t: float, u: Any) -> Any:
        return np.asarray(compiled(t, u))

    pattern = jacobian.coloring(0.0, u).pattern
    groups = optimize._numdiff.group_columns(pattern)
    found = jacobian(0.0, u)

    def differences() -> Any:
        return optimize._numdiff.approx_derivative(
            lambda v: plain(0.0, v), u, method="2-point", sparsity=(pattern, groups)
        )

    np.testing.assert_allclose(differences().toarray()[:100], found.toarray()[:100], atol=1e-5)
    mine, other = paired(lambda: jacobian(0.0, u), differences)
    yield "Brusselator, 2 x 100 x 100: the Jacobian", "SciPy's differences, same pattern", mine / other, 0.3

    options = {"method": "BDF", "rtol": 1e-4, "atol": 1e-6}
    start = (1 + 0.1 * rng.normal(size=20_000)).clip(0.1)
    solved = [None, None]

    def solve(place: int, **more: Any) -> None:
        solved[place] = integrate.solve_ivp(plain, (0, 0.02), start, **options, **more).y[:, -1]

    mine, other = paired(lambda: solve(0, jac=jacobian), lambda: solve(1, jac_sparsity=pattern), 3)
    np.testing.assert_allclose(*solved, rtol=1e-3)
    yield "the same in solve_ivp(BDF)", "with SciPy's differences", mine / other, 0.95

    n = 100_000
    large, taken = ag.ones(n), []
    for size in (n, 2 * n):
        large = ag.ones(size)
        times = [seconds(lambda: func.coloring(func.jacobian_sparsity(tridiagonal)(large))) for _ in range(3)]  # noqa: B023
        taken.append(min(times))
    yield "pattern and colouring, n = 10^5, banded", "seconds", taken[0], 2
    yield "of twice as many, n = 2 * 10^5", "the row above", taken[1] / taken[0], 2.5

    yield from products(rng)

    dense, entries = bundle(rng)
    yield "Gauss-Newton of bundle adjustment, 20 cameras, 400 points", "dense Jacobian", entries / dense, 0.05


def products(rng: Any) -> Iterator[Row]:
    """Run products of a sparse matrix with their gradient, and equations, compared with the same by SciPy by hand."""
    A = sparse.random_array((20_000, 500), density=0.01, format="csr", rng=rng)
    for shape in ((500,), (500, 32)):
        x = ag.asarray(rng.normal(size=shape), requires_grad=True)
        g = ag.asarray(rng.normal(size=(20_000, *shape[1:])))
        numbers, cotangent = x.detach().numpy(), g.numpy()

        def mine() -> Any:
            return ag.autograd.grad(ag.sparse.matmul(A, x), x, g)[0]  # noqa: B023

        def hand() -> Any:
            return A @ numbers, A.T @ cotangent  # noqa: B023

        np.testing.assert_allclose(mine().numpy(), hand()[1])
        one, other = paired(mine, hand, 301)
        of = "a vector" if len(shape) == 1 else f"{shape[1]} columns"
        yield f"`sparse.matmul` with gradient, 20,000 x 500 at 1 %, {of}", "SciPy's two products", one / other, 1.1

    n = 60
    line = sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n))
    grid = sparse.kronsum(line, line, format="csc")
    values, b = ag.asarray(grid.data, requires_grad=True), rng.normal(size=n * n)
    pattern = ag.sparse.from_scipy(grid)

    def solved() -> Any:
        u = ag.sparse.from_scipy(pattern, values * 1.0).solve(b)
        return ag.autograd.grad(ag.sum(u * u), values)[0]

    def by_hand() -> Any:
        factors = linalg.splu(grid)
        u = factors.solve(b)
        back = factors.solve(2 * u, "T")
        return -back[grid.indices] * np.repeat(u, np.diff(grid.indptr))

    np.testing.assert_allclose(solved().numpy(), by_hand(), rtol=1e-6, atol=1e-12)
    one, other = paired(solved, by_hand, 11)
    yield (
        "`solve` with gradient by the entries, 3,600 unknowns on a grid",
        "splu and two solutions",
        one / other,
        float("nan"),
    )


def bundle(rng: Any, cameras: int = 20, points: int = 400, seen: int = 6) -> tuple[float, float]:
    """Return the time of ``J.T @ J`` of a bundle adjustment with a dense Jacobian, and with a sparse one."""
    camera = np.concatenate([rng.choice(cameras, seen, replace=False) for _ in range(points)])
    point = np.repeat(np.arange(points), seen)
    pixels = rng.normal(size=(len(camera), 2))
    at, of = ag.asarray(camera), ag.asarray(point)

    def residuals(flat: Any) -> Any:
        poses, places = flat[: 6 * cameras].reshape((cameras, 6)), flat[6 * cameras :].reshape((points, 3))
        pose, place = ag.take(poses, at, axis=0), ag.take(places, of, axis=0)
        turned = place + ag.linalg.cross(pose[:, :3], place) + pose[:, 3:]
        return (turned[:, :2] / (turned[:, 2:] + 5.0) - pixels).reshape((-1,))

    flat = ag.asarray(rng.normal(size=6 * cameras + 3 * points) * 0.1)
    jacobian = func.sparse_jacobian(residuals)

    def whole() -> Any:
        made = func.jacfwd(residuals)(flat).numpy()
        return made.T @ made

    def few() -> Any:
        made = jacobian(flat)
        return made.T @ made

    np.testing.assert_allclose(few().toarray(), whole(), atol=1e-12)
    mine, other = paired(few, whole, 3)
    return other, mine


def main() -> None:
    """Print the table, and write it if requested."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    parser.add_argument("--asdex", metavar="PYTHON", help="an interpreter that has JAX and asdex")
    given = parser.parse_args()
    lines = ["| work | beside | ratio | goal |", "|---|---|---|---|"]
    for what, beside, ratio, goal in rows(given.asdex):
        lines.append(f"| {what} | {beside} | {ratio:.3g} | {'' if goal != goal else f'{goal:g}'} |")
        print(lines[-1], flush=True)
    if given.write:
        head = f"{dt.datetime.now(dt.UTC).date()}, Python {platform.python_version()}, NumPy {np.__version__}, one thread, {platform.machine()}"
        RESULTS.write_text(
            "\n".join(
                [
                    "# Sparse derivatives",
                    "",
                    f"`python benchmarks/sparse_derivatives.py`: {head}.",
                    "",
                    *lines,
                    "",
                    NOTES,
                ]
            )
        )


if __name__ == "__main__":
    main()
