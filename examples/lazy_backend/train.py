"""Two trainings on cubed: handwritten digits, and a logistic regression on a Zarr store larger than the memory allowed.

    python train.py digits                                # 1797 images, a small network; minutes
    python train.py store /tmp/store --rows 1572864       # writes 1.5 GiB to /tmp/store, then trains on it
    python train.py store /tmp/store                      # trains on what is there

cubed refuses to start a task that would hold more than ``--memory``; the peak memory of the process is printed at the
end. Needs scikit-learn for the digits.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # cubed runs tasks side by side

import cubed
import cubed.array_api as xp
import numpy as np
import zarr

import agrad as ag

F = ag.nn.functional

FEATURES, ROWS = 256, 2**13  # of the store, and of one chunk


def digits(steps, spec):
    """Train 64-32-10 on four fifths of the images by Adam on all at once; print the accuracy on the rest."""
    from sklearn.datasets import load_digits

    images, classes = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    train, test = order[: len(order) * 4 // 5], order[len(order) * 4 // 5 :]

    def placed(host, rows=360):
        return ag.asarray(xp.asarray(host, chunks=(rows, *host.shape[1:]), spec=spec))

    images = (images / 16).astype(np.float32)
    X, y = placed(images[train]), placed(classes[train])
    rng = np.random.default_rng(1)
    w1, w2 = (rng.normal(size=s).astype(np.float32) / s[0] ** 0.5 for s in ((64, 32), (32, 10)))
    start = (w1, np.zeros(32, "f4"), w2, np.zeros(10, "f4"))
    p = [ag.asarray(xp.asarray(host, spec=spec), requires_grad=True) for host in start]

    def logits(X):
        return F.relu(X @ p[0] + p[1]) @ p[2] + p[3]

    optimizer = ag.optim.Adam(p, lr=0.02)
    for step in range(steps):
        start = time.perf_counter()
        optimizer.zero_grad()
        loss = F.cross_entropy(logits(X), y)
        loss.backward()
        optimizer.step()
        if step % 10 == 9:
            print(f"step {step + 1}: loss {loss.item():.4f}, {time.perf_counter() - start:.1f} s", flush=True)
    found = ag.argmax(logits(placed(images[test])), axis=1)
    right = ag.mean(ag.astype(found == placed(classes[test]), ag.float32)).item()
    print(f"accuracy on {len(test)} other images: {right:.1%}")


def make_store(path, rows):
    """Write normally distributed features X and labels y that are drawn by known weights."""
    rng, w = np.random.default_rng(1), true_weights()
    create = {"chunks": (ROWS, FEATURES), "dtype": "float32", "compressors": None}
    X = zarr.create_array(path / "X", shape=(rows, FEATURES), **create)
    y = zarr.create_array(path / "y", shape=(rows,), **create | {"chunks": (ROWS,)})
    for start in range(0, rows, ROWS):
        x = rng.standard_normal((min(ROWS, rows - start), FEATURES), dtype=np.float32)
        X[start : start + len(x)] = x
        y[start : start + len(x)] = rng.uniform(size=len(x)) < 1 / (1 + np.exp(-(x @ w)))


def true_weights():
    return np.random.default_rng(0).normal(size=FEATURES).astype(np.float32) / 4


def store(path, steps, spec):
    """Fit a logistic regression by gradient descent on all rows; print how far the weights are from the true ones."""
    X, y = (ag.asarray(cubed.from_zarr(str(path / name), spec=spec)) for name in ("X", "y"))
    print(f"a store of {X._raw.nbytes / 2**20:.0f} MiB")
    w = ag.asarray(xp.zeros((FEATURES,), dtype=np.float32, spec=spec), requires_grad=True)
    optimizer = ag.optim.SGD([w], lr=4.0, momentum=0.5)
    for step in range(steps):
        start = time.perf_counter()
        optimizer.zero_grad()
        loss = F.binary_cross_entropy_with_logits(X @ w, y)
        loss.backward()
        optimizer.step()
        print(f"step {step + 1}: loss {loss.item():.5f}, {time.perf_counter() - start:.1f} s", flush=True)
    found, known = w.detach().numpy(), true_weights()
    print(f"The weights differ from the true ones by {np.linalg.norm(found - known) / np.linalg.norm(known):.2%}.")


def main():
    parser = argparse.ArgumentParser(description="Train on cubed.")
    parser.add_argument("what", choices=["digits", "store"])
    parser.add_argument("path", type=Path, nargs="?", help="folder of the store")
    parser.add_argument("--rows", type=int, default=2**16, help="rows of a store that is made (default: 65536, 64 MiB)")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--memory", default="400MB", help="what a task may hold, the libraries (150 MB) included")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        spec = cubed.Spec(work_dir=work, allowed_mem=options.memory, reserved_mem="150MB", zarr_compressor=None)
        if options.what == "digits":
            digits(options.steps, spec)
        else:
            path = options.path or Path(work)
            if not (path / "X").exists():
                make_store(path, options.rows)
            store(path, options.steps, spec)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
    print(f"Most memory held by this process: {peak:.0f} MiB.")


if __name__ == "__main__":
    main()
