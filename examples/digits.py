"""Train a small network on handwritten digits: 1,797 real scans of 8 x 8 pixels, from scikit-learn.

    python examples/digits.py [--backend numpy] [--model mlp|cnn] [--epochs 40] [--seed 0]

Shows progress, a table of loss and accuracy, draws the loss curve to a PNG, and says what came out. A quarter of the
scans, the same share of every digit, is put aside before training and used for nothing but the accuracy in the table.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import agrad as ag
from agrad import nn

SIDE = 8  # pixels
DIGITS = 10


class Data(NamedTuple):
    """Images of shape (n, 64), scaled to [0, 1], and their labels."""

    train_x: np.ndarray
    test_x: np.ndarray
    train_y: np.ndarray
    test_y: np.ndarray


class Epoch(NamedTuple):
    """One row of the table."""

    number: int
    loss: float
    train_accuracy: float
    test_accuracy: float


def load() -> Data:
    """Load the digits and split them; the split does not depend on the seed, so that runs can be compared."""
    images, labels = load_digits(return_X_y=True)
    split = train_test_split(
        (images / 16).astype(np.float32), labels.astype(np.int64), test_size=0.25, stratify=labels, random_state=0
    )
    return Data(*split)


def network(model: str) -> nn.Module:
    """Make the network: two hidden layers, or two convolutions and one hidden layer."""
    if model == "mlp":
        return nn.Sequential(  # chosen on a part of the training scans
            nn.Dropout(0.1),
            nn.Linear(SIDE * SIDE, 256),
            nn.ReLU(),
            nn.Dropout(0.3),
            nn.Linear(256, 128),
            nn.ReLU(),
            nn.Dropout(0.3),
            nn.Linear(128, DIGITS),
        )
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(32 * 16, 64),
        nn.ReLU(),
        nn.Linear(64, DIGITS),
    )


def accuracy(net: nn.Module, x: ag.Tensor, y: ag.Tensor) -> float:
    """Give the share of images whose digit the network names."""
    net.eval()
    with ag.no_grad():
        right = ag.mean(ag.astype(ag.argmax(net(x), axis=1) == y, ag.float64)).item()
    net.train()
    return right


def train(args: argparse.Namespace, console: Console) -> tuple[list[float], list[Epoch]]:
    """Train the network.

    Returns
    -------
    tuple
        The loss of every step, and a row per epoch.
    """
    ag.set_default_dtype(ag.float32)
    ag.manual_seed(args.seed)
    data = load()
    shape = (-1, SIDE * SIDE) if args.model == "mlp" else (-1, 1, SIDE, SIDE)
    train_x, test_x = (ag.asarray(a.reshape(shape), device=args.backend) for a in (data.train_x, data.test_x))
    train_y, test_y = (ag.asarray(a, device=args.backend) for a in (data.train_y, data.test_y))
    net = network(args.model)
    optimizer = ag.optim.AdamW(net.parameters(), lr=args.lr, weight_decay=0.01)
    count = len(data.train_y)
    batches = -(-count // args.batch_size)
    schedule = ag.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs * batches)
    losses: list[float] = []
    epochs: list[Epoch] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("epochs", total=args.epochs)
        for number in range(1, args.epochs + 1):
            order = ag.permutation(count)
            for start in range(0, count, args.batch_size):
                batch = order[start : start + args.batch_size]
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(net(train_x[batch]), train_y[batch])
                loss.backward()
                optimizer.step()
                schedule.step()
                losses.append(loss.item())
            mean = sum(losses[-batches:]) / batches
            epochs.append(Epoch(number, mean, accuracy(net, train_x, train_y), accuracy(net, test_x, test_y)))
            progress.update(task, advance=1, description=f"loss {mean:.4f}  test {epochs[-1].test_accuracy:.1%}")
    return losses, epochs


def show(epochs: list[Epoch], console: Console) -> None:
    """Print the table: about ten epochs, the last among them."""
    table = Table("epoch", "loss", "train accuracy", "test accuracy")
    every = max(len(epochs) // 10, 1)
    for epoch in epochs:
        if epoch.number % every == 0 or epoch.number in (1, len(epochs)):
            table.add_row(
                str(epoch.number), f"{epoch.loss:.4f}", f"{epoch.train_accuracy:.2%}", f"{epoch.test_accuracy:.2%}"
            )
    console.print(table)


def draw(losses: list[float], epochs: list[Epoch], title: str, path: Path) -> None:
    """Draw loss and accuracy over the epochs to a PNG."""
    import matplotlib as mpl  # noqa: PLC0415 (slow to import; not needed for training)

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    per_epoch = len(losses) / len(epochs)
    numbers = [epoch.number for epoch in epochs]
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    left.plot([(i + 1) / per_epoch for i in range(len(losses))], losses, color="0.8", lw=0.8, label="each step")
    left.plot(numbers, [epoch.loss for epoch in epochs], color="C0", label="mean of the epoch")
    left.set(xlabel="epoch", ylabel="cross entropy", yscale="log", title="Training loss")
    left.legend()
    right.plot(numbers, [100 * epoch.train_accuracy for epoch in epochs], color="C1", label="train")
    right.plot(numbers, [100 * epoch.test_accuracy for epoch in epochs], color="C2", label="test")
    right.axhline(97, color="0.6", lw=0.8, ls="--")
    right.set(xlabel="epoch", ylabel="accuracy in %", ylim=(80, 100.5), title="Accuracy")
    right.legend(loc="lower right")
    figure.suptitle(title)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--backend", default="numpy", help="where to compute; `python -m agrad` lists what there is")
    parser.add_argument("--model", choices=("mlp", "cnn"), default="mlp")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=3e-3, help="initial learning rate")
    parser.add_argument("--output", type=Path, default=Path("digits"), help="folder of the picture")
    parser.add_argument("--require", type=float, default=0.0, help="fail below this test accuracy, as 0.97")
    args = parser.parse_args(arguments)
    for name in ("epochs", "batch_size"):
        if getattr(args, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1")
    try:
        ag.set_default_backend(args.backend)
    except ag.BackendError as error:
        parser.error(str(error))
    return args


def main(arguments: list[str] | None = None) -> int:
    """Run the example; give the exit status."""
    args = parse(arguments)
    console = Console()
    start = time.perf_counter()
    losses, epochs = train(args, console)
    seconds = time.perf_counter() - start
    show(epochs, console)
    path = args.output / f"{args.model}_loss.png"
    final = epochs[-1]
    title = f"{args.model.upper()} on handwritten digits, {args.backend} backend: {final.test_accuracy:.1%} on test scans"
    draw(losses, epochs, title, path)
    console.print(
        f"Trained the {args.model.upper()} for {len(epochs)} epochs on the {args.backend} backend in {seconds:.1f} s"
        f" (seed {args.seed}): it names {final.test_accuracy:.2%} of the test scans right.\n"
        f"The loss curve is in {path.resolve()}",
        soft_wrap=True,
    )
    if final.test_accuracy < args.require:
        console.print(f"That is less than the {args.require:.2%} required.")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
