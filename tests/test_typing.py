"""A user's type checker sees every generated function, method and module: mypy and pyright run on a user's file."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

#: A user's program, whose mistakes stand on these lines.
TYPED = Path(__file__).with_name("typed_program.py")
MISTAKES = {100: "Lineer", 101: "dim", 102: "str", 104: "meann"}

PROGRAM = """
    import agrad as ag
    from agrad import nn

    x = ag.tensor([1.0, 2.0], requires_grad=True)
    reveal_type(ag.multiply(x, x))
    reveal_type(x * 2 + 1)
    reveal_type(2 - x)
    reveal_type(x.exp().sum(dim=0))
    reveal_type(ag.where(x > 0, x, 0.0))
    reveal_type(ag.unstack(x))
    reveal_type(x.grad)
    reveal_type(nn.Linear(2, 3).weight)
    reveal_type(nn.functional.relu(x))
    reveal_type(ag.optim.SGD([x]).param_groups)
    reveal_type(ag.randn(3))
    reveal_type(ag.grad(ag.sin))
    def square(w: ag.Tensor) -> ag.Tensor:
        return ag.sum(w * w)
    reveal_type(ag.grad(square)(x))
    reveal_type(ag.func.value_and_grad(square)(x))
    reveal_type(ag.func.grad(lambda w: w.sum())(x))
    reveal_type(ag.func.vmap(square)(x))
    reveal_type(nn.Linear(2, 3)(x))
    @ag.elementwise(x=2.0, kernel=lambda xp, x: x + x)
    def twice(x: ag.Tensor, /) -> None:
        "2 x."
    reveal_type(twice(x))
    reveal_type(ag.grad(x, x))
    reveal_type(ag.clamp(input=x, min=0.0))
    reveal_type(ag.unbind(x, dim=0))
    reveal_type(ag.absolute(x))
    reveal_type(ag.long)
    ag.multiply(x)
    ag.sum(x, axes=0)
    ag.no_such_function
"""

REVEALED = [
    "agrad.core.tensor.Tensor",
    "agrad.core.tensor.Tensor",
    "agrad.core.tensor.Tensor",
    "agrad.core.tensor.Tensor",
    "agrad.core.tensor.Tensor",
    "tuple[agrad.core.tensor.Tensor, ...]",
    "agrad.core.tensor.Tensor | None",
    "agrad.nn.parameter.Parameter",
    "agrad.core.tensor.Tensor",
    "list[dict[str, Any]]",
    "agrad.core.tensor.Tensor",
    "def (*Any, **Any) -> Any",
    "agrad.core.tensor.Tensor",
    "tuple[agrad.core.tensor.Tensor, agrad.core.tensor.Tensor]",
    "Any",
    "agrad.core.tensor.Tensor",
    "agrad.core.tensor.Tensor",
    "agrad.core.tensor.Tensor",
    "Any",
    "agrad.core.tensor.Tensor",
    "tuple[agrad.core.tensor.Tensor, ...]",
    "agrad.core.tensor.Tensor",
    "agrad.dtypes.DType",
]


def mypy(tmp_path, *programs):
    """Give, by program, what mypy says of it: one run, which reads agrad once."""
    names = [f"program{i}.py" for i in range(len(programs))]
    for name, text in zip(names, programs, strict=True):
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), *names],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert not done.stderr
    return [[line for line in done.stdout.splitlines() if line.startswith(f"{name}:")] for name in names]


def test_mypy_knows_what_functions_give_and_take_and_finds_the_mistakes_of_a_program_and_nothing_else(tmp_path):
    said, of_typed = mypy(tmp_path, textwrap.dedent(PROGRAM), TYPED.read_text())
    notes = [line.partition("Revealed type is ")[2].strip('"') for line in said]
    found = [note.replace("builtins.", "").replace("typing.", "") for note in notes if note]
    assert found == REVEALED, said
    errors = [line for line in said if ": error:" in line]
    assert len(errors) == 3, said
    assert 'Missing positional argument "x2" in call to "multiply"' in errors[0] or "Too few arguments" in errors[0]
    assert '"axes"' in errors[1]
    assert '"no_such_function"' in errors[2]
    errors = [line.split(":", 2) for line in of_typed if ": error:" in line]
    assert mistakes([(int(line), message) for _, line, message in errors]) == MISTAKES, of_typed
    assert len(errors) == len(MISTAKES)


def mistakes(errors):
    """Lines of errors, with the word that each is about."""
    return {line: word for line, message in errors for word in [MISTAKES.get(line, message)] if word in message}


def test_pyright_finds_the_mistakes_of_a_program_and_nothing_else(tmp_path):
    if importlib.util.find_spec("pyright") is None:
        pytest.skip("pyright is not installed")
    pyright = [sys.executable, "-m", "pyright"]
    if subprocess.run([*pyright, "--version"], capture_output=True, check=False).returncode:
        pytest.skip("pyright's package cannot be fetched from npm here")
    program = tmp_path / "program.py"
    program.write_text(TYPED.read_text())
    done = subprocess.run(
        [*pyright, "--outputjson", "--pythonpath", sys.executable, program.name],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    found = json.loads(done.stdout)["generalDiagnostics"]
    errors = [(one["range"]["start"]["line"] + 1, one["message"]) for one in found]
    assert mistakes(errors) == MISTAKES, errors
    assert len(errors) == len(MISTAKES)
