"""Three programs in HIPS autograd's style: a Gaussian process, a Kalman filter and a Hamiltonian sampler.

``python examples/numpy_style.py`` runs them on agrad, ``--backend dask`` on another backend, ``--autograd`` on HIPS
autograd. Only two imports differ. Times are processor time.
"""

from __future__ import annotations

import argparse
import time

import numpy  # noqa: ICN001 (np is one of the two imports)

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--autograd", action="store_true", help="run on HIPS autograd")
parser.add_argument("--backend", default="numpy", help="of agrad")
parser.add_argument("--short", action="store_true", help="take few steps over few numbers")
parser.add_argument("--repeat", type=int, default=1, metavar="N", help="run each so often, and tell the least time")
options = parser.parse_args()

if options.autograd:
    import autograd.numpy as np
    from autograd import grad, value_and_grad
else:
    import agrad as ag
    import agrad.numpy as np
    from agrad import grad, value_and_grad

    ag.set_default_backend(options.backend)


def gaussian_process(x, y, steps):
    """Fit the length, the scale and the noise of a kernel by the marginal likelihood of data."""

    def covariance(params, a, b):
        length, scale = np.exp(params[0]), np.exp(params[1])
        distance = (np.expand_dims(a, 1) - np.expand_dims(b, 0)) / length
        return scale * np.exp(-0.5 * np.sum(distance**2, axis=2))

    def negative_log_likelihood(params, x, y):
        n = len(y)
        K = covariance(params, x, x) + np.exp(params[2]) * np.eye(n)
        _, logdet = np.linalg.slogdet(K)
        return 0.5 * np.dot(y, np.linalg.solve(K, y)) + 0.5 * logdet + 0.5 * n * np.log(2 * np.pi)

    objective = value_and_grad(negative_log_likelihood)
    params = np.zeros(3)
    for _ in range(steps):
        value, gradient = objective(params, x, y)
        params = params - 0.02 * gradient
    return value, params


def kalman_filter(observed, steps):
    """Fit the frequency, the damping and the noises of an oscillator by the likelihood of its observations."""

    def negative_log_likelihood(params, observed):
        turn, decay = np.exp(params[0]), 1 / (1 + np.exp(-params[1]))
        F = decay * np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
        Q, R = np.exp(params[2]) * np.eye(2), np.exp(params[3])
        H = np.array([1.0, 0.0])
        mean, P, total = np.zeros(2), np.eye(2), 0.0
        for y in observed:
            mean, P = np.dot(F, mean), np.dot(np.dot(F, P), F.T) + Q
            error, S = y - np.dot(H, mean), np.dot(np.dot(H, P), H) + R
            gain = np.dot(P, H) / S
            mean, P = mean + gain * error, P - np.outer(gain, np.dot(H, P))
            total = total + 0.5 * (np.log(2 * np.pi * S) + error**2 / S)
        return total

    objective = value_and_grad(negative_log_likelihood)
    params = np.array([-1.0, 2.0, -2.0, -1.0])
    for _ in range(steps):
        value, gradient = objective(params, observed)
        params = params - 0.01 * gradient
    return value, params


def hamiltonian_sampler(inputs, labels, momenta, chances):
    """Draw weights of a logistic regression from their posterior distribution."""

    def log_density(w):
        logits = np.dot(inputs, w)
        return np.sum(labels * logits - np.log1p(np.exp(logits))) - 0.5 * np.dot(w, w)

    slope = grad(log_density)
    w, total, accepted, size = np.zeros(inputs.shape[1]), np.zeros(inputs.shape[1]), 0, 0.1
    for momentum, chance in zip(momenta, chances, strict=True):
        at, p = w, momentum + 0.5 * size * slope(w)
        for leap in range(8):
            at = at + size * p
            p = p + (1.0 if leap < 7 else 0.5) * size * slope(at)
        gained = log_density(at) - log_density(w) + 0.5 * (np.dot(momentum, momentum) - np.dot(p, p))
        if np.log(chance) < gained:
            w, accepted = at, accepted + 1
        total = total + w
    return accepted, total / len(chances)


few = 10 if options.short else 1
rng = numpy.random.default_rng(0)
x = rng.uniform(-2, 2, (30, 2))
y = numpy.sin(2 * x[:, 0]) + x[:, 1] + 0.1 * rng.normal(size=30)
waves = numpy.cos(0.3 * numpy.arange(40 // few)) + 0.1 * rng.normal(size=40 // few)
inputs = rng.normal(size=(50, 3))
labels = 1.0 * (inputs @ [1.0, -2.0, 0.5] + 0.3 * rng.normal(size=50) > 0)
momenta, chances = rng.normal(size=(20, 3))[::few], rng.uniform(size=20)[::few]

for program, arguments in (
    (gaussian_process, (np.array(x), np.array(y), 2 if options.short else 50)),
    (kalman_filter, (list(waves), 10 // few)),
    (hamiltonian_sampler, (np.array(inputs), np.array(labels), momenta, chances)),
):
    least = float("inf")
    for _ in range(options.repeat):
        start = time.process_time()
        first, params = program(*arguments)
        numbers = " ".join(f"{float(p):.6f}" for p in params)
        least = min(least, time.process_time() - start)
    print(f"{program.__name__}: {float(first):.6f} {numbers} ({1e3 * least:.1f} ms)")
