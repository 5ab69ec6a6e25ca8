"""The benchmarks' computations: the same program for every library, with its gradients by hand in plain NumPy."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import peers

Step = Callable[[], Sequence[Any]]


class Program:
    """A computation on NumPy arrays ``leaves``, with its gradients by tensor library, by HIPS and by hand.

    Values that are not differentiated are in ``constants``; `forward` finds them, in the library's form, in ``inputs``.
    """

    leaves: list[np.ndarray]
    constants: Sequence[np.ndarray] = ()
    settings: Sequence[Any] = ()  # numbers that the forms for numba take first
    terms: Sequence[float] = ()  # of gradients that cancel, the sums of their terms' sizes
    unroll: bool | None = (
        None  # of a program that is a loop: whether JAX's form writes it out, in place of ``lax.scan``
    )

    def forward(self, xp: Any, *leaves: Any) -> Any:
        """Return the scalar to differentiate; `xp` is agrad, torch or ``autograd.numpy``."""
        raise NotImplementedError

    def by_hand(self) -> Sequence[np.ndarray]:
        """Compute the value and return the gradients, in plain NumPy."""
        raise NotImplementedError

    def step(self, peer: str, lib: Any) -> Step:
        """Return the function to time for one library; it returns the gradients."""
        if peer == "NumPy":
            return self.by_hand
        forms = {"HIPS": self.hips, "torch-compile": self.torch_compile, "jax": self.jax, "numba": self.numba}
        return forms.get(peer, self.tensors)(lib)

    def tensors(self, lib: Any) -> Step:
        """Return forward and backward in PyTorch's form; gradients do not outlive the step."""
        self.inputs = [lib.asarray(array) for array in self.constants]
        leaves = [leaf(lib, array) for array in self.leaves]
        forward = self.forward

        def step() -> list[Any]:
            forward(lib, *leaves).backward()
            gradients = [x.grad for x in leaves]
            for x in leaves:
                x.grad = None
            return gradients

        return step

    def torch_compile(self, torch: Any) -> Step:
        """Return forward and backward in PyTorch's form, the loss through ``torch.compile``."""
        self.forward = torch.compile(self.forward)  # type: ignore[method-assign]
        return self.tensors(torch)

    def hips(self, autograd: Any) -> Step:
        """Return forward and backward in HIPS autograd's form."""

        def function(*leaves: Any) -> Any:
            return self.forward(autograd.numpy, *leaves)

        gradient = autograd.grad(function, tuple(range(len(self.leaves))))
        return lambda: gradient(*self.leaves)

    def jax(self, jax: Any) -> Step:
        """Return forward and backward in JAX's way, compiled."""
        leaves = self._in_jax(jax)
        gradient = jax.jit(jax.grad(self._function(jax), tuple(range(len(leaves)))))
        return lambda: jax.block_until_ready(gradient(*leaves))

    def _scan(self, jax: Any, body: Callable[[Any, Any], Any], init: Any, rows: Any, length: int | None = None) -> Any:
        """Call ``lax.scan``, or unroll it."""
        return jax.lax.scan(body, init, rows, length, unroll=bool(self.unroll))

    def _in_jax(self, jax: Any) -> list[Any]:
        """Put the constants among the inputs, and return the leaves, as JAX's arrays of their dtypes."""
        jax.config.update("jax_enable_x64", any(array.dtype == np.float64 for array in self.leaves))
        self.inputs, leaves = (list(map(jax.numpy.asarray, arrays)) for arrays in (self.constants, self.leaves))
        return leaves

    def _function(self, jax: Any) -> Callable[..., Any]:
        names = peers.Names(jax)
        return lambda *leaves: self.forward(names, *leaves)

    def numba(self, numba: Any) -> Step:
        """Return forward and backward by hand, in the loops that numba compiles."""
        name = {"HessianProduct": "hessian_product", "RungeKutta": "runge_kutta"}.get(type(self).__name__)
        function = getattr(peers, name or type(self).__name__.lower(), None)
        if function is None:
            raise NotImplementedError("there is no form for numba")
        compiled = numba.njit(function, cache=True)
        given = (*self.settings, *self.leaves, *self.constants)
        return lambda: compiled(*given)[: len(self.leaves)]


def leaf(lib: Any, array: np.ndarray) -> Any:
    """Return a leaf of agrad or torch that holds a copy of `array` and requires a gradient."""
    return lib.tensor(array, dtype=getattr(lib, array.dtype.name), requires_grad=True)


class Chain(Program):
    """Tiny ops one after another, eight kinds in turn.

    With these values a turn multiplies the gradient by about -0.99, so that it neither vanishes nor explodes; what the
    turns add to the gradients of w, of some 0.1, and of b, of some 1, cancels.
    """

    ops_per_turn = 8
    unroll = False

    def __init__(self, ops: int, shape: tuple[int, ...] = (4,), dtype: str = "float64") -> None:
        self.turns = ops // self.ops_per_turn
        self.terms = (0.0, 0.1 * self.turns, self.turns)
        spread = np.linspace(-0.004, 0.004, int(np.prod(shape)), dtype=dtype).reshape(shape)
        self.leaves = [0.15 + spread, 0.66 + spread, -0.1 - spread]

    def forward(self, xp: Any, x: Any, w: Any, b: Any) -> Any:
        y = x
        for _ in range(self.turns):
            y = self._turned(xp, y, w, b)
        return xp.sum(y)

    def _turned(self, xp: Any, y: Any, w: Any, b: Any) -> Any:
        y = y * w
        y = y + b
        y = xp.tanh(y)
        y = y * 1.5
        y = xp.sin(y)
        y = y - b
        y = -y
        return y + 0.25

    def _function(self, jax: Any) -> Callable[..., Any]:
        def function(x: Any, w: Any, b: Any) -> Any:
            y, _ = self._scan(jax, lambda y, _: (self._turned(jax.numpy, y, w, b), None), x, None, self.turns)
            return jax.numpy.sum(y)

        return function

    def numba(self, numba: Any) -> Step:
        """Return the loops that numba compiles, on arrays of one axis."""
        compiled = numba.njit(peers.chain, cache=True)
        flat, shape = [array.reshape(-1) for array in self.leaves], self.leaves[0].shape
        return lambda: [g.reshape(shape) for g in compiled(self.turns, *flat)]

    def by_hand(self) -> Sequence[np.ndarray]:
        tanh, sin, cos = np.tanh, np.sin, np.cos
        x, w, b = self.leaves
        saved = []
        y = x
        for _ in range(self.turns):
            y_in = y
            tanh_out = tanh(y * w + b)
            sin_in = tanh_out * 1.5
            y = -(sin(sin_in) - b) + 0.25
            saved.append((y_in, tanh_out, sin_in))
        y.sum()
        g = np.ones_like(y)
        g_w, g_b = np.zeros_like(w), np.zeros_like(b)
        while saved:
            y_in, tanh_out, sin_in = saved.pop()
            g_b += g  # of y - b, under the minus sign
            g = -g * cos(sin_in) * 1.5
            g = g - g * tanh_out * tanh_out
            g_b += g
            g_w += g * y_in
            g = g * w
        return g, g_w, g_b


class RungeKutta(Program):
    """Predator and prey over time, by the classical method of fourth order: arrays of two elements."""

    unroll = False

    def __init__(self, steps: int, dt: float = 0.05) -> None:
        self.steps, self.dt = self.settings = steps, dt
        self.leaves = [np.array([1.1, 0.4, 0.4, 0.1]), np.array([1.0, 0.8])]

    def forward(self, xp: Any, rates: Any, start: Any) -> Any:
        u = start
        for _ in range(self.steps):
            u = self._moved(xp, rates, u)
        return xp.sum(u * u)

    def _moved(self, xp: Any, rates: Any, u: Any) -> Any:
        dt = self.dt

        def slope(u: Any) -> Any:
            x, y = u[0], u[1]
            return xp.stack([rates[0] * x - rates[1] * x * y, rates[3] * x * y - rates[2] * y])

        k1 = slope(u)
        k2 = slope(u + k1 * (dt / 2))
        k3 = slope(u + k2 * (dt / 2))
        k4 = slope(u + k3 * dt)
        return u + (k1 + k2 * 2.0 + k3 * 2.0 + k4) * (dt / 6)

    def _function(self, jax: Any) -> Callable[..., Any]:
        def function(rates: Any, start: Any) -> Any:
            last, _ = self._scan(jax, lambda u, _: (self._moved(jax.numpy, rates, u), None), start, None, self.steps)
            return jax.numpy.sum(last * last)

        return function

    def by_hand(self) -> Sequence[np.ndarray]:
        rates, u = self.leaves
        dt = self.dt
        g_rates = np.zeros(4)

        def slope(u: np.ndarray) -> np.ndarray:
            x, y = u
            return np.array((rates[0] * x - rates[1] * x * y, rates[3] * x * y - rates[2] * y))

        def adjoint(u: np.ndarray, g: np.ndarray) -> np.ndarray:
            (x, y), (a, b) = u, g
            g_rates[:] += (a * x, -a * x * y, -b * y, b * x * y)
            both = b * rates[3] - a * rates[1]
            return np.array((a * rates[0] + both * y, both * x - b * rates[2]))

        tape = []
        for _ in range(self.steps):
            k1 = slope(u)
            u2 = u + k1 * (dt / 2)
            k2 = slope(u2)
            u3 = u + k2 * (dt / 2)
            k3 = slope(u3)
            u4 = u + k3 * dt
            tape.append((u, u2, u3, u4))
            u = u + (k1 + k2 * 2.0 + k3 * 2.0 + slope(u4)) * (dt / 6)
        np.sum(u * u)
        g = 2.0 * u
        for u1, u2, u3, u4 in reversed(tape):
            part = g * (dt / 6)
            g4 = adjoint(u4, part)
            g3 = adjoint(u3, 2.0 * part + g4 * dt)
            g2 = adjoint(u2, 2.0 * part + g3 * (dt / 2))
            g = g + g4 + g3 + g2 + adjoint(u1, part + g2 * (dt / 2))
        return g_rates, g


class Kalman(Program):
    """The likelihood of a linear model of four states and two observations, by its filter: matrices of four rows."""

    unroll = False

    def __init__(self, steps: int) -> None:
        rng = np.random.default_rng(0)
        moves = np.eye(4) + 0.05 * rng.standard_normal((4, 4))
        moves *= 0.9 / np.abs(np.linalg.eigvals(moves)).max()
        self.leaves = [moves, rng.standard_normal((2, 4))]
        self.constants = [rng.standard_normal((steps, 2)), np.zeros(4), np.eye(4), 0.1 * np.eye(4), 0.2 * np.eye(2)]

    def forward(self, xp: Any, moves: Any, sees: Any) -> Any:
        seen, x, p, q, r = self.inputs
        total = 0.0
        for t in range(len(self.constants[0])):
            x, p, more = self._filtered(xp, moves, sees, (x, p), seen[t], q, r)
            total = total + more
        return total

    def _filtered(self, xp: Any, moves: Any, sees: Any, state: Any, row: Any, q: Any, r: Any) -> tuple[Any, Any, Any]:
        x, p = state
        x, p = moves @ x, moves @ p @ moves.T + q
        e, cross = row - sees @ x, p @ sees.T
        s = sees @ cross + r
        gain = xp.linalg.solve(s, cross.T).T
        total = xp.sum(e * xp.linalg.solve(s, e)) * 0.5
        total = total + xp.sum(xp.log(xp.linalg.diagonal(xp.linalg.cholesky(s))))
        return x + gain @ e, p - gain @ cross.T, total

    def _function(self, jax: Any) -> Callable[..., Any]:
        seen, x, p, q, r = self.inputs

        def function(moves: Any, sees: Any) -> Any:
            def one(state: Any, row: Any) -> Any:
                *state, more = self._filtered(jax.numpy, moves, sees, state, row, q, r)
                return tuple(state), more

            return self._scan(jax, one, (x, p), seen)[1].sum()

        return function

    def by_hand(self) -> Sequence[np.ndarray]:
        moves, sees = self.leaves
        seen, x, p, q, r = self.constants
        total, tape = 0.0, []
        for row in seen:
            x_new, p_new = moves @ x, moves @ p @ moves.T + q
            e, cross = row - sees @ x_new, p_new @ sees.T
            s = sees @ cross + r
            factor, inverse = np.linalg.cholesky(s), np.linalg.inv(s)
            gain, z = cross @ inverse, inverse @ e
            total += 0.5 * (e @ z) + np.log(np.diagonal(factor)).sum()
            tape.append((x, p, x_new, p_new, e, cross, inverse, gain, z))
            x, p = x_new + gain @ e, p_new - gain @ cross.T
        g_moves, g_sees = np.zeros((4, 4)), np.zeros((2, 4))
        g_x, g_p = np.zeros(4), np.zeros((4, 4))
        for x, p, x_new, p_new, e, cross, inverse, gain, z in reversed(tape):
            g_e, g_new = gain.T @ g_x + z, g_p.copy()
            g_gain = np.outer(g_x, e) - g_p @ cross
            g_s = 0.5 * inverse - 0.5 * np.outer(z, z) - gain.T @ g_gain @ inverse
            g_sees += g_s @ cross.T - np.outer(g_e, x_new)
            g_cross = g_gain @ inverse - g_p.T @ gain + sees.T @ g_s
            g_new += g_cross @ sees
            g_sees += g_cross.T @ p_new
            g_x = g_x - sees.T @ g_e
            g_moves += g_new @ moves @ p.T + g_new.T @ moves @ p + np.outer(g_x, x)
            g_p, g_x = moves.T @ g_new @ moves, moves.T @ g_x
        return g_moves, g_sees


class Adds(Program):
    """``y = y + a`` over and over."""

    def __init__(self, ops: int) -> None:
        self.ops = ops
        self.leaves = [np.array([0.5]), np.array([1e-3])]

    def forward(self, xp: Any, x: Any, a: Any) -> Any:
        y = x
        for _ in range(self.ops):
            y = y + a
        return xp.sum(y)

    def by_hand(self) -> Sequence[np.ndarray]:
        y, a = self.leaves
        for _ in range(self.ops):
            y = y + a
        y.sum()
        g = np.ones_like(y)
        g_a = np.zeros_like(a)
        for _ in range(self.ops):
            g_a += g
        return g, g_a


class Shifts(Program):
    """``y = y + 0.001`` over and over: the mere chain, without a second gradient to add up."""

    def __init__(self, ops: int) -> None:
        self.ops = ops
        self.leaves = [np.array([0.5])]

    def forward(self, xp: Any, x: Any) -> Any:
        y = x
        for _ in range(self.ops):
            y = y + 0.001
        return xp.sum(y)

    def by_hand(self) -> Sequence[np.ndarray]:
        (y,) = self.leaves
        step = np.array(0.001)
        for _ in range(self.ops):
            y = y + step
        y.sum()
        return (np.ones_like(y),)


class Leaves(Program):
    """Many small leaves added up one by one."""

    unroll = False

    def __init__(self, count: int, shape: tuple[int, ...] = (4,)) -> None:
        self.leaves = list(np.random.default_rng(0).standard_normal((count, *shape)))

    def forward(self, xp: Any, *leaves: Any) -> Any:
        s = leaves[0]
        for x in leaves[1:]:
            s = s + x
        return xp.sum(s)

    def _function(self, jax: Any) -> Callable[..., Any]:
        if self.unroll:
            return super()._function(jax)

        def function(*leaves: Any) -> Any:
            rows = jax.numpy.stack(leaves)
            s, _ = self._scan(jax, lambda s, x: (s + x, None), rows[0], rows[1:])
            return jax.numpy.sum(s)

        return function

    def by_hand(self) -> Sequence[np.ndarray]:
        s = self.leaves[0]
        for x in self.leaves[1:]:
            s = s + x
        s.sum()
        g = np.ones_like(s)
        return [g.copy() for _ in self.leaves]


class Elementwise(Program):
    """Twelve elementwise ops on one large float32 array."""

    def __init__(self, size: int) -> None:
        self.leaves = [np.random.default_rng(0).uniform(-1.0, 1.0, size).astype(np.float32)]

    def forward(self, xp: Any, x: Any) -> Any:
        y = x * 1.5
        y = xp.tanh(y)
        y = y + x
        y = xp.sin(y)
        y = y * x
        y = y - 0.5
        y = xp.exp(y)
        y = y * 0.25
        y = y + x
        y = xp.tanh(y)
        y = y * y
        y = xp.sin(y)
        return xp.sum(y)

    def by_hand(self) -> Sequence[np.ndarray]:
        (x,) = self.leaves
        # Forward. Names say which value is kept; a buffer no longer needed is reused for the next result.
        tanh_1 = x * 1.5
        np.tanh(tanh_1, out=tanh_1)
        sin_in = tanh_1 + x
        sin_out = np.sin(sin_in)
        exp_out = sin_out * x
        exp_out -= 0.5
        np.exp(exp_out, out=exp_out)
        exp_out *= 0.25  # times 0.25, which its own derivative shares
        tanh_2 = exp_out + x
        np.tanh(tanh_2, out=tanh_2)
        square = tanh_2 * tanh_2
        work = np.sin(square)
        work.sum()
        # Backward.
        g = np.cos(square, out=work)
        g *= 2.0
        g *= tanh_2
        np.subtract(1.0, square, out=square)
        g *= square
        g_x = g.copy()
        g *= exp_out
        sin_out *= g
        g_x += sin_out
        g *= x
        g *= np.cos(sin_in, out=sin_in)
        g_x += g
        tanh_1 *= tanh_1
        np.subtract(1.5, np.multiply(tanh_1, 1.5, out=tanh_1), out=tanh_1)
        g *= tanh_1
        g_x += g
        return (g_x,)


class Mlp(Program):
    """Multilayer perceptron with relu and cross entropy, float32, PyTorch's weight layout (out, in)."""

    def __init__(self, batch: int, widths: tuple[int, ...] = (784, 256, 128, 10)) -> None:
        rng = np.random.default_rng(0)
        self.x = rng.standard_normal((batch, widths[0])).astype(np.float32)
        self.labels = rng.integers(0, widths[-1], batch)
        self.constants = self.x, self.labels
        self.leaves = []
        for fan_in, fan_out in itertools.pairwise(widths):
            self.leaves.append((rng.standard_normal((fan_out, fan_in)) / np.sqrt(fan_in)).astype(np.float32))
            self.leaves.append((0.1 * rng.standard_normal(fan_out)).astype(np.float32))

    def forward(self, xp: Any, *leaves: Any) -> Any:
        x, labels = self.inputs
        nn = xp.nn.functional
        w1, b1, w2, b2, w3, b3 = leaves
        h = nn.relu(nn.linear(x, w1, b1))
        h = nn.relu(nn.linear(h, w2, b2))
        return nn.cross_entropy(nn.linear(h, w3, b3), labels)

    def hips(self, autograd: Any) -> Step:
        xp = autograd.numpy
        rows = np.arange(len(self.labels))

        def loss(*leaves: Any) -> Any:
            w1, b1, w2, b2, w3, b3 = leaves
            # x * (x > 0), because the derivative of HIPS's maximum turns float32 into float64.
            h = xp.dot(self.x, w1.T) + b1
            h = h * (h > 0)
            h = xp.dot(h, w2.T) + b2
            h = h * (h > 0)
            logits = xp.dot(h, w3.T) + b3
            logits = logits - xp.max(logits, axis=1, keepdims=True)
            log_sum = xp.log(xp.sum(xp.exp(logits), axis=1))
            return xp.mean(log_sum - logits[rows, self.labels])

        gradient = autograd.grad(loss, tuple(range(len(self.leaves))))
        return lambda: gradient(*self.leaves)

    def by_hand(self) -> Sequence[np.ndarray]:
        x, labels = self.x, self.labels
        w1, b1, w2, b2, w3, b3 = self.leaves
        rows = np.arange(len(labels))
        h1 = x @ w1.T
        h1 += b1
        np.maximum(h1, 0.0, out=h1)
        h2 = h1 @ w2.T
        h2 += b2
        np.maximum(h2, 0.0, out=h2)
        logits = h2 @ w3.T
        logits += b3
        logits -= logits.max(axis=1, keepdims=True)
        p = np.exp(logits)
        total = p.sum(axis=1, keepdims=True)
        (np.log(total[:, 0]) - logits[rows, labels]).mean()
        p /= total
        p[rows, labels] -= 1.0
        p /= len(labels)
        g2 = p @ w3
        g2 *= h2 > 0
        g1 = g2 @ w2
        g1 *= h1 > 0
        return g1.T @ x, g1.sum(axis=0), g2.T @ h1, g2.sum(axis=0), p.T @ h2, p.sum(axis=0)


class PlainMlp(Mlp):
    """The same perceptron, written in plain operations."""

    def __init__(self, batch: int, widths: tuple[int, ...] = (784, 256, 128, 10)) -> None:
        super().__init__(batch, widths)
        self.constants = self.x, self.labels, np.arange(batch), np.zeros((), np.float32)

    def forward(self, xp: Any, *leaves: Any) -> Any:
        x, labels, rows, zero = self.inputs
        w1, b1, w2, b2, w3, b3 = leaves
        h = xp.maximum(x @ w1.T + b1, zero)
        h = xp.maximum(h @ w2.T + b2, zero)
        logits = h @ w3.T + b3
        return (logits.logsumexp(1) - logits[rows, labels]).mean()


class Call(Program):
    """One two-operand op of equal shape without recording, called `CALLS` times; its result is used as the gradient."""

    CALLS = 5000

    def __init__(self, op: str, shape: tuple[int, ...] = (4,)) -> None:
        self.op = op
        self.leaves = list(np.random.default_rng(0).standard_normal((2, *shape)))

    def step(self, peer: str, lib: Any) -> Step:
        if peer in ("HIPS", "NumPy"):
            return self.repeated(lib.numpy if peer == "HIPS" else lib, *self.leaves)
        recorded = self.repeated(lib, *(leaf(lib, array) for array in self.leaves))

        def step() -> Sequence[Any]:
            with lib.no_grad():
                return recorded()

        return step

    def repeated(self, xp: Any, a: Any, b: Any) -> Step:
        """Return the loop over the calls; the operator is in the loop itself, as in a user's program."""
        calls = self.CALLS

        def operators() -> Sequence[Any]:
            for _ in itertools.repeat(None, calls):
                a * b
            return (a * b,)

        if self.op == "*":
            return operators
        function = getattr(xp, self.op)

        def functions() -> Sequence[Any]:
            for _ in itertools.repeat(None, calls):
                function(a, b)
            return (function(a, b),)

        return functions


class Descent(Program):
    """Steps of gradient descent by a program's gradients: a step returns these, and the leaves after it.

    Parameters
    ----------
    program : Program
        Gives the loss.
    optimizer : bool, optional
        Whether the library's own optimizer updates the leaves; otherwise the update is written out.
    """

    rate = 1e-3

    def __init__(self, program: Program, *, optimizer: bool = True) -> None:
        self.program, self.optimizer = program, optimizer
        self.leaves = program.leaves

    def tensors(self, lib: Any) -> Step:
        program = self.program
        program.inputs = [lib.asarray(array) for array in program.constants]
        leaves = [leaf(lib, array) for array in self.leaves]
        forward, rate = program.forward, self.rate

        def written_out() -> list[Any]:
            forward(lib, *leaves).backward()
            gradients = [w.grad for w in leaves]
            with lib.no_grad():
                for w in leaves:
                    w -= rate * w.grad  # noqa: PLW2901 (in place)
                    w.grad = None
            return [*gradients, *leaves]

        if not self.optimizer:
            return written_out
        optimizer = lib.optim.SGD(leaves, lr=rate)

        def step() -> list[Any]:
            optimizer.zero_grad()
            forward(lib, *leaves).backward()
            optimizer.step()
            return [*(w.grad for w in leaves), *leaves]

        return step

    def torch_compile(self, torch: Any) -> Step:
        """Return the step with the program's loss through ``torch.compile``."""
        self.program.forward = torch.compile(self.program.forward)  # type: ignore[method-assign]
        return self.tensors(torch)

    def jax(self, jax: Any) -> Step:
        """Return gradients and the leaves after a step, compiled as one."""
        leaves = self.program._in_jax(jax)
        gradient = jax.grad(self.program._function(jax), tuple(range(len(leaves))))

        @jax.jit  # type: ignore[untyped-decorator]
        def moved(*leaves: Any) -> tuple[Any, Any]:
            gradients = gradient(*leaves)
            return gradients, tuple(w - self.rate * g for w, g in zip(leaves, gradients, strict=True))

        def step() -> Sequence[Any]:
            nonlocal leaves
            gradients, leaves = jax.block_until_ready(moved(*leaves))
            return [*gradients, *leaves]

        return step

    def by_hand(self) -> Sequence[np.ndarray]:
        gradients = self.program.by_hand()
        for w, g in zip(self.leaves, gradients, strict=True):
            w -= self.rate * g  # noqa: PLW2901 (in place)
        return [*gradients, *self.leaves]


class Logistic(Program):
    """Logistic regression on rows of data, float32."""

    def __init__(self, rows: int, columns: int) -> None:
        rng = np.random.default_rng(0)
        x = rng.standard_normal((rows, columns), dtype=np.float32)
        self.leaves = [rng.standard_normal(columns, dtype=np.float32) / np.float32(np.sqrt(columns))]
        noise = rng.standard_normal(rows, dtype=np.float32)
        self.constants = x, (x @ self.leaves[0] + noise > 0).astype(np.float32)

    def forward(self, xp: Any, w: Any) -> Any:
        x, y = self.inputs
        return xp.nn.functional.binary_cross_entropy_with_logits(x @ w, y)

    def by_hand(self) -> Sequence[np.ndarray]:
        x, y = self.constants
        (w,) = self.leaves
        z = x @ w
        e = np.exp(-np.abs(z))
        (np.maximum(z, 0) - z * y + np.log1p(e)).mean()
        p = np.where(z < 0, e, np.float32(1)) / (1 + e)
        p -= y
        p /= np.float32(len(y))
        return (p @ x,)


class LeastSquares(Program):
    """Linear regression on rows of data, float32."""

    def __init__(self, rows: int, columns: int) -> None:
        rng = np.random.default_rng(0)
        x = rng.standard_normal((rows, columns), dtype=np.float32)
        self.leaves = [rng.standard_normal(columns, dtype=np.float32) / np.float32(np.sqrt(columns))]
        self.constants = x, x @ self.leaves[0] + rng.standard_normal(rows, dtype=np.float32)

    def forward(self, xp: Any, w: Any) -> Any:
        x, y = self.inputs
        return xp.nn.functional.mse_loss(x @ w, y)

    def by_hand(self) -> Sequence[np.ndarray]:
        x, y = self.constants
        (w,) = self.leaves
        r = x @ w
        r -= y
        np.dot(r, r) / len(r)
        r *= np.float32(2 / len(r))
        return (r @ x,)


class Rnn(Program):
    """A plain recurrent network over a sequence, and the squared error of a linear output at every step, float32."""

    unroll = False

    def __init__(self, steps: int, batch: int = 16, width: int = 32, hidden: int = 64) -> None:
        rng = np.random.default_rng(0)

        def normal(*shape: int) -> np.ndarray:
            return (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)

        self.leaves = [normal(width, hidden), normal(hidden, hidden), 0.1 * normal(hidden), normal(hidden, 1)]
        x = rng.standard_normal((steps, batch, width)).astype(np.float32)
        y = rng.standard_normal((steps, batch, 1)).astype(np.float32)
        self.constants = x, y, np.zeros((batch, hidden), np.float32)

    def forward(self, xp: Any, w: Any, u: Any, b: Any, v: Any) -> Any:
        x, y, h = self.inputs
        states = []
        for x_t in x.unbind(0):
            h = xp.tanh(x_t @ w + h @ u + b)
            states.append(h)
        return xp.nn.functional.mse_loss(xp.stack(states) @ v, y)

    def _function(self, jax: Any) -> Callable[..., Any]:
        x, y, zeros = self.inputs

        def function(w: Any, u: Any, b: Any, v: Any) -> Any:
            def one(h: Any, x_t: Any) -> Any:
                h = jax.numpy.tanh(x_t @ w + h @ u + b)
                return h, h

            return jax.numpy.mean((self._scan(jax, one, zeros, x)[1] @ v - y) ** 2)

        return function

    def by_hand(self) -> Sequence[np.ndarray]:
        x, y, h = self.constants
        w, u, b, v = self.leaves
        states = [h]
        for x_t in x:
            h = x_t @ w
            h += states[-1] @ u
            h += b
            np.tanh(h, out=h)
            states.append(h)
        stacked = np.stack(states[1:])
        r = stacked @ v
        r -= y
        np.mean(r * r)
        r *= np.float32(2 / r.size)
        g_v = np.tensordot(stacked, r, ((0, 1), (0, 1)))
        g_w, g_u, g_b = np.zeros_like(w), np.zeros_like(u), np.zeros_like(b)
        g_states = r @ v.T
        g_h = np.zeros_like(h)
        for t in reversed(range(len(x))):
            h = states[t + 1]
            g_h += g_states[t]
            g = h * h
            np.subtract(1, g, out=g)
            g *= g_h
            g_w += x[t].T @ g
            g_u += states[t].T @ g
            g_b += g.sum(axis=0)
            g_h = g @ u.T
        return g_w, g_u, g_b, g_v


class Lstm(Program):
    """A long short-term memory over a sequence, and the mean square of its states, float32; its gates are written out, except for PyTorch."""

    unroll = False

    def __init__(self, steps: int, batch: int = 16, width: int = 32, hidden: int = 64) -> None:
        rng = np.random.default_rng(0)

        def normal(*shape: int) -> np.ndarray:
            return (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)

        self.leaves = [normal(width, 4 * hidden), normal(hidden, 4 * hidden), 0.1 * normal(4 * hidden)]
        x = rng.standard_normal((steps, batch, width)).astype(np.float32)
        self.constants = x, np.zeros((batch, hidden), np.float32)

    def _cell(self, xp: Any, sigmoid: Any, gates: Any, c: Any) -> tuple[Any, Any]:
        n = c.shape[1]
        c = sigmoid(gates[:, n : 2 * n]) * c + sigmoid(gates[:, :n]) * xp.tanh(gates[:, 2 * n : 3 * n])
        return sigmoid(gates[:, 3 * n :]) * xp.tanh(c), c

    def forward(self, xp: Any, w: Any, u: Any, b: Any) -> Any:
        x, h = self.inputs
        if xp.__name__ == "torch":  # its own loop, in C++
            given = w.T, u.T, b, xp.zeros_like(b)
            states = xp.lstm(x, (h[None], h[None]), given, True, 1, 0.0, False, False, False)[0]
            return xp.sum(xp.mean(states * states, dim=(1, 2)))
        return self._written_out(xp, w, u, b)

    def _written_out(self, xp: Any, w: Any, u: Any, b: Any) -> Any:
        x, h = self.inputs
        c, total = h, 0.0
        for x_t in x.unbind(0):
            h, c = self._cell(xp, xp.sigmoid, x_t @ w + h @ u + b, c)
            total = total + xp.mean(h * h)
        return total

    def torch_compile(self, torch: Any) -> Step:
        """Return the step with the written-out loss compiled: ``torch.lstm`` cannot be."""
        self.forward = torch.compile(self._written_out)  # type: ignore[method-assign]
        return self.tensors(torch)

    def _function(self, jax: Any) -> Callable[..., Any]:
        x, zeros = self.inputs

        def function(w: Any, u: Any, b: Any) -> Any:
            def one(state: Any, x_t: Any) -> Any:
                h, c = state
                h, c = self._cell(jax.numpy, jax.nn.sigmoid, x_t @ w + h @ u + b, c)
                return (h, c), jax.numpy.mean(h * h)

            return self._scan(jax, one, (zeros, zeros), x)[1].sum()

        return function

    def by_hand(self) -> Sequence[np.ndarray]:
        x, h = self.constants
        w, u, b = self.leaves
        n, c, tape, total = h.shape[1], h, [], np.float32(0)
        for x_t in x:
            gates = x_t @ w
            gates += h @ u
            gates += b
            act = 1 / (1 + np.exp(-gates))
            act[:, 2 * n : 3 * n] = np.tanh(gates[:, 2 * n : 3 * n])
            i, f, g, o = (act[:, k * n : (k + 1) * n] for k in range(4))
            before = h, c
            c = f * c + i * g
            t = np.tanh(c)
            h = o * t
            total += np.mean(h * h)
            tape.append((x_t, *before, i, f, g, o, t, h))
        g_w, g_u, g_b = np.zeros_like(w), np.zeros_like(u), np.zeros_like(b)
        g_h, g_c, scale = np.zeros_like(h), np.zeros_like(h), np.float32(2 / h.size)
        d = np.empty((len(h), 4 * n), np.float32)
        for x_t, h, c, i, f, g, o, t, out in reversed(tape):
            g_h = g_h + scale * out
            g_c = g_c + g_h * o * (1 - t * t)
            d[:, :n] = g_c * g * i * (1 - i)
            d[:, n : 2 * n] = g_c * c * f * (1 - f)
            d[:, 2 * n : 3 * n] = g_c * i * (1 - g * g)
            d[:, 3 * n :] = g_h * t * o * (1 - o)
            g_w += x_t.T @ d
            g_u += h.T @ d
            g_b += d.sum(axis=0)
            g_h, g_c = d @ u.T, g_c * f
        return g_w, g_u, g_b


class Transformer(Program):
    """A transformer block (attention and a two-layer network, each after a layer norm), float32."""

    eps = 1e-5

    def __init__(self, batch: int = 8, length: int = 128, width: int = 256, heads: int = 8) -> None:
        rng = np.random.default_rng(0)
        self.heads = heads

        def dense(out: int, into: int) -> list[np.ndarray]:
            weight = rng.standard_normal((out, into)) / np.sqrt(into)
            return [weight.astype(np.float32), (0.1 * rng.standard_normal(out)).astype(np.float32)]

        def norm() -> list[np.ndarray]:
            return [(1 + 0.1 * rng.standard_normal(width)).astype(np.float32), np.zeros(width, np.float32)]

        self.leaves = [*norm(), *dense(3 * width, width), *dense(width, width)]
        self.leaves += [*norm(), *dense(4 * width, width), *dense(width, 4 * width)]
        x, y = rng.standard_normal((2, batch, length, width)).astype(np.float32)
        self.constants = x, y

    def forward(self, xp: Any, *leaves: Any) -> Any:
        x, y = self.inputs
        nn = xp.nn.functional
        n1w, n1b, qkv_w, qkv_b, out_w, out_b, n2w, n2b, up_w, up_b, down_w, down_b = leaves
        batch, length, width = x.shape
        h = nn.linear(nn.layer_norm(x, (width,), n1w, n1b), qkv_w, qkv_b)
        q, k, v = h.reshape(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        scores = q @ k.mT * (width // self.heads) ** -0.5
        h = nn.softmax(scores, -1) @ v
        x = x + nn.linear(h.transpose(1, 2).reshape(batch, length, width), out_w, out_b)
        h = nn.linear(nn.layer_norm(x, (width,), n2w, n2b), up_w, up_b)
        x = x + nn.linear(nn.gelu(h, approximate="tanh"), down_w, down_b)
        return nn.mse_loss(x, y)

    def _function(self, jax: Any) -> Callable[..., Any]:
        return peers.jax_transformer(jax, self.heads, self.eps, *self.inputs)

    def by_hand(self) -> Sequence[np.ndarray]:
        x, y = self.constants
        n1w, n1b, qkv_w, qkv_b, out_w, out_b, n2w, n2b, up_w, up_b, down_w, down_b = self.leaves
        batch, length, width = x.shape
        rows, heads = batch * length, self.heads
        scale = np.float32((width // heads) ** -0.5)
        a, b = np.float32(np.sqrt(2 / np.pi)), np.float32(0.044715)

        def norm(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            c = x - x.mean(axis=1, keepdims=True)
            s = 1 / np.sqrt((c * c).mean(axis=1, keepdims=True) + np.float32(self.eps))
            c *= s
            return c, s

        def norm_back(g: np.ndarray, w: np.ndarray, c: np.ndarray, s: np.ndarray) -> list[np.ndarray]:
            g_w, g_b = (g * c).sum(axis=0), g.sum(axis=0)
            g = g * w
            along = (g * c).mean(axis=1, keepdims=True)
            g -= g.mean(axis=1, keepdims=True)
            g -= c * along
            g *= s
            return [g, g_w, g_b]

        # forward
        x = x.reshape(rows, width)
        c1, s1 = norm(x)
        h1 = c1 * n1w + n1b
        qkv = h1 @ qkv_w.T + qkv_b
        q, k, v = qkv.reshape(batch, length, 3, heads, -1).transpose(2, 0, 3, 1, 4)
        p = q @ k.swapaxes(2, 3)
        p *= scale
        p -= p.max(axis=-1, keepdims=True)
        np.exp(p, out=p)
        p /= p.sum(axis=-1, keepdims=True)
        mixed = (p @ v).transpose(0, 2, 1, 3).reshape(rows, width)
        x2 = mixed @ out_w.T
        x2 += out_b
        x2 += x
        c2, s2 = norm(x2)
        h2 = c2 * n2w + n2b
        up = h2 @ up_w.T + up_b
        t = np.tanh(a * (up + b * up * up * up))
        gelu = 0.5 * up * (1 + t)
        r = gelu @ down_w.T
        r += down_b
        r += x2
        r -= y.reshape(rows, width)
        np.mean(r * r)
        # backward
        r *= np.float32(2 / r.size)
        g_down_w, g_down_b = r.T @ gelu, r.sum(axis=0)
        g = r @ down_w
        g *= 0.5 * (1 + t) + 0.5 * up * (1 - t * t) * (a + 3 * a * b * up * up)
        g_up_w, g_up_b = g.T @ h2, g.sum(axis=0)
        g, g_n2w, g_n2b = norm_back(g @ up_w, n2w, c2, s2)
        g += r
        g_out_w, g_out_b = g.T @ mixed, g.sum(axis=0)
        g_mixed = (g @ out_w).reshape(batch, length, heads, -1).transpose(0, 2, 1, 3)
        g_qkv = np.empty((batch, length, 3, heads, width // heads), np.float32)
        g_q, g_k, g_v = g_qkv.transpose(2, 0, 3, 1, 4)
        g_v[...] = p.swapaxes(2, 3) @ g_mixed
        g_p = g_mixed @ v.swapaxes(2, 3)
        g_p -= (g_p * p).sum(axis=-1, keepdims=True)
        g_p *= p
        g_p *= scale
        g_q[...] = g_p @ k
        g_k[...] = g_p.swapaxes(2, 3) @ q
        g_rows = g_qkv.reshape(rows, 3 * width)
        g_qkv_w, g_qkv_b = g_rows.T @ h1, g_rows.sum(axis=0)
        _, g_n1w, g_n1b = norm_back(g_rows @ qkv_w, n1w, c1, s1)
        first = [g_n1w, g_n1b, g_qkv_w, g_qkv_b, g_out_w, g_out_b]
        return [*first, g_n2w, g_n2b, g_up_w, g_up_b, g_down_w, g_down_b]


class Cnn(Program):
    """Two convolutions with relu and pooling, a linear layer and cross entropy, float32."""

    def __init__(self, batch: int = 32, size: int = 28, channels: tuple[int, int] = (16, 32)) -> None:
        rng = np.random.default_rng(0)
        one, two = channels

        def normal(*shape: int) -> np.ndarray:
            return (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)

        self.leaves = [normal(one, 1, 3, 3), 0.1 * normal(one), normal(two, one, 3, 3), 0.1 * normal(two)]
        self.leaves += [normal(10, two * (size // 4) ** 2), 0.1 * normal(10)]
        self.constants = rng.standard_normal((batch, 1, size, size)).astype(np.float32), rng.integers(0, 10, batch)

    def forward(self, xp: Any, *leaves: Any) -> Any:
        x, labels = self.inputs
        nn = xp.nn.functional
        w1, b1, w2, b2, w3, b3 = leaves
        h = nn.max_pool2d(nn.relu(nn.conv2d(x, w1, b1, padding=1)), 2)
        h = nn.max_pool2d(nn.relu(nn.conv2d(h, w2, b2, padding=1)), 2)
        return nn.cross_entropy(nn.linear(h.flatten(1), w3, b3), labels)

    def _function(self, jax: Any) -> Callable[..., Any]:
        return peers.jax_convolutions(jax, *self.inputs)

    def by_hand(self) -> Sequence[np.ndarray]:
        x, labels = self.constants
        w1, b1, w2, b2, w3, b3 = self.leaves

        def windows(x: np.ndarray) -> np.ndarray:
            """The 3x3 windows as columns: (batch, channels * 9, height * width)."""
            n, c, h, w = x.shape
            padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
            seen = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
            return seen.transpose(0, 1, 4, 5, 2, 3).reshape(n, c * 9, h * w)

        def layer(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            """The columns, the convolution after relu, and the maximum of each 2x2 window."""
            columns = windows(x)
            y = w.reshape(len(w), -1) @ columns
            y += b[:, None]
            np.maximum(y, 0, out=y)
            y = y.reshape(len(x), len(w), *x.shape[2:])
            best = np.maximum(y[:, :, ::2, ::2], y[:, :, ::2, 1::2])
            np.maximum(best, y[:, :, 1::2, ::2], out=best)
            np.maximum(best, y[:, :, 1::2, 1::2], out=best)
            return columns, y, best

        def layer_back(g: np.ndarray, columns: np.ndarray, y: np.ndarray, best: np.ndarray, w: np.ndarray) -> Any:
            """The gradients of weights and bias, and the cotangent of the convolution."""
            g_y = np.zeros_like(y)
            free = best > 0  # relu: no gradient where the maximum is 0
            for i in (0, 1):
                for j in (0, 1):
                    here = (y[:, :, i::2, j::2] == best) & free
                    free &= ~here
                    g_y[:, :, i::2, j::2] = g * here
            g_y = g_y.reshape(len(y), len(w), -1)
            return (g_y @ columns.swapaxes(1, 2)).sum(axis=0).reshape(w.shape), g_y.sum(axis=(0, 2)), g_y

        rows = np.arange(len(labels))
        columns1, y1, h1 = layer(x, w1, b1)
        columns2, y2, h2 = layer(h1, w2, b2)
        flat = h2.reshape(len(x), -1)
        logits = flat @ w3.T + b3
        logits -= logits.max(axis=1, keepdims=True)
        p = np.exp(logits)
        total = p.sum(axis=1, keepdims=True)
        (np.log(total[:, 0]) - logits[rows, labels]).mean()
        p /= total
        p[rows, labels] -= 1.0
        p /= len(labels)
        g_w2, g_b2, g_y2 = layer_back((p @ w3).reshape(h2.shape), columns2, y2, h2, w2)
        g_columns = (w2.reshape(len(w2), -1).T @ g_y2).reshape(*h1.shape[:2], 3, 3, *h1.shape[2:])
        height, width = h1.shape[2:]
        padded = np.zeros((*h1.shape[:2], height + 2, width + 2), np.float32)
        for i in range(3):
            for j in range(3):
                padded[:, :, i : i + height, j : j + width] += g_columns[:, :, i, j]
        g_w1, g_b1, _ = layer_back(padded[:, :, 1:-1, 1:-1], columns1, y1, h1, w1)
        return g_w1, g_b1, g_w2, g_b2, p.T @ flat, p.sum(axis=0)


class HessianProduct(Program):
    """The Hessian of Rosenbrock's function times a vector, by two backward passes; float32."""

    def __init__(self, size: int) -> None:
        rng = np.random.default_rng(0)
        self.leaves = [rng.standard_normal(size).astype(np.float32)]
        self.constants = (rng.standard_normal(size).astype(np.float32),)

    def forward(self, xp: Any, x: Any) -> Any:
        return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()

    def tensors(self, lib: Any) -> Step:
        (x,), (v,) = [leaf(lib, array) for array in self.leaves], [lib.asarray(array) for array in self.constants]
        forward, grad = self.forward, lib.autograd.grad

        def step() -> Sequence[Any]:
            (g,) = grad(forward(lib, x), (x,), create_graph=True)
            product: Sequence[Any] = grad(g, (x,), (v,))
            return product

        return step

    def torch_compile(self, torch: Any) -> Step:
        """Return the product by forward over reverse mode, compiled."""
        gradient = torch.func.grad(lambda x: self.forward(torch, x))
        product = torch.compile(lambda x, v: torch.func.jvp(gradient, (x,), (v,))[1])
        given = [torch.asarray(array) for array in (*self.leaves, *self.constants)]
        return lambda: [product(*given)]

    def jax(self, jax: Any) -> Step:
        """Return the product by forward over reverse mode, compiled."""
        leaves = self._in_jax(jax)
        gradient = jax.grad(self._function(jax))
        product = jax.jit(lambda x, v: jax.jvp(gradient, (x,), (v,))[1])
        return lambda: [jax.block_until_ready(product(*leaves, *self.inputs))]

    def by_hand(self) -> Sequence[np.ndarray]:
        (x,), (v,) = self.leaves, self.constants
        inner = x[1:] - x[:-1] * x[:-1]
        along = v[1:] - 2 * x[:-1] * v[:-1]
        product = np.zeros_like(x)
        product[:-1] = 2 * v[:-1] - 400 * (v[:-1] * inner + x[:-1] * along)
        product[1:] += 200 * along
        return (product,)


class Hessian(Program):
    """The Hessian of Rosenbrock's function, dense."""

    def __init__(self, size: int) -> None:
        self.leaves = [np.random.default_rng(0).standard_normal(size)]

    def forward(self, xp: Any, x: Any) -> Any:
        return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()

    def tensors(self, lib: Any) -> Step:
        (x,) = (lib.asarray(array) for array in self.leaves)
        hessian = lib.func.hessian(lambda x: self.forward(lib, x))
        return lambda: [hessian(x)]

    def torch_compile(self, torch: Any) -> Step:
        """Return the Hessian, compiled."""
        (x,) = (torch.asarray(array) for array in self.leaves)
        hessian = torch.compile(torch.func.hessian(lambda x: self.forward(torch, x)))
        return lambda: [hessian(x)]

    def jax(self, jax: Any) -> Step:
        """Return the Hessian in JAX's way, compiled."""
        leaves = self._in_jax(jax)
        hessian = jax.jit(jax.hessian(self._function(jax)))
        return lambda: [jax.block_until_ready(hessian(*leaves))]

    def by_hand(self) -> Sequence[np.ndarray]:
        (x,) = self.leaves
        found = np.zeros((len(x), len(x)))
        on, beside = found.reshape(-1)[:: len(x) + 1], found.reshape(-1)[1 :: len(x) + 1]
        on[:-1] = 2 - 400 * (x[1:] - 3 * x[:-1] * x[:-1])
        on[1:] += 200
        beside[:] = -400 * x[:-1]
        found.reshape(-1)[len(x) :: len(x) + 1] = beside
        return (found,)


class Jacobian(Program):
    """The Jacobian of a layer of as many outputs as inputs, row by row."""

    def __init__(self, size: int) -> None:
        rng = np.random.default_rng(0)
        self.leaves = [rng.standard_normal(size)]
        self.constants = (rng.standard_normal((size, size)) / np.sqrt(size),)

    def forward(self, xp: Any, x: Any) -> Any:
        return xp.tanh(self.inputs[0] @ x)

    def tensors(self, lib: Any) -> Step:
        self.inputs = [lib.asarray(array) for array in self.constants]
        (x,) = (lib.asarray(array) for array in self.leaves)
        jacobian = lib.func.jacrev(lambda x: self.forward(lib, x))
        return lambda: [jacobian(x)]

    def torch_compile(self, torch: Any) -> Step:
        """Return the Jacobian, compiled."""
        self.inputs = [torch.asarray(array) for array in self.constants]
        (x,) = (torch.asarray(array) for array in self.leaves)
        jacobian = torch.compile(torch.func.jacrev(lambda x: self.forward(torch, x)))
        return lambda: [jacobian(x)]

    def jax(self, jax: Any) -> Step:
        """Return the Jacobian in JAX's way, compiled."""
        leaves = self._in_jax(jax)
        jacobian = jax.jit(jax.jacrev(self._function(jax)))
        return lambda: [jax.block_until_ready(jacobian(*leaves))]

    def by_hand(self) -> Sequence[np.ndarray]:
        (x,), (w,) = self.leaves, self.constants
        y = np.tanh(w @ x)
        return ((1 - y * y)[:, None] * w,)
