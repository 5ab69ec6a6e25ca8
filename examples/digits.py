"""Train a network on scikit-learn's 8x8 handwritten digits, on any backend.

    python examples/digits.py                       # a multilayer perceptron on NumPy, a few seconds
    python examples/digits.py --model cnn           # a small convolutional network
    python examples/digits.py --backend cupy        # the same program on a GPU

The 1797 images are split once and for all, stratified by class: 80 % to train on, 20 % to test. The architectures, the
learning rates and the augmentation (shifts by less than a pixel) were chosen by cross-validation within the first part;
the test images were never used for a choice. Needs scikit-learn, matplotlib and rich beside agrad.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

# These matrices are small: several threads would mostly wait for each other. The libraries look at this when they load.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import agrad as ag

try:
    import matplotlib as mpl
    import numpy as np
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.table import Table
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
except ImportError as error:
    sys.exit(f"this example needs more than agrad: pip install scikit-learn matplotlib rich ({error})")

mpl.use("Agg")
from matplotlib import pyplot as plt

nn, F = ag.nn, ag.nn.functional

#: The default numbers of epochs and learning rates.
DEFAULTS = {"mlp": (100, 3e-3), "cnn": (50, 5e-3)}


# -- data ---------------------------------------------------------------------------------------------------------------


@dataclass
class Data:
    """Images (n, 1, 8, 8) with values from 0 to 1, and their classes."""

    images: np.ndarray
    classes: np.ndarray


def load() -> tuple[Data, Data]:
    """Return the training images and the test images."""
    images, classes = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    train, test, train_classes, test_classes = train_test_split(
        images, classes, test_size=0.2, stratify=classes, random_state=0
    )
    return Data(train, train_classes), Data(test, test_classes)


def shifted(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Shift every image by up to 0.8 of a pixel in one of eight directions, by blending it with itself shifted by one pixel."""
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (8, 8), axis=(2, 3))
    down, across = rng.integers(0, 3, (2, len(images)))
    moved = windows[np.arange(len(images)), :, down, across]
    share = rng.uniform(0, 0.8, (len(images), 1, 1, 1)).astype(images.dtype)
    return images + share * (moved - images)


# -- models -------------------------------------------------------------------------------------------------------------


def make_model(name: str) -> nn.Module:
    """Return a network from images (n, 1, 8, 8) to logits (n, 10)."""
    if name == "mlp":
        return nn.Sequential(
            nn.Flatten(),
            nn.Linear(64, 512),
            nn.ReLU(),
            nn.Dropout(0.3),
            nn.Linear(512, 256),
            nn.ReLU(),
            nn.Dropout(0.3),
            nn.Linear(256, 10),
        )
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(32 * 4 * 4, 10),
    )


# -- training -----------------------------------------------------------------------------------------------------------


@dataclass
class History:
    """The measurements after each epoch: losses, and accuracies from 0 to 1."""

    train_loss: list[float] = field(default_factory=list)
    test_loss: list[float] = field(default_factory=list)
    train_accuracy: list[float] = field(default_factory=list)
    test_accuracy: list[float] = field(default_factory=list)

    def add(self, model: nn.Module, train: Data, test: Data, backend: str) -> None:
        """Measure a model."""
        for data, losses, accuracies in (
            (train, self.train_loss, self.train_accuracy),
            (test, self.test_loss, self.test_accuracy),
        ):
            logits = ag.compute(predict(model, data, backend))  # on Dask: once for both
            losses.append(F.cross_entropy(logits, ag.asarray(data.classes, device=backend)).item())
            accuracies.append(float(np.mean(logits.argmax(axis=1).to_device("numpy").numpy() == data.classes)))


@ag.no_grad
def predict(model: nn.Module, data: Data, backend: str) -> ag.Tensor:
    """Return the logits of all images."""
    model.eval()
    logits = model(ag.asarray(data.images, device=backend))
    model.train()
    return logits


def train_epoch(model, optimizer, data: Data, batch_size: int, rng: np.random.Generator, backend: str) -> None:
    """Go through all images once, in random order and randomly shifted."""
    order = rng.permutation(len(data.images))
    for start in range(0, len(order), batch_size):
        chosen = order[start : start + batch_size]
        images = ag.asarray(shifted(data.images[chosen], rng), device=backend)
        classes = ag.asarray(data.classes[chosen], device=backend)
        loss = F.cross_entropy(model(images), classes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


# -- results ------------------------------------------------------------------------------------------------------------


def table(history: History) -> Table:
    """Return about ten lines of the history as a table."""
    made = Table(title="Loss and accuracy after each epoch", title_justify="left")
    for heading in ("epoch", "train loss", "test loss", "train accuracy", "test accuracy"):
        made.add_column(heading, justify="right")
    count = len(history.train_loss)
    for epoch in sorted({1, count, *range(0, count + 1, max(1, count // 8))} - {0}):
        i = epoch - 1
        made.add_row(
            str(epoch),
            f"{history.train_loss[i]:.4f}",
            f"{history.test_loss[i]:.4f}",
            f"{history.train_accuracy[i]:.2%}",
            f"{history.test_accuracy[i]:.2%}",
        )
    return made


@dataclass
class Example:
    """A test image with its class, the model's prediction, and the probability of the true class."""

    image: np.ndarray
    truth: int
    guess: int
    probability: float


def hardest(model: nn.Module, data: Data, backend: str, count: int) -> list[Example]:
    """Return the images whose true class is the least probable to the model."""
    probabilities = F.softmax(predict(model, data, backend), dim=1).to_device("numpy").numpy()
    of_truth = probabilities[np.arange(len(data.classes)), data.classes]
    return [
        Example(data.images[i, 0], int(data.classes[i]), int(probabilities[i].argmax()), float(of_truth[i]))
        for i in np.argsort(of_truth)[:count]
    ]


def draw(history: History, examples: list[Example], title: str, path: Path) -> None:
    """Draw the loss, the share of errors, and the hardest test images."""
    colors = {"training images": "#1f77b4", "test images": "#d95f02"}
    epochs = np.arange(1, len(history.train_loss) + 1)
    figure = plt.figure(figsize=(10, 6.4), layout="constrained")
    figure.suptitle(title, fontsize=12, fontweight="bold")
    above, below = figure.subfigures(2, 1, height_ratios=(3, 1.15))
    panels = (
        ("Cross entropy", history.train_loss, history.test_loss),
        ("Errors (%)", *(100 * (1 - np.asarray(a)) for a in (history.train_accuracy, history.test_accuracy))),
    )
    for axes, (name, train, test) in zip(above.subplots(1, 2), panels, strict=True):
        for (label, color), values in zip(colors.items(), (train, test), strict=True):
            axes.plot(epochs, values, color=color, linewidth=1.8, label=label, marker="o" if len(epochs) == 1 else None)
        axes.set(xlabel="Epoch", ylabel=name, xlim=(1, max(2, len(epochs))))
        axes.grid(color="0.9")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        if name == "Cross entropy":
            axes.set_yscale("log")
            axes.legend(frameon=False)
        else:  # the first epochs would hide the rest
            axes.set_ylim(0, max(2.0, 1.15 * float(np.quantile(np.concatenate((train, test)), 0.95))))
    below.suptitle(
        "The test images whose true class the model finds least probable (red: taken for another)", fontsize=10
    )
    for axes, example in zip(below.subplots(1, len(examples)), examples, strict=True):
        axes.set_axis_off()
        axes.imshow(example.image, cmap="gray_r", vmin=0, vmax=1)
        wrong = example.guess != example.truth
        text = f"{example.truth} as {example.guess}" if wrong else f"{example.truth}: {example.probability:.0%}"
        axes.set_title(text, fontsize=9, color="#c00000" if wrong else "0.3")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backend", default="numpy", help="numpy, cupy, cupy:1, dask... (default: numpy)")
    parser.add_argument("--model", choices=list(DEFAULTS), default="mlp", help="the network (default: mlp)")
    parser.add_argument("--epochs", type=int, help="times through the images (default: 100 for mlp, 50 for cnn)")
    parser.add_argument("--seed", type=int, default=0, help="of everything random (default: 0)")
    parser.add_argument("--batch-size", type=int, default=64, help="images per step (default: 64)")
    parser.add_argument("--lr", type=float, help="first learning rate (default: 0.003 for mlp, 0.005 for cnn)")
    parser.add_argument("--output", type=Path, default=Path("digits"), help="folder for the picture (default: digits)")
    parser.add_argument(
        "--require", type=float, default=0.0, metavar="ACCURACY", help="fail under this test accuracy, as 0.97"
    )
    options = parser.parse_args(arguments)
    epochs, lr = DEFAULTS[options.model]
    options.epochs = epochs if options.epochs is None else options.epochs
    options.lr = lr if options.lr is None else options.lr
    if options.epochs < 1 or options.batch_size < 1:
        parser.error("--epochs and --batch-size must be at least 1")
    if not 0 <= options.require <= 1:
        parser.error("--require takes a share from 0 to 1, as 0.97")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Run the example; return the exit status."""
    options = parse(arguments)
    console = Console()
    try:
        ag.set_default_backend(options.backend)
    except ag.BackendError as error:
        Console(stderr=True).print(f"[red]--backend {options.backend}:[/red] {escape(str(error))}", highlight=False)
        return 2
    ag.set_default_dtype(ag.float32)
    ag.manual_seed(options.seed)
    rng = np.random.default_rng(options.seed)
    train, test = load()
    model = make_model(options.model)
    optimizer = ag.optim.AdamW(model.parameters(), lr=options.lr)
    schedule = ag.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=options.epochs)
    history = History()
    size = sum(p.size for p in model.parameters())
    console.print(
        f"Training the {options.model} ({size} parameters) on {len(train.images)} images,"
        f" {options.epochs} epochs, backend {options.backend}, seed {options.seed}."
    )
    start = time.perf_counter()
    columns = (
        TextColumn("epoch"),
        MofNCompleteColumn(),
        BarColumn(),
        TextColumn("{task.description}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=options.epochs)
        for _ in range(options.epochs):
            train_epoch(model, optimizer, train, options.batch_size, rng, options.backend)
            schedule.step()
            history.add(model, train, test, options.backend)
            progress.update(task, advance=1, description=f"loss {history.train_loss[-1]:.4f}")
    seconds = time.perf_counter() - start
    accuracy = history.test_accuracy[-1]
    console.print(table(history))
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / f"{options.model}.png"
    total = len(test.images)
    wrong = round(total * (1 - accuracy))
    title = f"{options.model.upper()} on 8×8 digits: {accuracy:.2%} of {total} test images right, {wrong} wrong"
    draw(history, hardest(model, test, options.backend, 10), title, path)
    console.print(
        f"Trained the {options.model} on {options.backend} for {options.epochs} epochs in {seconds:.1f} s."
        f" Test accuracy: {accuracy:.2%} ({wrong} of {total} wrong)."
    )
    console.print(f"Picture: {path.resolve()}", soft_wrap=True)
    if accuracy < options.require:
        Console(stderr=True).print(f"[red]The test accuracy is below the required {options.require:.2%}.[/red]")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
