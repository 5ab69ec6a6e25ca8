"""``python -m agrad new-backend``: what it writes can be built, is found by its entry point, and names where agrad is."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from agrad.testing import new_backend

ROOT = Path(__file__).parents[2]


def test_what_is_written(tmp_path, capsys):
    into = tmp_path / "made"
    url = "git+https://example.org/agrad.git"
    given = ["mine", "--library", "array_api_strict", "--agrad", url, "--into", str(into)]
    assert new_backend.main(given) == 0
    out = capsys.readouterr().out
    assert "agrad_mine.py" in out
    assert "  python -m agrad conformance mine --quick -n auto\n" in out
    assert "  python -m agrad conformance mine --quick -n auto --lf\n" in out
    project = tomllib.loads((into / "pyproject.toml").read_text())["project"]
    assert project["entry-points"] == {"agrad": {"mine": "agrad_mine"}}
    workflow = (into / ".github/workflows/tests.yml").read_text()
    assert f'pip install "agrad @ {url}" "agrad-numpy @ {url}#subdirectory=plugins/numpy_backend"' in workflow
    assert "python-version: ${{ matrix.python }}" in workflow
    assert new_backend.main(given) == 1  # and leaves what is there
    assert "has agrad_mine.py, pyproject.toml" in capsys.readouterr().err


def test_it_passes_the_basics(tmp_path):
    """As it is written, for array-api-strict: without a change."""
    assert (
        new_backend.main(["mine", "--library", "array_api_strict", "--agrad", str(ROOT), "--into", str(tmp_path)]) == 0
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--agrad-backend=mine"]
    command += [f"--agrad-plugin={tmp_path / 'agrad_mine.py'}", "--pyargs", "agrad.testing.suite.test_basics"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", ["two words", "cpu", "class", "a:b", ""])
def test_what_is_no_name(name, tmp_path, capsys):
    assert new_backend.main([name, "--agrad", str(ROOT), "--into", str(tmp_path / "made")]) == 2
    assert "is not a valid name of a backend" in capsys.readouterr().err
    assert not (tmp_path / "made").exists()


def test_without_a_clone_it_asks_where_agrad_is(tmp_path, monkeypatch, capsys):
    installed(monkeypatch, tmp_path, None)
    assert new_backend.main(["mine", "--into", str(tmp_path / "made")]) == 2
    assert "--agrad git+https://... or the path of a clone" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("recorded", "where"),
    [
        ({"url": "file:///a%20clone/agrad", "dir_info": {}}, "'/a clone/agrad' '/a clone/agrad/plugins/numpy_backend'"),
        (
            {"url": "https://example.org/agrad.git", "vcs_info": {"vcs": "git", "commit_id": "0" * 40}},
            '"agrad @ git+https://example.org/agrad.git"',
        ),
    ],
)
def test_it_is_installed_from_where_this_one_was(recorded, where, tmp_path, monkeypatch, capsys):
    """As pip records it, by PEP 610."""
    installed(monkeypatch, tmp_path, recorded)
    assert new_backend.main(["mine", "--into", str(tmp_path / "made")]) == 0
    assert f"pip install {where}" in capsys.readouterr().out


def installed(monkeypatch, tmp_path, recorded):
    """Make agrad one that stands in no clone, and was installed from what pip recorded."""
    folder = tmp_path / "site-packages" / "agrad-0.1.0.dist-info"
    folder.mkdir(parents=True)
    folder.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: agrad\nVersion: 0.1.0\n")
    if recorded is not None:
        folder.joinpath("direct_url.json").write_text(json.dumps(recorded))
    monkeypatch.syspath_prepend(folder.parent)
    monkeypatch.setattr(new_backend, "HERE", str(folder.parent / "agrad" / "testing" / "new_backend.py"))


def test_the_class_is_named_without_its_module(tmp_path, capsys):
    given = ["mine", "--array", "mine.core.Grid", "--agrad", str(ROOT), "--into", str(tmp_path / "made")]
    assert new_backend.main(given) == 2
    assert "without its module" in capsys.readouterr().err
