"""The four distributions: built, looked into, and installed into an empty environment, away from the checkout.

Building needs hatchling; installing needs a package index, as any ``pip install`` does.
"""

from __future__ import annotations

import email
import importlib.util
import os
import subprocess
import sys
import tarfile
import textwrap
import zipfile
from configparser import ConfigParser
from pathlib import Path

import pytest

pytestmark = pytest.mark.long  # `nox -s wheels` runs them too

ROOT = Path(__file__).resolve().parent.parent

#: The distributions: where their project is, and the packages and modules in them.
PROJECTS = {
    "agrad": (ROOT, {"agrad", "_agrad_pytestplugin.py"}),
    "agrad_numpy": (ROOT / "plugins/numpy_backend", {"agrad_numpy"}),
    "agrad_dask": (ROOT / "plugins/dask_backend", {"agrad_dask"}),
    "agrad_cupy": (ROOT / "plugins/cupy_backend", {"agrad_cupy"}),
}
#: And the stubs in them: of the methods of `Tensor`, and of NumPy's names.
STUBS = {"agrad": {"agrad/core/methods.pyi", "agrad/numpy/names.pyi", "agrad/torch_names.pyi"}}
#: What of an environment belongs to this checkout and must not reach the other one.
OURS = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")


def run(*command, cwd):
    environment = {k: v for k, v in os.environ.items() if k not in OURS and not k.startswith(("AGRAD_", "COV_"))}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=1200,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Every distribution, as an sdist and as the wheel made of that sdist."""
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed")
    place = tmp_path_factory.mktemp("dist")
    for name, (project, _) in PROJECTS.items():
        run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", place, cwd=project)
        (sdist,) = place.glob(f"{name}-*.tar.gz")
        unpacked = tmp_path_factory.mktemp(name)
        with tarfile.open(sdist) as archive:
            archive.extraction_filter = getattr(tarfile, "data_filter", None)  # from Python 3.11.4 on
            archive.extractall(unpacked)
        (source,) = unpacked.iterdir()
        run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", place, cwd=source)
    return place


def wheel_of(built, name):
    (wheel,) = built.glob(f"{name}-*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    return zipfile.ZipFile(wheel)


def sources_of(project, contents):
    """Give the files of a project that are to be in its wheel, as names in the wheel."""
    for part in contents:
        found = [project / part] if part.endswith(".py") else (project / part).rglob("*")
        for file in found:
            if file.is_file() and "__pycache__" not in file.parts:
                yield file.relative_to(project).as_posix()


@pytest.mark.parametrize("name", PROJECTS)
def test_contents(name, built):
    project, contents = PROJECTS[name]
    wheel = wheel_of(built, name)
    inside = {file for file in wheel.namelist() if ".dist-info/" not in file}
    assert inside == set(sources_of(project, contents))  # all of the package, and nothing beside it
    assert {file for file in inside if not file.endswith((".py", "py.typed"))} == STUBS.get(name, set())
    assert f"{name}/py.typed" in inside
    (info,) = {file.partition("/")[0] for file in wheel.namelist() if ".dist-info/" in file}
    assert wheel.read(f"{info}/licenses/LICENSE").decode() == (ROOT / "LICENSE").read_text(encoding="utf-8")
    (sdist,) = built.glob(f"{name}-*.tar.gz")
    with tarfile.open(sdist) as archive:
        files = {file.partition("/")[2] for file in archive.getnames()}
    beside = {
        "LICENSE",
        "PKG-INFO",
        "README.md",
        "pyproject.toml",
        ".gitignore",
        *(["CHANGELOG.md"] * (name == "agrad")),
    }
    assert {file for file in files if file not in inside} <= beside


def test_metadata(built):
    found, entries = {}, {}
    for name in PROJECTS:
        wheel = wheel_of(built, name)
        (info,) = {file.partition("/")[0] for file in wheel.namelist() if ".dist-info/" in file}
        found[name] = email.message_from_bytes(wheel.read(f"{info}/METADATA"))
        parser = ConfigParser()
        parser.read_string(wheel.read(f"{info}/entry_points.txt").decode())
        entries[name] = {group: dict(parser[group]) for group in parser.sections()}
        assert found[name]["License-Expression"] == "MIT"
        assert found[name]["Requires-Python"] == ">=3.11"
        assert found[name].get_payload().startswith("# agrad")  # the README
    (version,) = {message["Version"] for message in found.values()}
    requires = {name: set(message.get_all("Requires-Dist")) for name, message in found.items()}
    own = {name: {r for r in every if r.startswith("agrad")} for name, every in requires.items()}
    assert own["agrad"] == {
        f"agrad-numpy=={version}; extra == 'numpy'",
        f"agrad-dask=={version}; extra == 'dask'",
        f"agrad-cupy[cuda12]=={version}; extra == 'cuda12'",
        f"agrad-cupy[cuda13]=={version}; extra == 'cuda13'",
    }
    assert own["agrad_numpy"] == {f"agrad=={version}"}
    assert own["agrad_dask"] == own["agrad_cupy"] == {f"agrad=={version}", f"agrad-numpy=={version}"}
    extra = {"cuda12": "cupy-cuda12x", "cuda13": "cupy-cuda13x"}
    for name, distribution in extra.items():
        assert any(r.startswith(distribution) and r.endswith(f"extra == '{name}'") for r in requires["agrad_cupy"])
    # the core brings no array library along, and CuPy comes only by an extra
    assert not [r for r in requires["agrad"] if r.startswith(("numpy", "cupy", "dask", "scipy"))]
    assert all("extra ==" in r for r in requires["agrad_cupy"] if r.startswith("cupy"))
    assert entries == {
        "agrad": {
            "pytest11": {"agrad": "_agrad_pytestplugin"},
            "xarray.chunkmanagers": {"agrad": "agrad.chunk_manager:ChunkManager"},
        },
        **{name: {"agrad": {name.removeprefix("agrad_"): name}} for name in PROJECTS if name != "agrad"},
    }


#: What is run where only the wheels are installed.
PROGRAM = """
    import sys
    from importlib.metadata import files, version
    from pathlib import Path
    import agrad as ag, agrad_cupy, agrad_dask, agrad_numpy

    here = Path(sys.prefix)
    assert all(Path(module.__file__).is_relative_to(here) for module in (ag, agrad_cupy, agrad_dask, agrad_numpy)), ag.__file__
    assert len({version(name) for name in ("agrad", "agrad-numpy", "agrad-dask", "agrad-cupy")}) == 1

    ag.manual_seed(0)
    x = ag.randn(64, 8, dtype=ag.float32)
    classes = ag.argmax(x[:, :4], axis=1)
    net = ag.nn.Sequential(ag.nn.Linear(8, 16), ag.nn.ReLU(), ag.nn.Linear(16, 4))
    net.float()
    optimizer = ag.optim.Adam(net.parameters(), lr=0.02)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = ag.nn.functional.cross_entropy(net(x), classes)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0], losses

    lazy = ag.asarray(x.detach().numpy(), device="dask")
    weights = ag.zeros(8, dtype=ag.float32, requires_grad=True)
    ((lazy @ weights - 1.0) ** 2).sum().backward()
    expected = -2.0 * x.numpy().sum(axis=0)
    assert abs(weights.grad.numpy() - expected).max() < 1e-3
    print("trained")
"""


def test_installed_without_the_checkout(built, tmp_path):
    """In an empty environment, from a directory of its own: training, both backends, the command, and the kit."""
    environment = tmp_path / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", environment, cwd=tmp_path)
    python = environment / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    # the files themselves: an index may have distributions of these names
    files = {wheel.name.partition("-")[0]: str(wheel) for wheel in sorted(built.glob("*.whl"))}  # pip wants agrad first
    files["agrad"] += "[numpy,dask]"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", *files.values(), "pytest", cwd=tmp_path)

    assert run(python, "-I", "-c", textwrap.dedent(PROGRAM), cwd=tmp_path) == "trained\n"
    rows = run(python, "-m", "agrad", cwd=tmp_path)
    assert "numpy" in rows
    assert "dask" in rows
    assert "CuPy is not installed" in rows
    kit = run(
        *(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--pyargs", "agrad.testing.suite.test_registration"),
        "--agrad-backend=numpy",
        cwd=tmp_path,
    )
    assert "passed" in kit
    assert str(ROOT) not in kit
