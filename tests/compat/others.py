"""Run HIPS autograd's examples, from a checkout, on it and on agrad; write what they print and cost to docs/others.md.

``python tests/compat/others.py CHECKOUT [--repeat=N] [NAME ...]``. No line of theirs is changed but counts of iterations, as `SHORTER` says.
Nothing is drawn or fetched: matplotlib takes everything and does nothing, and the digits are made here.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "others.md"

#: Per example patterns and what stands in their place: fewer iterations.
SHORTER = {
    "bayesian_neural_net": [("num_iters=1000", "num_iters=60")],
    "bayesian_optimization": [("num_iters=20", "num_iters=2")],
    "black_box_svi": [("num_iters=2000", "num_iters=100")],
    "convnet": [("num_epochs = 50", "num_epochs = 2")],
    "deep_gaussian_process": [('method="CG"', 'method="CG", options={"maxiter": 12}')],
    "fluidsim/fluidsim": [
        ("simulation_timesteps = 100", "simulation_timesteps = 20"),
        ('"maxiter": 25', '"maxiter": 3'),
    ],
    "fluidsim/wing": [('"maxiter": 50', '"maxiter": 2')],
    "gaussian_process": [('method="CG"', 'method="CG", options={"maxiter": 12}')],
    "generative_adversarial_net": [("num_epochs = 50", "num_epochs = 4")],
    "gmm": [('method="Newton-CG"', 'method="Newton-CG", options={"maxiter": 12}')],
    "gplvm": [('method="CG"', 'method="CG", options={"maxiter": 8}')],
    "hmm_em": [("max_lines=60", "max_lines=6"), ("num_states = 20", "num_states = 5")],
    "ica": [('method="CG"', 'method="CG", options={"maxiter": 20}')],
    "lstm": [("num_iters=1000", "num_iters=10")],
    "mixture_variational_inference": [("num_iters=2000", "num_iters=40")],
    "natural_gradient_black_box_svi": [("num_iters = 200", "num_iters = 60")],
    "neural_net": [("num_epochs = 5", "num_epochs = 3")],
    "neural_net_regression": [("num_iters=1000", "num_iters=100")],
    "ode_net": [("num_iters=1000", "num_iters=2")],
    "rnn": [("num_iters=1000", "num_iters=20")],
    "variational_autoencoder": [(r"num_epochs = \d+", "num_epochs = 2")],
}

#: What examples import and nobody runs by itself.
PARTS = {"__init__", "data", "data_mnist"}

#: The largest relative difference of two numbers that come by the same operations, perhaps many of them.
ROUNDING = 1e-9


# -- one example, in a process of its own -------------------------------------------------------------------------------


class Anything:
    """Stands for all of matplotlib: is called, indexed and asked for attributes, and does nothing."""

    def __call__(self, *args: Any, **kwargs: Any) -> Anything:
        return Anything()

    def __iter__(self) -> Any:
        return iter(())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()


def image(path: str) -> Any:
    """Return a picture for those that fluidsim reads: a disc, in the size and kind of the file."""
    import numpy as np

    rows, columns = np.mgrid[0.0:1.0:200j, 0.0:1.0:200j]
    disc = ((rows - 0.5) ** 2 + (columns - 0.4) ** 2 < 0.07).astype(float)
    return disc if "skull" in path else np.repeat(disc[::2, ::2, None], 3, axis=2)


def digits() -> tuple[Any, ...]:
    """Return ten kinds of pictures with noise, in the shapes of MNIST: to train by and to test by."""
    import numpy as np

    rs = np.random.RandomState(7)
    kinds = rs.rand(10, 28, 28)
    found: list[Any] = []
    for count in (600, 100):
        labels = rs.randint(0, 10, count).astype(np.uint8)
        pictures = 160 * kinds[labels] + 90 * rs.rand(count, 28, 28)
        found += [pictures.astype(np.uint8), labels]
    return tuple(found)


def run_one(checkout: Path, name: str, library: str) -> None:
    """Run an example; print what it prints, its numbers at the end, and the seconds of the processor in the last line."""
    if library == "agrad":
        from agrad.compat import autograd

        autograd.install()
    else:
        sys.path.insert(0, str(checkout))
    import numpy as np

    class Seeded(np.random.RandomState):  # type: ignore[misc]
        """A generator that is the same at every run, where no seed is given."""

        def __init__(self, seed: Any = 0) -> None:
            super().__init__(seed)

    np.random.RandomState = Seeded  # type: ignore[misc]
    np.random.seed(0)
    for module in ("matplotlib", "matplotlib.pyplot", "matplotlib.image", "matplotlib.cm"):
        made: Any = types.ModuleType(module)
        made.__getattr__ = lambda _: Anything()
        made.imread = image
        sys.modules[module] = made
    data: Any = types.ModuleType("data_mnist")
    data.mnist = digits
    sys.modules["data_mnist"] = data
    os.system = lambda command: 0  # type: ignore[assignment] # fluidsim makes and removes pictures
    import autograd.numpy
    import autograd.scipy.stats

    # HIPS autograd imports SciPy with these names, agrad where it is first called: the clock sees that in neither
    import scipy.integrate
    import scipy.optimize
    import scipy.signal
    import scipy.special
    import scipy.stats  # noqa: F401

    path = checkout / "examples" / f"{name}.py"
    text = path.read_text(encoding="utf-8")
    for pattern, instead in SHORTER.get(name, []):
        text, count = re.subn(pattern, instead, text)
        assert count == 1, f"{name}: {pattern} stands there {count} times"
    sys.path.insert(0, str(path.parent))
    module = types.ModuleType("__main__")
    module.__file__ = str(path)
    sys.modules["__main__"] = module
    begun = time.process_time()
    exec(compile(text, str(path), "exec"), module.__dict__)
    seconds = time.process_time() - begun
    for key, value in sorted(vars(module).items()):
        if isinstance(value, float | np.ndarray) or type(value).__name__ == "Tensor":
            print(f"\n{key}", *np.asarray(value).ravel()[:50])
    print(f"\n{seconds}")


# -- both, compared -----------------------------------------------------------------------------------------------------

NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+|nan|inf)(?!\w)")

#: The line of a traceback that has the error.
ERROR = re.compile(r"[\w.]+(Error|Exception|Interrupt|Exit)\b")


def printed(checkout: Path, name: str, library: str, runner: str = __file__) -> tuple[str, float]:
    """Return what an example prints, and the seconds of the processor; of one that fails, the error."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, runner, str(checkout), "--one", name, library],
            capture_output=True,
            text=True,
            cwd=folder,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"},
            check=False,
        )
    if done.returncode:
        said = done.stderr.strip().splitlines()  # notes stand below the error
        raise RuntimeError(f"{library}: {next((line for line in reversed(said) if ERROR.match(line)), said[-1])}")
    text, _, seconds = done.stdout.rstrip("\n").rpartition("\n")
    return text, float(seconds)


def in_turn(
    checkout: Path, name: str, other: str, repeat: int, runner: str = __file__
) -> tuple[list[str], list[tuple[float, float]]]:
    """Return what agrad and the other library print, and the seconds of both in each of several runs taken in turn."""
    texts: dict[str, str] = {}
    seconds: list[tuple[float, float]] = []
    for number in range(repeat):
        spent = {}
        for library in ("agrad", other)[:: 1 if number % 2 else -1]:
            text, spent[library] = printed(checkout, name, library, runner)
            texts.setdefault(library, text)
        seconds.append((spent["agrad"], spent[other]))
    return [texts["agrad"], texts[other]], seconds


def times(seconds: list[tuple[float, float]], least: float = 0.0) -> str:
    """Return the last three columns: medians of the other's seconds and ours, and of the ratio, with the smallest and largest.

    The ratio is left out where the other takes less than `least`.
    """
    our, their = (statistics.median(column) for column in zip(*seconds, strict=True))
    ratios = sorted(a / b for a, b in seconds)
    ratio = f"{statistics.median(ratios):.2f}" + f" ({ratios[0]:.2f} to {ratios[-1]:.2f})" * (len(ratios) > 1)
    return f"{their:.2f} | {our:.2f} | {ratio * (their > least)}"


def difference(ours: str, theirs: str) -> float:
    """Return the largest relative difference of numbers in two texts; ValueError where the texts differ otherwise."""
    ours, theirs = map(renamed, (ours, theirs))
    words = [NUMBER.sub("#", text).split() for text in (ours, theirs)]
    if words[0] != words[1]:
        at = next((pair for pair in zip(*words, strict=False) if pair[0] != pair[1]), ("", ""))
        raise ValueError(f"other text: {at[0]!r}, {at[1]!r}")
    largest = 0.0
    for our, their in zip(NUMBER.findall(ours), NUMBER.findall(theirs), strict=True):
        a, b = float(our), float(their)
        if a != b and not (a != a and b != b):
            largest = max(largest, abs(a - b) / max(abs(a), abs(b), 1e-6))
    return largest


def renamed(text: str) -> str:
    """Return a text with objects numbered as they come, where it has their addresses, and numbers without their classes."""
    known: dict[str, str] = {}
    text = re.sub(r"(?:array|np\.float64)\(([^()\[\]]*)\)", r"\1", text)
    text = re.sub(
        r"ArrayVSpace_\{[^{}]*\},", "", text
    )  # what adds cotangents up, in HIPS autograd's trace of a derivative
    return re.sub(r"node_\d+", lambda found: known.setdefault(found[0], f"node_{chr(97 + len(known))}"), text)


def row_of(checkout: Path, name: str, repeat: int) -> str:
    """Return the row of the table for an example."""
    shorter = "; ".join(f"`{instead}`" for _, instead in SHORTER.get(name, []))
    try:
        (ours, theirs), seconds = in_turn(checkout, name, "hips", repeat)
        found = difference(ours, theirs)
    except (RuntimeError, ValueError) as error:
        return f"| {name} | {shorter} | fails | {str(error)[:100]} | | | |"
    says = "equal" if found <= ROUNDING else "differs"
    return f"| {name} | {shorter} | {says} | {found:.0e} | {times(seconds, least=0.2)} |"


def write(title: str, head: str, rows: list[str]) -> None:
    """Write a table to the page, between the comments that have its title."""
    begin, end = f"<!-- {title} -->\n", f"<!-- end of {title} -->\n"
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    lines = ["", head, "|" + "---|" * (head.count("|") - 1), *rows, "", ""]
    PAGE.write_text(before + begin + "\n".join(lines) + end + after, encoding="utf-8")


def main(checkout: Path, names: list[str], repeat: int) -> None:
    """Run the examples, print their rows, and write the table if all were run."""
    examples = checkout / "examples"
    found = sorted(str(p.relative_to(examples).with_suffix("")) for p in examples.rglob("*.py") if p.stem not in PARTS)
    rows = []
    for name in names or found:
        rows.append(row_of(checkout, name, repeat))
        print(rows[-1], flush=True)
    if not names:
        head = "| example | shortened to | what it prints | difference | HIPS autograd, s | agrad, s | ratio |"
        write("HIPS autograd's examples", head, rows)


def from_command_line(main: Callable[[Path, list[str], int], None], run_one: Callable[..., None]) -> None:
    """Run what the command line says: ``CHECKOUT [--repeat=N] [NAME ...]``, or one by ``CHECKOUT --one ...``."""
    place, *options = sys.argv[1:]
    if options[:1] == ["--one"]:
        run_one(Path(place), *options[1:])
    else:
        again = int(options.pop(0).removeprefix("--repeat=")) if options and options[0].startswith("--repeat=") else 1
        main(Path(place).resolve(), options, again)


if __name__ == "__main__":
    from_command_line(main, run_one)
