"""The examples run as their users run them: from a shell, by exit status, text and files."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import agrad as ag
from agrad.testing.kit import load_plugin

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def run(name, *arguments):
    """Run an example in a terminal wide enough that no line is broken."""
    return started(EXAMPLES / name, *arguments)


def started(*arguments):
    kept = {key: value for key, value in os.environ.items() if not key.startswith("AGRAD_")}
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**kept, "AGRAD_NATIVE_CACHE": "off", "COLUMNS": "200", "PYTHONWARNINGS": "error::UserWarning:agrad"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


#: Runs a program as a shell would, once for each of some arguments, in one process: its libraries take the time.
EACH = """
import contextlib, io, json, runpy, sys

program, runs = sys.argv[1], json.loads(sys.argv[2])
for arguments in runs:
    sys.argv[:] = [program, *arguments]
    status, said = 0, io.StringIO()
    with contextlib.redirect_stderr(said):
        try:
            runpy.run_path(program, run_name="__main__")
        except SystemExit as end:
            status = end.code
    print(json.dumps([status, said.getvalue()]))
"""


def refused(name, mistakes, *beside):
    """Check that an example explains what is wrong with its arguments, and ends at once."""
    runs = json.dumps([[*arguments, *map(str, beside)] for arguments, _ in mistakes])
    done = started("-c", EACH, EXAMPLES / name, runs)
    assert done.returncode == 0, done.stdout + done.stderr
    for line, (_, words) in zip(done.stdout.splitlines(), mistakes, strict=True):
        status, said = json.loads(line)
        assert status == 2
        assert words in said
        assert "Traceback" not in said


class TestDigits:
    @pytest.fixture(autouse=True)
    def _needs(self):
        for library in ("sklearn", "matplotlib", "rich"):
            pytest.importorskip(library)

    @pytest.mark.long
    def test_the_perceptron_learns(self, tmp_path):
        done = run("digits.py", "--output", tmp_path, "--require", "0.97")
        assert done.returncode == 0, done.stdout + done.stderr
        last = re.search(r"Trained the mlp on numpy for 100 epochs in [\d.]+ s\. Test accuracy: ([\d.]+)%", done.stdout)
        assert float(last[1]) >= 97
        assert str(tmp_path / "mlp.png") in done.stdout
        assert re.search(r"│\s+100 │\s+0\.\d{4} │", done.stdout), "the table has no line for the last epoch"
        assert not done.stderr

    @pytest.mark.long
    def test_the_convolutional_network_learns(self, tmp_path):
        done = run("digits.py", "--model", "cnn", "--epochs", 8, "--output", tmp_path, "--require", "0.95")
        assert done.returncode == 0, done.stdout + done.stderr
        assert (tmp_path / "cnn.png").exists()

    def test_a_required_accuracy_that_is_missed_fails_and_the_picture_is_one(self, tmp_path):
        done = run("digits.py", "--epochs", 1, "--output", tmp_path / "new" / "folder", "--require", "1.0")
        assert done.returncode == 1
        assert "The test accuracy is below the required 100.00%." in done.stderr
        header = (tmp_path / "new" / "folder" / "mlp.png").read_bytes()[:24]
        assert header.startswith(b"\x89PNG")
        width, height = struct.unpack(">II", header[16:])
        assert (width, height) == (1500, 960)

    @pytest.mark.long
    def test_the_seed_decides(self, tmp_path):
        texts = [
            run("digits.py", "--epochs", 2, "--seed", seed, "--output", tmp_path).stdout.split("Trained")[0]
            for seed in (5, 5, 6)
        ]
        tables = [text.partition("Loss and accuracy")[2] for text in texts]
        assert tables[0] == tables[1] != tables[2]

    def test_mistakes_are_explained(self, tmp_path):
        mistakes = [
            (["--backend", "abacus"], "--backend abacus: unknown backend 'abacus'. Installed backends:"),
            (["--epochs", "0"], "--epochs and --batch-size must be at least 1"),
            (["--require", "97"], "--require takes a share from 0 to 1"),
            (["--model", "rnn"], "invalid choice: 'rnn'"),
        ]
        refused("digits.py", mistakes, "--output", tmp_path)
        assert not list(tmp_path.iterdir())

    @pytest.mark.long
    def test_dask_trains_the_same_network(self, tmp_path, dask_backend):
        text = run("digits.py", "--epochs", 2, "--batch-size", 400, "--output", tmp_path, "--backend", "dask").stdout
        table = run("digits.py", "--epochs", 2, "--batch-size", 400, "--output", tmp_path).stdout
        rows = [re.search(r"│\s+2 │.*", t)[0] for t in (text, table)]
        assert "Trained the mlp on dask" in text
        numbers = [[float(v) for v in re.findall(r"\d+\.\d+", row)] for row in rows]
        assert numbers[0] == pytest.approx(numbers[1], rel=1e-3)  # four digits are printed


@pytest.mark.parametrize("library", ["dask", "cubed"])
def test_one_word_chooses_dask_or_cubed(library, tmp_path):
    for needed in ("zarr", library, f"agrad_{library}"):
        pytest.importorskip(needed)
    done = run("dask_or_cubed.py", library, tmp_path / "store", "--days", 70, "--steps", 8)
    assert done.returncode == 0, done.stdout + done.stderr
    offset, slope = re.search(r"offset ([\d.]+) .*, slope ([\d.]+) ", done.stdout).groups()
    assert float(offset) == pytest.approx(0.3, abs=0.01)
    assert float(slope) == pytest.approx(1.1, abs=0.01)
    done = run("dask_or_cubed.py", library, tmp_path / "store", "--memory", "151MB" if library == "cubed" else "1MB")
    assert done.returncode == 1
    assert "memory" in done.stderr


class TestLargerThanMemory:
    @pytest.fixture(autouse=True)
    def _needs(self):
        for library in ("dask", "rich", "scipy", "zarr"):
            pytest.importorskip(library)

    @pytest.mark.long
    def test_it_learns_within_the_limit(self):
        done = run("larger_than_memory.py", "--small", "--passes", 6, "--require", "0.85")
        assert done.returncode == 0, done.stdout + done.stderr
        rows = re.findall(r"│ (.*?) +│ (.*?) +│ (\d+) +│ [\d.]+ +│ ([\d.]+)% +│ ([\d.]+)% +│", done.stdout)
        assert [row[:2] for row in rows] == [
            ("logistic regression", "L-BFGS"),
            ("network 256-32-3", "minibatches"),
            ("network 256-32-3", "L-BFGS from there"),
        ]
        assert float(rows[0][3]) == pytest.approx(float(rows[0][4]), abs=1.0), "logistic regression is at its best"
        error = re.search(r"differ from the true ones by ([\d.]+)%", done.stdout)
        assert float(error[1]) < 10
        last = re.search(r"Store: (\d+) MiB\. Memory allowed for data: (.*)\. Peak .*: (\d+) MiB, of", done.stdout)
        if sys.platform == "linux":
            assert last[2] == "96 MiB"
        assert int(last[1]) == 320
        assert int(last[3]) < 320

    @pytest.mark.long
    def test_on_worker_processes(self, tmp_path):
        pytest.importorskip("distributed")
        arguments = ("--small", "--rows", 40_960, "--passes", 2, "--memory", 256, "--cluster", 2, "--store", tmp_path)
        done = run("larger_than_memory.py", *arguments, "--require", "1.0")
        assert done.returncode == 1, done.stdout + done.stderr
        assert "below the required 100.00%" in done.stderr
        assert "Peak on 2 worker processes" in done.stdout
        assert (tmp_path / "X").exists(), "a store that was named is kept"

    def test_mistakes_are_explained(self):
        mistakes = [
            (["--rows", "100"], "--rows must be at least 163840: 20 chunks"),
            (["--passes", "0"], "--memory, --passes, --epochs and --cluster must be at least 1"),
        ]
        refused("larger_than_memory.py", mistakes)


#: What HIPS autograd 1.9.1 prints for ``--autograd --short``.
IN_NUMPYS_STYLE = """\
gaussian_process: 38.935423 0.127218 0.021402 -0.343690
kalman_filter: 3.941818 -1.003417 1.998876 -2.003006 -1.010008
hamiltonian_sampler: 2.000000 1.434011 -3.122646 0.969329
"""


class TestInNumpysStyle:
    @pytest.mark.parametrize("backend", ["numpy", "dask"])
    def test_the_numbers_are_those_of_hips_autograd(self, backend):
        done = run("numpy_style.py", "--short", "--backend", backend)
        assert done.returncode == 0, done.stdout + done.stderr
        found = re.sub(r" \(.* ms\)", "", done.stdout)
        assert found == IN_NUMPYS_STYLE


class TestExportStep:
    def test_the_exported_file_trains_alone(self, tmp_path):
        done = run("export_step.py", "--steps", 60, "--output", tmp_path / "new")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "xp.tanh" in done.stdout
        within = float(re.search(r"After 60 steps of the program the loss is ([\d.]+)\.", done.stdout)[1])
        first, last = re.findall(r"^ +\d+  ([\d.]+)$", done.stdout, re.MULTILINE)
        assert float(last) == pytest.approx(within, abs=1e-9)
        assert float(last) < float(first)
        text = (tmp_path / "new" / "step.py").read_text(encoding="utf-8")
        assert re.findall(r"^(?:import|from) .*", text, re.MULTILINE) == ["import numpy as np"]
        assert (tmp_path / "new" / "step.agrad").exists()

    def test_mistakes_are_explained(self):
        done = run("export_step.py", "--steps", 0)
        assert done.returncode == 2
        assert "--steps must be at least 1" in done.stderr


class TestKalmanFilter:
    def test_it_fits(self):
        done = run("kalman_filter.py", "--length", 300, "--steps", 40)
        assert done.returncode == 0, done.stdout + done.stderr
        losses = [float(found) for found in re.findall(r"loss ([\d.]+)", done.stdout)]
        assert losses[-1] < losses[0] - 0.3
        noise = re.search(r"^noise +([\d.]+)", done.stdout, re.MULTILINE)[1]
        assert float(noise) == pytest.approx(0.3, rel=0.3)
        assert "of which 2 are loops of 300 calls" in done.stdout
        assert not done.stderr

    def test_its_likelihood_is_that_of_all_measurements_at_once(self):
        """They are normal together: their covariance follows from the system, without a filter."""
        spec = importlib.util.spec_from_file_location("kalman_filter", EXAMPLES / "kalman_filter.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        n, values = 9, {"stiffness": 1.3, "friction": 0.4, "push": 0.7, "noise": 0.5}
        measured = module.measurements(n, seed=4)
        h, k, b = 0.1, values["stiffness"], values["friction"]
        rates = np.array([[0.0, 1.0], [-k, -b]])
        a = np.eye(2) + h * rates + 0.5 * h**2 * rates @ rates
        state, covariance = np.eye(2), np.zeros((n, n))
        push = np.diag([0.0, h * values["push"] ** 2])
        states = []
        for _ in range(n):
            state = a @ state @ a.T + push
            states.append(state)
        for i in range(n):
            for j in range(i, n):
                covariance[i, j] = covariance[j, i] = (np.linalg.matrix_power(a, j - i) @ states[i])[0, 0]
        covariance += values["noise"] ** 2 * np.eye(n)
        square = measured @ np.linalg.solve(covariance, measured)
        wanted = 0.5 * (square + np.linalg.slogdet(2 * np.pi * covariance)[1]) / n
        found = module.loss({name: ag.asarray(np.log(value)) for name, value in values.items()}, measured)
        assert float(found) == pytest.approx(wanted, rel=1e-12)

    def test_mistakes_are_explained(self):
        done = run("kalman_filter.py", "--length", 1)
        assert done.returncode == 2
        assert "--length must be at least 2" in done.stderr


class TestCalibratedOde:
    def test_the_rates_are_those_of_the_literature(self):
        """Carpenter, Predator-prey population dynamics, Stan case study, 2018: within the standard errors."""
        pytest.importorskip("scipy")
        done = run("calibrated_ode.py")
        assert done.returncode == 0, done.stdout + done.stderr
        rows = re.findall(r"^ *([a-z ]+?(?: in 1900)?)  +([\d.]+)  \+- +([\d.]+)%$", done.stdout, re.MULTILINE)
        found = [(float(value), float(error) / 100) for _, value, error in rows]
        for (value, error), expected in zip(found, (0.55, 0.028, 0.80, 0.024, 33.96, 5.95), strict=True):
            assert value == pytest.approx(expected, rel=error)
        differences = re.findall(r"by (\de-\d+)", done.stdout)
        assert len(differences) == 2
        assert max(map(float, differences)) < 1e-3
        assert not done.stderr

    def test_mistakes_are_explained(self):
        done = run("calibrated_ode.py", "--years", 2)
        assert done.returncode == 2
        assert "--years must be from 4 to 21" in done.stderr


class TestFitByData:
    def test_the_gradient_of_a_fit_is_that_of_repeated_fits(self):
        """The fit is that of Bates and Watts, Nonlinear regression analysis, 1988: 212.7 and 0.0641."""
        pytest.importorskip("scipy")
        done = run("fit_by_data.py")
        assert done.returncode == 0, done.stdout + done.stderr
        rows = re.findall(r"^ +[\d.]+ +\d+ +(-?[\d.]+) +(-?[\d.]+)$", done.stdout, re.MULTILINE)
        assert len(rows) == 12
        for mine, theirs in rows:
            assert float(mine) == pytest.approx(float(theirs), abs=5e-4)
        assert "Fastest rate 212.7 +- 7.4, half of it at 0.0641 +- 0.0092." in done.stdout
        assert not done.stderr


class TestXarrayCalibration:
    @pytest.fixture(autouse=True)
    def _needs(self):
        for library in ("scipy", "xarray"):
            pytest.importorskip(library)

    @pytest.mark.parametrize("backend", ["numpy", pytest.param("dask", marks=pytest.mark.long)])
    def test_the_parameters_are_found(self, backend):
        pytest.importorskip(backend)
        done = run("xarray_calibration.py", "--small", "--backend", backend, "--require", "0.03")
        assert done.returncode == 0, done.stdout + done.stderr
        assert float(re.search(r"differs from finite differences by (\S+)", done.stdout)[1]) < 1e-6
        assert float(re.search(r"misfit ([\d.]+) K", done.stdout)[1]) == pytest.approx(0.1, rel=0.02)  # the noise

    def test_a_parameter_that_is_missed_fails(self):
        done = run("xarray_calibration.py", "--small", "--backend", "numpy", "--require", "0.001")
        assert done.returncode == 1
        assert "a parameter is off by" in done.stderr


def test_xla_runs_programs_on_numpys_arrays():
    pytest.importorskip("jax")
    done = run("xla_executor.py")
    assert done.returncode == 0, done.stderr
    by_xla, by_numpy = re.match(r"by XLA ([\d.]+), by NumPy ([\d.]+)\n", done.stdout).groups()
    assert float(by_xla) == pytest.approx(float(by_numpy), rel=1e-10)
    assert done.stdout.endswith("are numpy's\n")


def test_a_sampler_finds_what_quadrature_does():
    pytest.importorskip("llvmlite")
    done = run("hamiltonian_sampler.py", "--draws", 400, "--chains", 3)
    assert done.returncode == 0, done.stderr
    assert "typedef double (*trajectory)(int n, const double *x, double *grad);" in done.stdout
    assert float(re.search(r"accepted ([\d.]+)", done.stdout)[1]) > 0.9
    pairs = re.search(r"mean \[(\S+) (\S+)\], by quadrature \[(\S+) (\S+)\]", done.stdout).groups()
    *means, one, other = map(float, pairs)
    assert means == pytest.approx([one, other], abs=0.1)  # of a thousand draws, deviations of 0.3


class TestFieldDescent:
    @pytest.fixture(autouse=True)
    def _needs(self):
        for library in ("dask", "zarr"):
            pytest.importorskip(library)

    def test_noise_is_removed_from_store_to_store(self, tmp_path):
        done = run("field_descent.py", "--small", "--steps", 2, "--folder", tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        losses = [float(value) for value in re.findall(r"step \d+: loss ([\d.e+]+)", done.stdout)]
        assert len(losses) == 2
        assert losses[1] < losses[0]
        before, after = map(float, re.search(r"from ([\d.]+) to ([\d.]+)", done.stdout).groups())
        assert before == pytest.approx(0.3, abs=0.01)
        assert after < before
        told = max(map(int, re.findall(r"held at most (\d+) MiB as told", done.stdout)))
        if sys.platform == "linux":
            peak, start = map(int, re.search(r"process: (\d+) MiB, of which (\d+) MiB before", done.stdout).groups())
            assert peak - start <= told

    def test_mistakes_are_explained(self):
        refused("field_descent.py", [(["--steps", "0"], "--steps, --memory and --threads must be at least 1")])


def written(x):
    """Write to zeros, which get the unit of what is written."""
    made = ag.zeros(3, device="units")
    made[:2] = x[1:] * 2
    return ag.sum(made * made)


#: Functions of three lengths, among them those whose derivatives divide, compare and fill up.
OF_LENGTHS = {
    "sum": lambda x: ag.sum(x),
    "var": lambda x: ag.var(x),
    "std": lambda x: ag.std(x),
    "max": lambda x: ag.max(x),
    "median": lambda x: ag.median(x),
    "clip": lambda x: ag.sum(ag.clip(x, x[0], x[1])),
    "running sum": lambda x: ag.sum(ag.cumulative_sum(x) ** 2),
    "power": lambda x: ag.sum(x**0.5),
    "norm": lambda x: ag.linalg.vector_norm(x),
    "angle": lambda x: ag.sum(ag.atan2(x, x[0])),
    "ratio": lambda x: ag.sum(ag.exp(x / x[0])),
    "hypotenuse": lambda x: ag.sum(ag.hypot(x, x[::-1])),
    "index": lambda x: x[0] * x[1] * x[1],
    "mask": lambda x: ag.sum(x[x > x[0]] ** 2),
    "where": lambda x: ag.sum(ag.where(x > x[0], x * x, 0.0)),
    "concat": lambda x: ag.sum(ag.concat([x, x * 2]) ** 2),
    "differences": lambda x: ag.sum(ag.diff(x) ** 3),
    "product": lambda x: x @ x,
    "outer": lambda x: ag.sum(ag.triu(x[:, None] * x[None, :])),
    "written": written,
}


class TestUnits:
    @pytest.fixture(autouse=True)
    def _needs(self):
        pytest.importorskip("pint")

    def test_gradients_have_units(self):
        assert run("units_backend.py").stdout.splitlines() == [
            "[6.0 8.0] meter",
            "[0.5 0.2] / second",
            "[-0.75 -0.16] meter / second ** 2",
            "[4.0 3.0] meter",
            "[0.6000000000000001 0.8] dimensionless",
            "[12.0 8.0] meter",
            "Cannot convert from 'meter' ([length]) to 'dimensionless' (dimensionless)",
            "to_device is not supported by the units backend: its unit, meter, would be lost: divide by one first",
        ]

    @pytest.fixture
    def lengths(self, registered):
        registered(load_plugin(str(EXAMPLES / "units_backend.py")))
        pint = pytest.importorskip("pint")
        return functools.partial(pint.get_application_registry().Quantity, units="meter")

    @pytest.mark.parametrize("name", OF_LENGTHS)
    def test_they_are_those_of_differences(self, name, lengths):
        """Which pint divides itself, numbers and units."""
        function, x, h = OF_LENGTHS[name], np.asarray([3.0, 4.0, 5.5]), 1e-6
        found = ag.grad(function)(lengths(x))
        for i, step in enumerate(np.eye(3) * h):
            above, below = (function(ag.asarray(lengths(at))).detach()._raw for at in (x + step, x - step))
            wanted = (above - below) / lengths(2 * h)
            assert found.units == wanted.units
            assert found[i].magnitude == pytest.approx(float(wanted.magnitude), rel=1e-6, abs=1e-8)

    def test_second_derivatives(self, lengths):
        found = ag.func.hessian(lambda x: ag.sum(x**3))(lengths(np.asarray([3.0, 4.0])))
        assert str(found.units) == "meter"
        np.testing.assert_allclose(found.magnitude, [[18.0, 0.0], [0.0, 24.0]])

    def test_what_has_no_unit_is_refused(self, lengths):
        x = ag.asarray(lengths(np.asarray([[3.0, 1.0], [4.0, 2.0]])))
        calls = (lambda: ag.exp(x), lambda: x + 1.0, lambda: ag.linalg.solve(x, x), lambda: ag.grad(ag.prod)(x))
        for call in calls:
            with pytest.raises((TypeError, ag.UnsupportedOp), match=r"unit|[Cc]annot convert"):
                call()
        celsius = lengths(np.asarray([1.0])).__class__(np.asarray([20.0]), "degC")
        with pytest.raises(ag.UnsupportedOp, match="convert to one, as kelvin"):
            ag.asarray(celsius)


def test_gradients_by_elements_that_are_there():
    pytest.importorskip("marray")
    *found, refused = run("marray_backend.py").stdout.splitlines()
    assert found == ["mean [0.5   _ 0.5]", "var [-1.   _  1.]", "prod [3.  _ 1.]", "max [0.  _ 1.]"]
    assert refused.startswith("matmul is not supported by the marray backend: elements are missing")


def test_products_of_sparse_and_dense_arrays():
    pytest.importorskip("sparse", exc_type=ImportError)
    first, second = run("sparse_backend.py").stdout.splitlines()
    assert re.fullmatch(r"loss [\d.]+; the gradient is a ndarray True", first)
    assert second.startswith("linalg.inv is not supported by the sparse backend: it would be made dense")


def test_compressed_gradients():
    pytest.importorskip("blosc2")
    first, second = run("blosc2_backend.py").stdout.splitlines()
    assert first == "by the first and the last element: 0.0 2.0"
    assert second.endswith(": True")
