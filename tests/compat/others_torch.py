"""Run PyTorch's examples, from a checkout, on it and on agrad; write what they print and cost to docs/others.md.

``python tests/compat/others_torch.py CHECKOUT [--repeat=N] [NAME ...]``, where PyTorch is installed. Changed are the lines that import torch, and
what `CHANGES` says. Nothing is downloaded: pictures, texts and the pole to be balanced are made here. Both libraries draw the
same numbers, of NumPy's, and compute in double precision where a program does not say otherwise.
"""

from __future__ import annotations

import re
import sys
import time
import types
from pathlib import Path
from typing import Any, NamedTuple, Self

sys.path.insert(0, str(Path(__file__).parent))

from others import ROUNDING, Anything, difference, digits, from_command_line, in_turn, times, write

#: The line that tells agrad of PyTorch's default.
FLOAT32 = "torch.set_default_dtype(torch.float32)"


class Example(NamedTuple):
    """One program.

    Attributes
    ----------
    path : str
        In the checkout.
    options : str
        On its command line.
    lines : list
        Patterns, and what stands in their place for agrad, beside the imports; an empty one adds a line below them.
    shorter : list
        Patterns, and what stands in their place for both libraries.
    """

    path: str
    options: str = ""
    lines: list[tuple[str, str]] = []
    shorter: list[tuple[str, str]] = []


#: Of the language model what names ONNX, and how it keeps the best module: its state instead.
KEEPS_STATE = [
    ("^import torch.onnx$", ""),
    (r"torch\.save\(model, f\)", "torch.save(model.state_dict(), f)"),
    (
        r"    if args\.model == 'Transformer':\n        safe_globals = .*model = torch\.load\(f\)",
        "    model.load_state_dict(torch.load(f))",
    ),
]

#: Its losses with more digits.
LONGER = [(f"{word} {{:5.2f}}", f"{word} {{:.12f}}") for word in ("'loss", "valid loss", "test loss")]

#: PyTorch's default, and its divisor of a variance, n - 1.
CARTPOLE = [("", FLOAT32), (r"returns\.std\(\)", "returns.std(correction=1)")]

#: By name the programs that run.
EXAMPLES = {
    "mnist": Example("mnist/main.py", "--epochs 1 --batch-size 32 --test-batch-size 50 --log-interval 5"),
    "mnist_rnn": Example("mnist_rnn/main.py", "--epochs 2 --batch-size 32 --test-batch-size 50 --log-interval 5"),
    "mnist_forward_forward": Example(
        "mnist_forward_forward/main.py", "--epochs 30 --train_size 200 --test_size 50 --log-interval 5"
    ),
    "vae": Example("vae/main.py", "--epochs 2 --batch-size 50 --log-interval 2"),
    "regression": Example("regression/main.py"),
    "time_sequence_prediction": Example(
        "time_sequence_prediction/train.py", "--steps 1", shorter=[("future = 1000", "future = 20")]
    ),
    "word_language_model, LSTM": Example(
        "word_language_model/main.py", "--epochs 1 --dropout 0 --bptt 10 --log-interval 1", KEEPS_STATE, LONGER
    ),
    "word_language_model, Transformer": Example(
        "word_language_model/main.py",
        "--epochs 1 --dropout 0 --bptt 10 --log-interval 1 --model Transformer --lr 1",
        KEEPS_STATE,
        LONGER,
    ),
    "dcgan": Example(
        "dcgan/main.py", "--dataset fake --niter 1 --ngf 8 --ndf 8 --manualSeed 1 --workers 0 --batchSize 16"
    ),
    "reinforce": Example("reinforcement_learning/reinforce.py", "--log-interval 1", CARTPOLE),
    "actor_critic": Example("reinforcement_learning/actor_critic.py", "--log-interval 1", CARTPOLE),
    "gcn": Example("gcn/main.py", "--epochs 40 --val-every 4", [("", FLOAT32)]),
    "gat": Example("gat/main.py", "--epochs 4 --val-every 1 --num-heads 2 --hidden-dim 8", [("", FLOAT32)]),
}

#: Why a program cannot be run here.
LEFT_OUT = {
    "siamese_network, fast_neural_style, super_resolution, imagenet": "networks or pictures of torchvision's and Pillow's",
    "language_translation": "torchtext, spaCy and what they download",
    "mnist_hogwild, distributed, fx, cpp": "processes that share parameters, several machines, PyTorch's own graphs, C++",
}


# -- what a program finds in place of what it would download ------------------------------------------------------------


class Pictures:
    """torchvision's datasets: made pictures of one kind per class, and their labels."""

    def __init__(
        self, root: str = "", train: bool = True, download: bool = False, transform: Any = None, **_: Any
    ) -> None:
        found = digits()[:2] if train else digits()[2:]
        self.pictures, self.labels = (part[:200] for part in found)
        self.transform = transform

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, index: int) -> Any:
        return self.transform(self.pictures[index]), int(self.labels[index])


class Fake(Pictures):
    """torchvision's FakeData: noise."""

    def __init__(self, image_size: tuple[int, ...], transform: Any) -> None:
        import numpy as np

        self.pictures = np.random.RandomState(3).randint(0, 256, (48, *image_size[1:], image_size[0])).astype(np.uint8)
        self.labels, self.transform = np.zeros(48, int), transform


class Opened(Anything):
    """A download, or an archive of it, whose files `write_data` has written."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...


class Pole:
    """Gymnasium's CartPole: a pole on a cart, of which each step says how it stands (Barto, Sutton and Anderson 1983)."""

    spec = types.SimpleNamespace(reward_threshold=40)

    def __init__(self) -> None:
        import numpy as np

        self.draws = np.random.RandomState(5)

    def reset(self, seed: int = 0) -> Any:
        self.state, self.steps = self.draws.uniform(-0.05, 0.05, 4), 0
        return self.state, {}

    def step(self, action: int) -> Any:
        import numpy as np

        _, speed, angle, turn = self.state
        push = (10.0 if action else -10.0) + 0.05 * turn**2 * np.sin(angle)
        spin = (9.8 * np.sin(angle) - np.cos(angle) * push / 1.1) / (0.5 * (4 / 3 - 0.1 * np.cos(angle) ** 2 / 1.1))
        gain = (push - 0.05 * spin * np.cos(angle)) / 1.1
        self.state = self.state + 0.02 * np.array([speed, gain, turn, spin])
        self.steps += 1
        ends = abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.21
        return self.state, 1.0, bool(ends), self.steps >= 500, {}


def stand_ins(library: Any) -> dict[str, Any]:
    """Return modules by name, over one of the libraries."""
    import numpy as np

    def to_tensor(picture: Any) -> Any:
        picture = picture[:, :, None] if picture.ndim == 2 else picture
        return library.tensor(np.moveaxis(picture, -1, 0) / 255.0, dtype=library.get_default_dtype())

    def normalize(mean: Any, std: Any) -> Any:
        return lambda x: (x - mean[0]) / std[0]

    def compose(steps: Any) -> Any:
        def composed(x: Any) -> Any:
            for step in steps:
                x = step(x)
            return x

        return composed

    transforms = {"ToTensor": lambda: to_tensor, "Normalize": normalize, "Compose": compose, "Lambda": lambda f: f}
    made: dict[str, Any] = {
        "torchvision.datasets": {"MNIST": Pictures, "FakeData": Fake},
        "torchvision.transforms": transforms,
        "torchvision.utils": {"save_image": Anything()},
        "gymnasium": {"make": lambda *_, **__: Pole()},
        "requests": {"get": Opened},
        "tarfile": {"open": Opened},
        "matplotlib": {},
        "matplotlib.pyplot": {},
        "torchvision": {},
    }
    found = {}
    for name, members in made.items():
        module: Any = types.ModuleType(name)
        module.__getattr__ = Anything().__getattr__
        vars(module).update(members)
        found[name] = module
    for name, module in found.items():
        outer, _, inner = name.rpartition(".")
        if outer:
            setattr(found[outer], inner, module)
    return found


def write_data(library: Any) -> None:
    """Write what programs read from the folder that they run in."""
    import numpy as np

    draws = np.random.RandomState(4)
    Path("data/wikitext-2").mkdir(parents=True)
    for part, lines in (("train", 150), ("valid", 20), ("test", 20)):
        words = [" ".join(f"w{int(n)}" for n in draws.exponential(20, 12)) for _ in range(lines)]
        Path(f"data/wikitext-2/{part}.txt").write_text("\n".join(words), encoding="utf-8")
    Path("cora").mkdir()
    papers = [f"{n} {' '.join(map(str, draws.randint(0, 2, 40)))} topic{n % 7}" for n in range(1650)]
    Path("cora/cora.content").write_text("\n".join(papers), encoding="utf-8")
    cites = {(a, b) for a, b in draws.randint(0, len(papers), (5000, 2)) if a != b}
    Path("cora/cora.cites").write_text("\n".join(f"{a} {b}" for a, b in sorted(cites)), encoding="utf-8")
    waves = np.sin((np.arange(40) + draws.randint(-80, 80, (8, 1))) / 20)
    if library.__name__ == "torch":  # which by default refuses the file that the program's own script writes
        kinds = [np._core.multiarray._reconstruct, np.ndarray, np.dtype, type(waves.dtype)]
        library.serialization.add_safe_globals(kinds)
    with open("traindata.pt", "wb") as file:
        library.save(waves, file)


# -- the same numbers drawn ---------------------------------------------------------------------------------------------


def draw_alike(name: str) -> None:
    """Let a library draw NumPy's numbers, in the order in which a program asks for them."""
    import numpy as np

    source = np.random.RandomState(0)
    if name == "agrad":
        from agrad_numpy.backend import NumpyBackend

        def random(self: Any, kind: str, shape: Any, key: Any, *, dtype: Any, device: Any, **p: Any) -> Any:
            if kind == "integers" and p["high"] >= 2**31 - 1:  # a seed, of which nothing is drawn here
                return np.zeros(shape, dtype)
            draws = {
                "uniform": lambda: source.random_sample(shape),
                "normal": lambda: source.standard_normal(shape),
                "integers": lambda: source.randint(p["low"], p["high"], shape),
                "permutation": lambda: source.permutation(p["n"]),
            }
            return np.asarray(draws[kind]()).astype(dtype)

        NumpyBackend.random = random  # type: ignore[method-assign]
        return
    import torch
    from torch.distributions import Categorical

    def tensor(values: Any, like: Any = None) -> Any:
        dtype = torch.get_default_dtype() if like is None else like.dtype
        return torch.tensor(np.asarray(values), dtype=dtype)

    def shape_of(size: Any) -> Any:
        return tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size

    def fill(draw: Any) -> Any:
        def filled(self: Any, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Any:
            return self.copy_(tensor(draw(tuple(self.shape), a, b), self))

        return filled

    torch.Tensor.uniform_ = fill(lambda shape, a, b: source.random_sample(shape) * (b - a) + a)
    torch.Tensor.normal_ = fill(lambda shape, mean, std: source.standard_normal(shape) * std + mean)
    torch.randn = lambda *size, **_: tensor(source.standard_normal(shape_of(size)))
    torch.rand = lambda *size, **_: tensor(source.random_sample(shape_of(size)))
    torch.randn_like = lambda x: tensor(source.standard_normal(tuple(x.shape)), x)
    torch.randperm = lambda n, **_: torch.tensor(source.permutation(n))
    torch.randint = lambda high, size, **_: torch.tensor(source.randint(0, high, tuple(size)))

    # PyTorch's own draws a permutation more when it ends, and drops it
    torch.utils.data.RandomSampler.__iter__ = lambda self: iter(torch.randperm(len(self.data_source)).tolist())

    def dropout(x: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        if not training or p == 0:
            return x
        return x * tensor(source.random_sample(tuple(x.shape)) >= p, x) / (1 - p)

    torch.nn.functional.dropout = torch.nn.functional.dropout2d = dropout
    fused = torch.nn.functional.scaled_dot_product_attention

    def attention(q: Any, k: Any, v: Any, mask: Any = None, p: float = 0.0, is_causal: bool = False) -> Any:
        """Drop weights by these numbers; PyTorch's own function draws within, and others."""
        if p == 0:
            return fused(q, k, v, mask, p, is_causal)
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if is_causal:
            mask = torch.full(scores.shape[-2:], -torch.inf).triu(1)
        return dropout((scores if mask is None else scores + mask).softmax(-1), p) @ v

    torch.nn.functional.scaled_dot_product_attention = attention

    def sample(self: Any, sample_shape: Any = ()) -> Any:
        places = tensor(source.random_sample((*sample_shape, *self.batch_shape, 1)))
        return (self.probs.cumsum(-1) <= places).sum(-1).clamp(max=self.probs.shape[-1] - 1)

    Categorical.sample = sample


# -- one example, in a process of its own -------------------------------------------------------------------------------

IMPORT = re.compile(r"^( *)(import|from) torch(?![a-z])(.*)$", re.MULTILINE)


def imported(found: re.Match[str]) -> str:
    """Return a line that imports torch as one that imports agrad."""
    space, word, rest = found.groups()
    if word == "from" or " as " in rest:
        return f"{space}{word} agrad{rest}"
    return f"{space}import agrad{rest}; import agrad as torch" if rest.strip() else f"{space}import agrad as torch"


def changed(text: str, example: Example) -> str:
    """Return a program for agrad."""
    for pattern, instead in example.lines:
        if pattern:
            text, count = re.subn(pattern, instead, text, flags=re.MULTILINE | re.DOTALL)
            assert count == 1, f"{pattern} stands there {count} times"
        else:
            text = re.sub(r"^(import torch)$", rf"\1\n{instead}", text, count=1, flags=re.MULTILINE)
    return IMPORT.sub(imported, text)


def run_one(checkout: Path, name: str, library: str) -> None:
    """Run an example; print what it prints, and the seconds of the processor in the last line."""
    example = EXAMPLES[name]
    path = checkout / example.path
    if library == "agrad":
        import agrad as chosen
    else:
        import torch as chosen

        if ("", FLOAT32) not in example.lines:
            chosen.set_default_dtype(chosen.float64)
        chosen.set_num_threads(1)
    write_data(chosen)
    draw_alike(library)
    sys.modules.update(stand_ins(chosen))

    def text_of(file: Path) -> str:
        text = file.read_text(encoding="utf-8")
        for pattern, instead in example.shorter if file == path else []:
            text, count = re.subn(pattern, instead, text)
            assert count == 1, f"{pattern} stands there {count} times"
        here = example if file == path else example._replace(lines=[])
        return changed(text, here) if library == "agrad" else text

    for beside in path.parent.glob("*.py"):
        Path(beside.name).write_text(text_of(beside), encoding="utf-8")
    sys.path.insert(0, ".")
    sys.argv = [path.name, *example.options.split()]
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    begun = time.process_time()
    exec(compile(Path(path.name).read_text(encoding="utf-8"), path.name, "exec"), module.__dict__)
    print(f"\n{time.process_time() - begun}")


# -- both, compared -----------------------------------------------------------------------------------------------------

#: What is not compared: times, and the names of devices.
TIMES = re.compile(r"\btime: *[\d.]+s|ms/batch *[\d.]+|\([\d.]+s\)|Using device: \w+|Using \w+ device")


def row_of(checkout: Path, name: str, repeat: int) -> str:
    """Return the row of the table for an example."""
    example = EXAMPLES[name]
    lines = (
        "; ".join(f"`{new.strip()}`" if new else f"without `{old.strip('^$')}`" for old, new in example.lines) or "0"
    )
    try:
        texts, seconds = in_turn(checkout, name, "torch", repeat, __file__)
        found = difference(*(TIMES.sub("", text) for text in texts))
    except (RuntimeError, ValueError) as error:
        return f"| {name} | {lines} | fails | {str(error)[:110]} | | | |"
    says = "equal" if found <= ROUNDING else "differs"
    return f"| {name} | {lines} | {says} | {found:.0e} | {times(seconds)} |"


def main(checkout: Path, names: list[str], repeat: int) -> None:
    """Run the examples, print their rows, and write the table if all were run."""
    rows = []
    for name in names or EXAMPLES:
        rows.append(row_of(checkout, name, repeat))
        print(rows[-1], flush=True)
    if not names:
        rows += [f"| {name} | | not run | {why} | | | |" for name, why in LEFT_OUT.items()]
        write(
            "PyTorch's examples",
            "| example | lines | what it prints | difference | PyTorch, s | agrad, s | ratio |",
            rows,
        )


if __name__ == "__main__":
    from_command_line(main, run_one)
