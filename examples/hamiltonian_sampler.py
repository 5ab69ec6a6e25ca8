"""Sample a posterior by Hamiltonian Monte Carlo, with a whole trajectory as one C function, in threads without Python's lock.

The leapfrog steps and their gradients are one program: ``program.cfunc()`` compiles it to a C function, which each
chain's thread calls by ctypes. The log-density, also as a C function, is passed to SciPy, whose quadrature computes the
expected averages of the samples. It needs ``agrad-numpy[native]`` and SciPy.

    python examples/hamiltonian_sampler.py --draws 2000 --chains 4
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from scipy.integrate import nquad

import agrad as ag

#: The leapfrog steps of a trajectory, and the length of each.
STEPS, SIZE = 10, 0.06

#: Half the side of the square for quadrature, around the mode: at least ten standard deviations.
REACH = 6.0


def data() -> tuple[np.ndarray, np.ndarray]:
    """Return doses, and whether there was an effect."""
    rng = np.random.default_rng(0)
    dose = rng.uniform(-2, 2, 60)
    return dose, (rng.random(60) < 1 / (1 + np.exp(-(0.5 + 1.5 * dose)))).astype(np.float64)


def log_density(q: Any, dose: Any, effect: Any) -> Any:
    """Return the log-posterior of intercept and slope, up to a constant: logistic, with normal priors."""
    logits = q[0] + q[1] * dose
    return ag.sum(effect * logits - ag.nn.functional.softplus(logits)) - 0.125 * ag.sum(q * q)


def trajectory(dose: np.ndarray, effect: np.ndarray) -> Any:
    """Return a program: from position and momentum to the change of the energy, and their final values."""
    slope = ag.func.grad(lambda q: log_density(q, dose, effect))

    def leapfrog(state: Any, _: None) -> Any:
        q, p = state
        q = q + SIZE * p
        return (q, p + SIZE * slope(q)), None

    def energy(q: Any, p: Any) -> Any:
        return 0.5 * ag.sum(p * p) - log_density(q, dose, effect)

    def whole(q: Any, p: Any) -> Any:
        first = p + 0.5 * SIZE * slope(q)
        (end, last), _ = ag.func.scan(leapfrog, (q, first), None, length=STEPS)
        last = last - 0.5 * SIZE * slope(end)
        return energy(end, last) - energy(q, p), end, last

    spec = ag.func.ShapeDtype((2,), "float64")
    return ag.func.capture(whole)(spec, spec)


def chain(move: Callable[..., float], draws: int, seed: int) -> tuple[np.ndarray, float]:
    """Return the draws of a chain, and the fraction of accepted trajectories."""
    rng = np.random.default_rng(seed)
    given, found, accepted = np.zeros(4), np.zeros(4), 0
    samples = np.empty((draws, 2))
    x, end = np.ctypeslib.as_ctypes(given), np.ctypeslib.as_ctypes(found)
    momenta, chances = rng.standard_normal((draws, 2)), -rng.exponential(size=draws)
    for at in range(draws):
        given[2:] = momenta[at]
        if -move(4, x, end) > chances[at]:
            given[:2] = found[:2]
            accepted += 1
        samples[at] = given[:2]
    return samples, accepted / draws


def expected(dose: np.ndarray, effect: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the logarithm of the posterior's integral and its mean, by quadrature of C functions."""
    spec = ag.func.ShapeDtype((2,), "float64")
    shift = float(log_density(ag.tensor([0.5, 1.5], dtype=ag.float64), dose, effect))

    def density(q: Any) -> Any:
        return ag.exp(log_density(q, dose, effect) - shift)

    box = [[0.5 - REACH, 0.5 + REACH], [1.5 - REACH, 1.5 + REACH]]
    functions = density, lambda q: q[0] * density(q), lambda q: q[1] * density(q)
    whole, *firsts = (nquad(ag.func.cfunc(f, spec).low_level_callable, box)[0] for f in functions)
    return shift + math.log(whole), np.array(firsts) / whole


def main() -> None:
    """Sample, and compare with quadrature."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--draws", type=int, default=2000, help="per chain")
    parser.add_argument("--chains", type=int, default=4, help="each in a thread of its own")
    options = parser.parse_args()
    dose, effect = data()
    function = trajectory(dose, effect).cfunc(name="trajectory")
    print(function.header)
    start = time.perf_counter()
    with ThreadPoolExecutor(options.chains) as pool:
        chains = [pool.submit(chain, function.ctypes, options.draws, seed) for seed in range(options.chains)]
        found = [one.result() for one in chains]
    seconds = time.perf_counter() - start
    samples = np.concatenate([draws[len(draws) // 10 :] for draws, _ in found])
    evidence, mean = expected(dose, effect)
    print(f"{seconds / options.draws / options.chains * 1e6:.1f} us per draw of {STEPS} gradients")
    print(f"accepted {np.mean([rate for _, rate in found]):.2f}")
    print(f"mean {samples.mean(0).round(3)}, by quadrature {mean.round(3)}; log-evidence {evidence:.4f}")


if __name__ == "__main__":
    main()
