"""Programs that run on the stand-in for CuPy, each in an interpreter of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

HERE = Path(__file__).parent / "backends"


def python(source, *, fails=False):
    """Run a program in a fresh interpreter, after the stand-in has been made importable; give what it prints."""
    program = f"import sys; sys.path.insert(0, {str(HERE)!r})\n" + textwrap.dedent(source)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("AGRAD_")}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "program.py"  # compiled functions are those that have a text
        file.write_text(program, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-W", "error", str(file)],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
            timeout=120,
        )
    assert (done.returncode != 0) == fails, done.stderr
    return done.stderr if fails else done.stdout


START = """
    import fake_cupy
    cupy = fake_cupy.install()
    import numpy as np, agrad as ag
    def same(tensor, expected, device="cupy:0"):
        assert isinstance(tensor._raw, cupy.ndarray), type(tensor._raw)
        assert tensor.device == device, tensor.device
        np.testing.assert_allclose(tensor._raw.get(), expected, rtol=1e-12, strict=isinstance(expected, np.ndarray))
"""


def fake(source):
    out = python(textwrap.dedent(START) + textwrap.dedent(source) + "\nprint('done')")
    assert out.splitlines()[-1] == "done"
