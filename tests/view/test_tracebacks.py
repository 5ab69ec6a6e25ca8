"""What terminals, notebooks and pytest show of errors and warnings: each in a process of its own."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import logging
import os
import pickle
import subprocess
import sys
import textwrap

import pytest

import agrad as ag
from agrad.core import names
from agrad.view import tracebacks

PROGRAM = """
    import agrad as ag

    def loss(w):
        return ag.sum(ag.matmul(w, ag.ones((3, 3))))

    x = ag.tensor([0.0, 1.0])
    ag.grad(loss)(x)
"""


def shown(program, tmp_path, **environment):
    file = tmp_path / "program.py"
    file.write_text(textwrap.dedent(program))
    done = subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )
    return done.stderr


def test_a_traceback_shows_the_users_lines_alone(tmp_path):
    text = shown(PROGRAM, tmp_path)
    files = [line.split('"')[1] for line in text.splitlines() if line.startswith("  File ")]
    assert files == [str(tmp_path / "program.py")] * 2, text
    assert "Called at" in text
    assert "AGRAD_TRACEBACK=full" in text.splitlines()[-1]


def test_all_frames_are_shown_when_asked_for(tmp_path):
    text = shown(PROGRAM, tmp_path, AGRAD_TRACEBACK="full")
    assert "<agrad.matmul>" in text
    assert "left out" not in text


def test_an_error_keeps_its_traceback_where_it_is_caught(tmp_path):
    program = PROGRAM.replace(
        "    ag.grad(loss)(x)", "    try:\n        ag.grad(loss)(x)\n    except ValueError as error:\n"
    )
    program += """        import traceback
        print("".join(traceback.format_exception(error)))
    """
    text = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True
    ).stdout
    assert "<agrad.matmul>" in text


def test_causes_are_shortened_too_and_errors_of_others_are_as_they_were(tmp_path):
    program = """
        import agrad as ag
        try:
            ag.reshape(ag.ones(3), (2, 2))
        except ValueError as error:
            raise KeyError("mine") from error
    """
    text = shown(program, tmp_path)
    assert "direct cause" in text
    assert "<agrad" not in text
    text = shown("import agrad\nraise KeyError('mine')\n", tmp_path)
    assert text.endswith("KeyError: 'mine'\n")
    assert "left out" not in text


#: Calls, and what is said where their error is shown.
EXPLAINED = {
    "ag.nanmean(x, dim=0)": "agrad.nanmean has axis= for it, and keepdims= for keepdim.",
    "ag.std(x, dim=1)": "PyTorch's divides by n - 1, as x.std(dim, unbiased=True) does; agrad.std has axis= for it.",
    "ag.std(x, unbiased=True)": "agrad.std has correction= for it.",
    "ag.grad(ag.sum, argnum=1)": "agrad.func.grad has argnums= for it.",
    "ag.jacobian(ag.sum, argnum=1)": "agrad.jacrev has argnums= for it.",
    "ag.std(x, 0)": "PyTorch's divides by n - 1, as x.std(dim, unbiased=True) does",
    "ag.nonzero(x, as_tuple=True)": "agrad.nonzero(x) gives a tuple of indices",
    "ag.where(x > 0)": "agrad.nonzero(condition) gives the indices where a condition holds.",
    "ag.squeeze(x)": "x.squeeze() removes every axis of length 1.",
    "x.max(0).values": "not there: x.max(1) and x.min(1) are the values: x.max(dim=1) gives PyTorch's pair",
    "ag.sum(x, 0, True)": "agrad.sum takes dtype= by name only.",
    "x.unique()": "here it is agrad.unique.",
    "x.dtype.is_floating_point": "a tensor tells it: x.is_floating_point().",
    "x.erf_()": "not there in place: use x = x.erf(...).",
    "ag.nn.Linear(2, 1).compile()": "use agrad.compile(module).",
    "import agrad.nn.quantized": "not there: there are no quantised dtypes",
    "from agrad.nn.utils import weight_norm": "here it is agrad.nn.utils.parametrizations.weight_norm.",
}

#: Shows the error of every file, as Python does when it ends a program.
EACH = """
import runpy, sys
for file in sys.argv[1:]:
    try:
        runpy.run_path(file)
    except Exception:
        sys.excepthook(*sys.exc_info())
    print("\\0", end="", file=sys.stderr)
"""


@pytest.fixture(scope="module")
def explained(tmp_path_factory):
    """Give what is shown of the calls, each in a program of its own; one process runs them."""
    folder = tmp_path_factory.mktemp("calls")
    files = [folder / f"{i}.py" for i in range(len(EXPLAINED))]
    for file, call in zip(files, EXPLAINED, strict=True):
        file.write_text(f"import agrad as ag\nx = ag.ones(3)\n{call}\n")
    done = subprocess.run([sys.executable, "-c", EACH, *files], capture_output=True, text=True, check=True)
    return dict(zip(EXPLAINED, done.stderr.split("\0")[:-1], strict=True))


@pytest.mark.parametrize("call", EXPLAINED)
def test_names_of_other_libraries_are_explained_where_an_error_is_shown(call, explained):
    assert EXPLAINED[call].removesuffix(".") in explained[call]  # a note is a sentence, a message none
    assert call in explained[call]


@pytest.mark.parametrize(
    ("function", "keyword", "here"),
    [
        ("std", "ddof", "agrad.std has correction= for it"),
        ("concat", "tensors", "agrad.concat takes it by position, without a name"),
        ("sin", "input", "agrad.sin takes it by position, without a name"),
    ],
)
def test_keywords_of_numpy_and_pytorch_are_known(function, keyword, here):
    assert names.keyword(function, keyword) == f"; {here}"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda x: ag.sum(x, dims=0), "sum() got an unexpected keyword argument 'dims'; agrad.sum has axis= for it"),
        (
            lambda x: ag.var(x, ddof=1),
            "var() got an unexpected keyword argument 'ddof'; agrad.var has correction= for it",
        ),
        (lambda x: ag.sum(x, colour=0), "sum() got an unexpected keyword argument 'colour'"),
    ],
)
def test_logs_say_what_a_keyword_is_called(call, said, caplog):
    """Whoever catches the error has the hint: it is part of the message."""
    with pytest.raises(TypeError) as caught:
        call(ag.ones(3))
    logging.getLogger("program").error("a step failed", exc_info=caught.value)
    assert str(caught.value) == said
    assert str(pickle.loads(pickle.dumps(caught.value))) == said
    tracebacks.explain(caught.value)  # where it is shown nothing is said twice
    assert not getattr(caught.value, "__notes__", ())
    assert f"{said}\n" in f"{caplog.text}\n"


@pytest.mark.parametrize(
    "call",
    [
        "array * x",
        "ag.grad(lambda x: ag.sum(array * x))(x)",
        "array_api_strict.sin(x)",
        "raise ValueError(f'Cannot multiply {type(x)}')",  # as MLX does
    ],
)
def test_what_to_write_where_a_library_refuses_tensors(call, tmp_path):
    """array-api-strict's operators raise where they should give way, as dpnp's do."""
    pytest.importorskip("array_api_strict")
    start = "import array_api_strict\nimport agrad as ag\narray, x = array_api_strict.ones(3), ag.ones(3)\n"
    said = "take no tensors: write tensor * array, or ag.asarray(array) * tensor, and agrad's functions."
    assert said in shown(f"{start}{call}\n", tmp_path)


def test_a_warning_of_numpys_names_the_operation_and_the_users_line(tmp_path):
    program = """
        import agrad as ag
        x = ag.tensor([0.0, 1.0], requires_grad=True)
        y = ag.log(x)
        z = 1 / x
    """
    lines = shown(program, tmp_path).splitlines()
    file = tmp_path / "program.py"
    assert lines[0] == f"{file}:4: RuntimeWarning: divide by zero encountered in log (in agrad.log)"
    assert lines[1] == "  y = ag.log(x)"
    assert lines[2].startswith(f"{file}:5: RuntimeWarning: divide by zero encountered in ")
    assert "(in agrad Tensor.__rtruediv__)" in lines[2]


def test_a_cell_is_named_as_ipython_names_it(tmp_path):
    if importlib.util.find_spec("IPython") is None:
        pytest.skip("IPython is not installed")
    program = """
        from IPython.core.interactiveshell import InteractiveShell
        shell = InteractiveShell.instance(colors="NoColor")
        shell.run_cell("import agrad as ag; x = ag.tensor([0.0, 1.0], requires_grad=True)", store_history=True)
        shell.run_cell("def loss(w):\\n    return ag.sum(ag.matmul(w, ag.ones((3, 3))))", store_history=True)
        shell.run_cell("ag.grad(loss)(x)", store_history=True)
        shell.run_cell("ag.nanmean(x, dim=0)", store_history=True)
    """
    file = tmp_path / "program.py"
    file.write_text(textwrap.dedent(program))
    environment = {**os.environ, "IPYTHONDIR": str(tmp_path)}
    text = subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True, check=True, env=environment
    ).stdout
    assert "Called at Cell In[2], line 2." in text
    assert "agrad.nanmean has axis= for it, and keepdims= for keepdim." in text
    assert "entry.py" not in text
    assert "<agrad" not in text


def test_pytest_leaves_the_frames_out(tmp_path):
    test = tmp_path / "test_program.py"
    test.write_text("import agrad as ag\n\ndef test_it():\n    ag.matmul(ag.ones(2), ag.ones(3))\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(test)]
    if "agrad" not in importlib.metadata.entry_points(group="pytest11").names:
        command += ["-p", "_agrad_pytestplugin"]
    text = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path).stdout
    assert "ag.matmul(ag.ones(2), ag.ones(3))" in text
    assert "entry.py" not in text
    command = [*command, "-o", "agrad_traceback=full"]
    text = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path).stdout
    assert "entry.py" in text


def test_a_module_of_the_users_is_none_of_agrads_by_its_name(tmp_path):
    (tmp_path / "agrad_experiments.py").write_text("def run(f, w):\n    return f(w)\n")
    program = PROGRAM.replace(
        "ag.grad(loss)(x)", "import agrad_experiments\n    agrad_experiments.run(ag.grad(loss), x)"
    )
    text = shown(program, tmp_path)
    assert f'File "{tmp_path / "agrad_experiments.py"}", line 2, in run' in text
    assert "agrad_numpy" not in shown("import agrad as ag\nag.linalg.inv(ag.zeros((2, 2)))", tmp_path)
