"""A sample of the survey, and the survey itself: does it see what is wrong?

The survey runs in a process of its own, because SciPy reads ``SCIPY_ARRAY_API`` when it is imported.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SURVEY = Path(__file__).with_name("survey.py")

#: Of each library and each way of using the array object: in-place, masks, searches, linear algebra, callbacks.
SAMPLE = {
    "differentiates": [
        "array_api_extra.apply_where",
        "array_api_extra.at.set",
        "array_api_extra.cov",
        "einops.einsum",
        "einops.pack",
        "einops.rearrange",
        "einops.reduce(max)",
        "einops.repeat",
        "opt_einsum.contract",
        "opt_einsum.contract(trace)",
        "scipy.cluster.vq.whiten",
        "scipy.constants.convert_temperature",
        "scipy.differentiate.derivative",
        "scipy.fft.irfft",
        "scipy.fft.rfftn",
        "scipy.integrate.cumulative_simpson",
        "scipy.integrate.tanhsinh",
        "scipy.integrate.trapezoid(x)",
        "scipy.linalg.block_diag",
        "scipy.optimize.elementwise.find_root",
        "scipy.optimize.rosen_der",
        "scipy.signal.fftconvolve(complex)",
        "scipy.signal.freqz",
        "scipy.signal.hilbert",
        "scipy.spatial.transform.Rotation.apply",
        "scipy.special.erf",
        "scipy.special.gammainc",
        "scipy.special.logsumexp(axis, b)",
        "scipy.stats.f_oneway",
        "scipy.stats.kurtosis",
        "scipy.stats.pearsonr",
        "scipy.stats.ttest_ind",
        "sklearn.PCA(full).transform",
        "sklearn.Ridge(svd)",
        "sklearn.metrics.pairwise.rbf_kernel",
        "sklearn.metrics.r2_score(raw_values)",
        "sklearn.preprocessing.StandardScaler",
    ],
    "piecewise constant": [
        "scipy.stats.rankdata",
        "scipy.stats.spearmanrho",
        "sklearn.LinearDiscriminantAnalysis.predict",
    ],
    # what another version of the library may do: anything but silently wrong
    "": [
        "scipy.linalg.inv",
        "scipy.ndimage.gaussian_filter",
        "scipy.signal.oaconvolve",
        "scipy.stats.ttest_ind(trim)",
        "sklearn.metrics.mean_squared_error",
    ],
}


def survey(*arguments):
    """Run the survey, from another folder."""
    return subprocess.run(
        [sys.executable, SURVEY, *arguments], capture_output=True, text=True, check=False, timeout=300, cwd="/"
    )


def test_a_sample():
    expected = {name: outcome for outcome, names in SAMPLE.items() for name in names}
    done = survey("--json", *expected)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert not [row for row in found.values() if row[0] in ("WRONG", "LOST", "MISDECLARED")]
    assert {name: found[name][0] for name in expected if expected[name]} == {n: o for n, o in expected.items() if o}


def test_the_survey_sees_what_is_wrong():
    done = survey("--json", "--tables", "broken")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {name: outcome for name, (outcome, _) in found.items()} == {
        name: name.removeprefix("broken.").partition("(")[0] for name in found
    }
    assert found["broken.raises(in backward)"][1] == "ZeroDivisionError: division by zero"
    assert found["broken.refused by the library"][1] == r"TypeError: only NumPy arrays \| please"


@pytest.mark.parametrize(
    ("names", "status"),
    [
        (["broken.differentiates"], 0),
        (["broken.differentiates", "broken.warns(lost write)"], 0),
        (["broken.differentiates", "broken.LOST(array)"], 1),
        (["broken.differentiates", "broken.raises"], 1),
    ],
    ids=["right", "two of three right", "one lost", "half of them raise"],
)
def test_the_exit_status(names, status):
    assert survey(*names, "--tables", "broken").returncode == status
