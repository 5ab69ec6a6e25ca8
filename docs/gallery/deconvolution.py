"""
Deconvolution of an image
=========================

A photograph, blurred and noisy, is sharpened by looking for the image whose blur is what was seen: 16,384 unknowns, one gradient
through a Fourier transform and back for each step.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

import agrad as ag

photo = load_sample_image("china.jpg").mean(axis=2) / 255
sharp = photo[40:296, 180:436].reshape(128, 2, 128, 2).mean(axis=(1, 3))

# %%
# The camera: a Gaussian blur with edges that wrap around, and noise.

off = np.minimum(np.arange(128), 128 - np.arange(128))
spot = np.exp(-(off[:, None] ** 2 + off[None, :] ** 2) / (2 * 1.5**2))
transfer = np.fft.rfft2(spot / spot.sum())


def blur(image):
    return ag.fft.irfftn(ag.fft.rfftn(image) * transfer, s=image.shape, axes=(0, 1))


seen = blur(ag.asarray(sharp)).numpy() + 0.01 * np.random.default_rng(0).normal(
    size=sharp.shape
)

# %%
# Many images have that blur. A penalty on the differences of neighbours chooses among them: on their squares, which has a closed form,
# or on their sizes (total variation), which keeps edges and has none.


def steps(image):
    return ag.roll(image, -1, axis=0) - image, ag.roll(image, -1, axis=1) - image


def smooth(image):
    down, across = steps(image)
    return ag.sum((blur(image) - seen) ** 2) + 3e-3 * ag.sum(down**2 + across**2)


def edges(image):
    down, across = steps(image)
    return ag.sum((blur(image) - seen) ** 2) + 2e-3 * ag.sum(
        ag.sqrt(down**2 + across**2 + 1e-4)
    )


results = {"seen": seen}
for name, loss in {"squares": smooth, "total variation": edges}.items():
    options = {"maxiter": 300, "maxcor": 20, "ftol": 1e-13, "gtol": 1e-8}
    found = ag.optim.minimize(loss, seen, method="L-BFGS-B", options=options)
    results[name] = found.params
    print(f"{name}: {found.nfev} gradients")

figure, axes = plt.subplots(1, 4, figsize=(8, 2.4), layout="constrained")
for ax, (name, image) in zip(
    axes, {**results, "the original": sharp}.items(), strict=True
):
    ax.imshow(image, cmap="gray", vmin=0, vmax=1)
    ax.set_title(
        f"{name}\nerror {np.sqrt(np.mean((image - sharp) ** 2)):.4f}", fontsize=9
    )
    ax.axis("off")

# %%
# With squares the answer is Wiener's filter, frequency by frequency.

wave = 2 - 2 * np.cos(2 * np.pi * np.arange(128) / 128)
stiffness = wave[:, None] + wave[None, :65]
known = (
    np.conj(transfer) * np.fft.rfft2(seen) / (np.abs(transfer) ** 2 + 3e-3 * stiffness)
)
np.testing.assert_allclose(results["squares"], np.fft.irfft2(known), atol=1e-3)
errors = [np.sqrt(np.mean((image - sharp) ** 2)) for image in results.values()]
assert errors[2] < errors[1] < errors[0]
