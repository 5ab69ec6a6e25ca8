"""What the benchmarks' programs need beside NumPy's names in JAX, and their gradients by hand as numba compiles them."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np

# --- JAX ---------------------------------------------------------------------------------------------------------------


class Names:
    """JAX's NumPy with the functions of layers that `forward` asks for."""

    def __init__(self, jax: Any) -> None:
        self._names = xp = jax.numpy

        def cross_entropy(logits: Any, labels: Any) -> Any:
            picked = xp.take_along_axis(jax.nn.log_softmax(logits, axis=1), labels[:, None], axis=1)
            return -xp.mean(picked)

        def with_logits(z: Any, y: Any) -> Any:
            return xp.mean(xp.maximum(z, 0) - z * y + xp.log1p(xp.exp(-xp.abs(z))))

        self.nn = SimpleNamespace(
            functional=SimpleNamespace(
                relu=jax.nn.relu,
                linear=lambda x, w, b: x @ w.T + b,
                cross_entropy=cross_entropy,
                mse_loss=lambda x, y: xp.mean((x - y) ** 2),
                binary_cross_entropy_with_logits=with_logits,
            )
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._names, name)


def jax_transformer(jax: Any, heads: int, eps: float, x: Any, y: Any) -> Any:
    """Return the loss of `Transformer` as a function of its leaves."""
    xp = jax.numpy

    def norm(x: Any, w: Any, b: Any) -> Any:
        return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + eps) * w + b

    def loss(*leaves: Any) -> Any:
        n1w, n1b, qkv_w, qkv_b, out_w, out_b, n2w, n2b, up_w, up_b, down_w, down_b = leaves
        batch, length, width = x.shape
        h = norm(x, n1w, n1b) @ qkv_w.T + qkv_b
        q, k, v = h.reshape(batch, length, 3, heads, -1).transpose(2, 0, 3, 1, 4)
        h = jax.nn.softmax(q @ k.mT * (width // heads) ** -0.5) @ v
        after = x + h.transpose(0, 2, 1, 3).reshape(batch, length, width) @ out_w.T + out_b
        h = norm(after, n2w, n2b) @ up_w.T + up_b
        after = after + jax.nn.gelu(h, approximate=True) @ down_w.T + down_b
        return xp.mean((after - y) ** 2)

    return loss


def jax_convolutions(jax: Any, x: Any, labels: Any) -> Any:
    """Return the loss of `Cnn` as a function of its leaves."""
    nn, lax = Names(jax).nn.functional, jax.lax

    def layer(x: Any, w: Any, b: Any) -> Any:
        y = nn.relu(lax.conv_general_dilated(x, w, (1, 1), "SAME") + b[:, None, None])
        return lax.reduce_window(y, -math.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")

    def loss(w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any) -> Any:
        h = layer(layer(x, w1, b1), w2, b2)
        return nn.cross_entropy(nn.linear(h.reshape(len(x), -1), w3, b3), labels)

    return loss


# --- numba: loops where a user of it writes loops, products where these are ---------------------------------------------


def chain(turns: int, x: Any, w: Any, b: Any) -> Any:
    """Return the gradients of `Chain`."""
    n = len(x)
    g_x, g_w, g_b = np.empty_like(x), np.zeros_like(w), np.zeros_like(b)
    saved = np.empty((turns, 3), x.dtype)
    one, more, quarter = x.dtype.type(1), x.dtype.type(1.5), x.dtype.type(0.25)
    for i in range(n):
        y = x[i]
        for t in range(turns):
            saved[t, 0] = y
            saved[t, 1] = math.tanh(y * w[i] + b[i])
            saved[t, 2] = saved[t, 1] * more
            y = -(math.sin(saved[t, 2]) - b[i]) + quarter
        g = one
        for t in range(turns - 1, -1, -1):
            g_b[i] += g
            g = -g * math.cos(saved[t, 2]) * more
            g = g - g * saved[t, 1] * saved[t, 1]
            g_b[i] += g
            g_w[i] += g * saved[t, 0]
            g = g * w[i]
        g_x[i] = g
    return g_x, g_w, g_b


def elementwise(x: Any) -> Any:
    """Return the gradient of `Elementwise`, and with it the value."""
    found = np.empty_like(x)
    total = 0.0
    half, one, two, quarter, more = np.float32(0.5), np.float32(1), np.float32(2), np.float32(0.25), np.float32(1.5)
    for i in range(len(x)):
        v = x[i]
        t1 = math.tanh(v * more)
        inside = t1 + v
        s = math.sin(inside)
        e = math.exp(s * v - half) * quarter
        t2 = math.tanh(e + v)
        square = t2 * t2
        total += math.sin(square)
        g = math.cos(square) * two * t2 * (one - square)
        g_x = g
        g = g * e
        g_x += g * s
        g = g * v * math.cos(inside)
        g_x += g
        found[i] = g_x + g * (more - more * t1 * t1)
    return found, total


def logistic(w: Any, x: Any, y: Any) -> Any:
    """Return the gradient of `Logistic`, and with it the value."""
    z = x @ w
    total = 0.0
    one, rows = np.float32(1), np.float32(len(y))
    for i in range(len(y)):
        e = math.exp(-abs(z[i]))
        total += max(z[i], np.float32(0)) - z[i] * y[i] + math.log1p(e)
        z[i] = ((e if z[i] < 0 else one) / (one + e) - y[i]) / rows
    return z @ x, total / len(y)


def hessian_product(x: Any, v: Any) -> Any:
    """Return `HessianProduct`'s."""
    found = np.zeros_like(x)
    a, b, two = x.dtype.type(400), x.dtype.type(200), x.dtype.type(2)
    for i in range(len(x) - 1):
        along = v[i + 1] - two * x[i] * v[i]
        found[i] += two * v[i] - a * (v[i] * (x[i + 1] - x[i] * x[i]) + x[i] * along)
        found[i + 1] += b * along
    return (found,)


def hessian(x: Any) -> Any:
    """Return `Hessian`'s."""
    n = len(x)
    found = np.zeros((n, n))
    for i in range(n - 1):
        found[i, i] += 2 - 400 * (x[i + 1] - 3 * x[i] * x[i])
        found[i + 1, i + 1] += 200
        found[i, i + 1] = found[i + 1, i] = -400 * x[i]
    return (found,)


def jacobian(x: Any, w: Any) -> Any:
    """Return `Jacobian`'s."""
    y = np.tanh(w @ x)
    found = np.empty_like(w)
    for i in range(len(y)):
        for j in range(len(x)):
            found[i, j] = (1 - y[i] * y[i]) * w[i, j]
    return (found,)


def runge_kutta(steps: int, dt: float, rates: Any, start: Any) -> Any:
    """Return the gradients of `RungeKutta`."""
    a, b, c, d = rates
    tape = np.empty((steps, 4, 2))
    k = np.empty((4, 2))
    weights = np.array([0.0, dt / 2, dt / 2, dt])
    x, y = start
    for t in range(steps):
        for stage in range(4):
            u = x if stage == 0 else x + k[stage - 1, 0] * weights[stage]
            v = y if stage == 0 else y + k[stage - 1, 1] * weights[stage]
            tape[t, stage, 0], tape[t, stage, 1] = u, v
            k[stage, 0], k[stage, 1] = a * u - b * u * v, d * u * v - c * v
        x += (k[0, 0] + k[1, 0] * 2.0 + k[2, 0] * 2.0 + k[3, 0]) * (dt / 6)
        y += (k[0, 1] + k[1, 1] * 2.0 + k[2, 1] * 2.0 + k[3, 1]) * (dt / 6)
    found = np.zeros(4)
    g, h = 2 * x, 2 * y
    shares = np.array([1.0, 2.0, 2.0, 1.0])
    for t in range(steps - 1, -1, -1):
        total_g, total_h, last_g, last_h = g, h, 0.0, 0.0
        for stage in range(3, -1, -1):
            more = weights[stage + 1] if stage < 3 else 0.0
            p = g * (dt / 6) * shares[stage] + last_g * more
            q = h * (dt / 6) * shares[stage] + last_h * more
            u, v = tape[t, stage]
            found[0] += p * u
            found[1] -= p * u * v
            found[2] -= q * v
            found[3] += q * u * v
            both = q * d - p * b
            last_g, last_h = p * a + both * v, both * u - q * c
            total_g += last_g
            total_h += last_h
        g, h = total_g, total_h
    return found, np.array([g, h])


def kalman(moves: Any, sees: Any, seen: Any, x: Any, p: Any, q: Any, r: Any) -> Any:
    """Return the gradients of `Kalman`, and with them the value."""
    steps, n, m = len(seen), len(x), len(r)
    xs, ps = np.empty((steps, n)), np.empty((steps, n, n))
    x_new, p_new = np.empty((steps, n)), np.empty((steps, n, n))
    x, p = x.copy(), p.copy()  # of the layout that they have later
    es, crosses, zs = np.empty((steps, m)), np.empty((steps, n, m)), np.empty((steps, m))
    inverses, gains = np.empty((steps, m, m)), np.empty((steps, n, m))
    total = 0.0
    for t in range(steps):
        xs[t], ps[t] = x, p
        x_new[t], p_new[t] = moves @ x, moves @ p @ moves.T + q
        es[t] = seen[t] - sees @ x_new[t]
        crosses[t] = p_new[t] @ sees.T
        s = sees @ crosses[t] + r
        factor, inverse = np.linalg.cholesky(s), np.linalg.inv(s)
        inverses[t], gains[t], zs[t] = inverse, crosses[t] @ inverse, inverse @ es[t]
        total += 0.5 * (es[t] @ zs[t])
        for i in range(m):
            total += math.log(factor[i, i])
        x, p = x_new[t] + gains[t] @ es[t], p_new[t] - gains[t] @ crosses[t].T
    g_moves, g_sees = np.zeros((n, n)), np.zeros((m, n))
    g_x, g_p = np.zeros(n), np.zeros((n, n))
    for t in range(steps - 1, -1, -1):
        inverse, gain, z = inverses[t], gains[t], zs[t]
        g_e, g_new = gain.T @ g_x + z, g_p.copy()
        g_gain = np.outer(g_x, es[t]) - g_p @ crosses[t]
        g_s = 0.5 * inverse - 0.5 * np.outer(z, z) - gain.T @ g_gain @ inverse
        g_sees += g_s @ crosses[t].T - np.outer(g_e, x_new[t])
        g_cross = g_gain @ inverse - g_p.T @ gain + sees.T @ g_s
        g_new += g_cross @ sees
        g_sees += g_cross.T @ p_new[t]
        g_x = g_x - sees.T @ g_e
        g_moves += g_new @ moves @ ps[t].T + g_new.T @ moves @ ps[t] + np.outer(g_x, xs[t])
        g_p, g_x = moves.T @ g_new @ moves, moves.T @ g_x
    return g_moves, g_sees, total


def rnn(w: Any, u: Any, b: Any, v: Any, x: Any, y: Any, h: Any) -> Any:
    """Return the gradients of `Rnn`."""
    steps, batch, hidden = len(x), len(h), h.shape[1]
    states = np.empty((steps + 1, batch, hidden), x.dtype)
    states[0] = h
    for t in range(steps):
        states[t + 1] = np.tanh(x[t] @ w + states[t] @ u + b)
    r = np.empty_like(y)
    g_v = np.zeros_like(v)
    for t in range(steps):
        r[t] = (states[t + 1] @ v - y[t]) * np.float32(2 / y.size)
        g_v += states[t + 1].T @ r[t]
    g_w, g_u, g_b = np.zeros_like(w), np.zeros_like(u), np.zeros_like(b)
    g_h = np.zeros_like(h)
    for t in range(steps - 1, -1, -1):
        state = states[t + 1]
        g = (np.float32(1) - state * state) * (g_h + r[t] @ v.T)
        g_w += x[t].T @ g
        g_u += states[t].T @ g
        g_b += g.sum(axis=0)
        g_h = g @ u.T
    return g_w, g_u, g_b, g_v
