"""
Compile a step, and export it
=============================

What a training step does, forward pass, gradients and update, can be captured as a program: it prints as Python, runs without autograd
between its operations, says what memory it needs, and leaves as a module that needs NumPy alone.
"""

import time

import matplotlib.pyplot as plt
import numpy as np

import agrad as ag

rng = np.random.default_rng(0)
x = np.linspace(-3, 3, 64)[:, None]
y = np.sin(x)
start = {
    "w1": rng.normal(size=(1, 16)),
    "b1": np.zeros(16),
    "w2": rng.normal(size=(16, 1)) / 4,
}


def loss_of(p):
    return ag.mean((ag.tanh(x @ p["w1"] + p["b1"]) @ p["w2"] - y) ** 2)


def step(p):
    loss, grads = ag.value_and_grad(loss_of)(p)
    return loss, {name: value - 0.1 * grads[name] for name, value in p.items()}


# %%
# The function runs once, and this is what it did. Every line names the operation and where it comes from.

program = ag.func.capture(step)(start)
print(program.text(notes=False))
print(f"at most {program.memory().peak} bytes")

# %%
# Its module imports NumPy. The derivative is in it as written-out formulas.

source = program.source()
names = {}
exec(source, names)
alone, arrays = names["program"], program.arrays()
print(source.partition("def program")[0])

# %%
# ``ag.compile`` does the capturing by itself, and compares the program with the function at calls 2, 4, 8 and so on.

compiled = ag.compile(step)
ways = {
    "recorded": step,
    "compiled": compiled,
    "module": lambda p: alone(p, **arrays),
}
losses, took = {}, {}
for name, way in ways.items():
    params, losses[name] = start, []
    for i in range(500):
        if i == 20:  # the first calls capture and compare
            began = time.perf_counter()
        loss, params = way(params)
        losses[name].append(float(loss))
    took[name] = (time.perf_counter() - began) / 480

figure, axes = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
axes[0].semilogy(losses["compiled"])
axes[0].set(title="loss", xlabel="step")
axes[1].barh(list(took), [1e6 * t for t in took.values()])
axes[1].set_title("microseconds a step, on this machine")

# %%
# All ways give the same numbers, and the gradient is that of the formula by hand.

np.testing.assert_allclose(losses["compiled"], losses["recorded"], rtol=1e-9)
np.testing.assert_allclose(losses["module"], losses["recorded"], rtol=1e-9)
hidden = np.tanh(x @ start["w1"] + start["b1"])
known = 2 / 64 * hidden.T @ (hidden @ start["w2"] - y)
found = (start["w2"] - step(start)[1]["w2"]) / 0.1
np.testing.assert_allclose(found, known, atol=1e-12)
