"""The pages of the gallery run as their readers run them; each asserts that its answer is right."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

PAGES = sorted((Path(__file__).resolve().parent.parent / "docs" / "gallery").glob("*.py"))


@pytest.mark.long  # `nox -s docs` runs them too
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_run(page, tmp_path):
    for library in ("dask", "matplotlib", "scipy", "sklearn", "xarray", "zarr"):
        pytest.importorskip(library)
    done = subprocess.run(
        [sys.executable, page],
        cwd=tmp_path,
        env={**os.environ, "MPLBACKEND": "agg", "PYTHONWARNINGS": "error::UserWarning:agrad"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stderr
    assert not list(tmp_path.iterdir()), "a page leaves files behind"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_assert(page):
    text = page.read_text("utf-8")
    assert "np.testing.assert_allclose(" in text
    assert page.stem == "tutorial" or text.count("\n") <= 100, "one page teaches one thing"


def test_the_order_of_the_gallery_has_every_page():
    module = ast.parse((PAGES[0].parent.parent / "conf.py").read_text("utf-8"))
    (order,) = (s.value for s in module.body if isinstance(s, ast.Assign) and ast.unparse(s.targets[0]) == "GALLERY")
    assert sorted(ast.literal_eval(order)) == [page.stem for page in PAGES]
