"""
Per-sample gradients
====================

The gradient of a mean says where to go; the gradient of each example's own loss says who is pulling. ``vmap(grad(loss))`` gives them
all in one pass. Here it finds digits with a wrong label.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import agrad as ag

images, labels = load_digits(return_X_y=True)
images = images / 16
rng = np.random.default_rng(0)
wrong = rng.choice(len(labels), 20, replace=False)
given = labels.copy()
given[wrong] = (labels[wrong] + rng.integers(1, 10, 20)) % 10

# %%
# A linear classifier. The loss is that of one image: no batch axis anywhere.


def loss(w, image, label):
    return ag.nn.functional.cross_entropy(image @ w, label)


def mean_loss(w):
    return ag.mean(ag.nn.functional.cross_entropy(images @ w, given)) + 1e-3 * ag.sum(
        w**2
    )


w = ag.optim.minimize(
    mean_loss, np.zeros((64, 10)), method="L-BFGS-B", options={"maxiter": 100}
).params

# %%
# Mapped over images and labels, not over the weights: 1797 gradients of shape (64, 10).

each = ag.vmap(ag.grad(loss), in_dims=(None, 0, 0))(w, images, given)
size = np.sqrt(np.sum(each**2, axis=(1, 2)))
suspects = np.argsort(size)[::-1][:20]
print(
    f"{np.isin(suspects, wrong).sum()} of the 20 largest gradients belong to the 20 wrong labels"
)

figure, axes = plt.subplots(2, 10, figsize=(7, 2), layout="constrained")
for ax, i in zip(axes.flat, suspects, strict=True):
    ax.imshow(images[i].reshape(8, 8), cmap="gray_r")
    ax.set_title(f"“{given[i]}”", color="C3" if i in wrong else "k", fontsize=9)
    ax.axis("off")

# %%
# Known for this model: the gradient of an example is its image times the errors of its probabilities.

odds = np.exp(images @ w)
errors = odds / odds.sum(axis=1, keepdims=True) - np.eye(10)[given]
np.testing.assert_allclose(each, images[:, :, None] * errors[:, None, :], atol=1e-12)
assert np.isin(suspects, wrong).sum() >= 15
