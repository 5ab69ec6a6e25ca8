"""
A convolutional network on digits
=================================

Modules, an optimiser, a schedule and a loader, under PyTorch's names: 1797 scanned digits of 8 by 8 pixels.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.signal import correlate
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

import agrad as ag
from agrad import nn
from agrad.utils.data import DataLoader, TensorDataset

images, labels = load_digits(return_X_y=True)
images = (images / 16).astype(np.float32).reshape(-1, 1, 8, 8)
train, test, train_labels, test_labels = train_test_split(
    images, labels, test_size=0.25, stratify=labels, random_state=0
)

# %%
# The network and what trains it. The layers are made in single precision, as the images are.

ag.manual_seed(0)
network = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1),
    nn.ReLU(),
    nn.Conv2d(16, 32, 3, padding=1),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Flatten(),
    nn.Dropout(0.3),
    nn.Linear(32 * 4 * 4, 10),
).float()
loader = DataLoader(TensorDataset(train, train_labels), batch_size=64, shuffle=True)
optimizer = ag.optim.Adam(network.parameters(), lr=5e-3)
schedule = ag.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=15)

# %%
# Fifteen times through the data.

losses = []
for _ in range(15):
    for batch, its_labels in loader:
        loss = nn.functional.cross_entropy(network(batch), its_labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    schedule.step()

network.eval()  # no dropout any more
with ag.no_grad():
    guessed = network(ag.asarray(test)).argmax(axis=1).numpy()
accuracy = np.mean(guessed == test_labels)
print(f"{accuracy:.1%} of {len(test)} test images")

# %%
# What it took for another digit.

wrong = np.flatnonzero(guessed != test_labels)[:6]
figure, axes = plt.subplots(
    1, 7, figsize=(8, 1.8), width_ratios=[4] + [1] * 6, layout="constrained"
)
axes[0].semilogy(losses)
axes[0].set_title("loss by step", fontsize=9)
for ax in axes[1:]:
    ax.axis("off")
for ax, i in zip(axes[1:], wrong, strict=False):
    ax.imshow(test[i, 0], cmap="gray_r")
    ax.set_title(f"{test_labels[i]}, not {guessed[i]}", fontsize=9)

# %%
# scikit-learn's linear classifier is the one to beat. The first layer is SciPy's correlation, channel by channel.

flat = train.reshape(len(train), -1)
linear = LogisticRegression(max_iter=1000).fit(flat, train_labels)
known = linear.score(test.reshape(len(test), -1), test_labels)
print(f"{known:.1%} by a linear classifier")
assert accuracy > max(known, 0.97)

layer = network[0]
image = np.pad(test[0, 0], 1)
seen = [correlate(image, w[0], mode="valid") for w in layer.weight.detach().numpy()]
expected = np.stack(seen) + layer.bias.detach().numpy()[:, None, None]
with ag.no_grad():
    found = layer(ag.asarray(test[:1])).numpy()[0]
np.testing.assert_allclose(found, expected, atol=1e-5)
