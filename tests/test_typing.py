"""A user's type checker sees every generated function, method and module: mypy run on a user's file."""

from __future__ import annotations

import subprocess
import sys
import textwrap

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
    reveal_type(ag.grad(x, x))
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
    "Any",
]


def test_mypy_knows_what_functions_give_and_take(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(program)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    notes = [line.partition("Revealed type is ")[2].strip('"') for line in done.stdout.splitlines()]
    found = [note.replace("builtins.", "").replace("typing.", "") for note in notes if note]
    assert found == REVEALED, done.stdout + done.stderr
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert len(errors) == 3, done.stdout
    assert 'Missing positional argument "x2" in call to "multiply"' in errors[0] or "Too few arguments" in errors[0]
    assert '"axes"' in errors[1]
    assert '"no_such_function"' in errors[2]
