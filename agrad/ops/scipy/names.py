"""What `agrad.scipy` has of SciPy's, for the errors of SciPy's own functions: they make NumPy arrays of what they are given."""

from __future__ import annotations

from types import FrameType

from agrad.core.errors import line_of

#: By SciPy's module, the functions and distributions.
NAMES = {
    "integrate": frozenset(["odeint", "solve_ivp"]),
    "linalg": frozenset(
        [
            *(
                "block_diag",
                "cho_factor",
                "cho_solve",
                "cholesky",
                "det",
                "expm",
                "expm_frechet",
                "inv",
                "logm",
                "lstsq",
                "lu",
            ),
            *("pinv", "solve_banded", "solve_sylvester", "solve_triangular", "sqrtm", "toeplitz"),
        ]
    ),
    "signal": frozenset(["convolve", "correlate", "fftconvolve", "lfilter", "sosfilt"]),
    "special": frozenset(["log_softmax", "logsumexp", "multigammaln", "polygamma", "softmax"]),
    "stats": frozenset(
        [
            *("bernoulli", "beta", "binom", "chi2", "dirichlet", "expon", "gamma", "laplace", "lognorm"),
            *("multivariate_normal", "norm", "poisson", "t", "uniform"),
        ]
    ),
}


def instead_of(frame: FrameType | None) -> str:
    """Return the sentence that names the function to call, if the frames that called are of one of SciPy's; nothing otherwise."""
    found = ""
    while frame is not None and not frame.f_globals.get("__name__", "").startswith("scipy."):
        if not frame.f_globals.get("__name__", "").startswith(("agrad.", "numpy", "array_api_compat")):
            return ""
        frame = frame.f_back
    while frame is not None and frame.f_globals.get("__name__", "").startswith(("scipy.", "numpy")):
        found = _name_of(frame) or found
        frame = frame.f_back
    if not found:
        return ""
    line = f", called at {line_of(frame.f_code, frame.f_lasti)}," if frame is not None else ""
    return f"\n  SciPy's own function{line} takes arrays only: use agrad.scipy.{found}."


def _name_of(frame: FrameType) -> str:
    """Return the name here of SciPy's function that a frame runs, or of that which a wrapper is for; nothing if there is none."""
    kept = frame.f_locals
    inner = kept.get("f")
    module, name = frame.f_globals["__name__"], frame.f_code.co_name
    if name == "wrapper" and callable(inner):
        module, name = getattr(inner, "__module__", ""), getattr(inner, "__name__", "")
    chapter = f"{module}..".split(".")[1]
    if chapter == "stats" and "self" in kept:
        kind = type(kept["self"]).__name__.removesuffix("_gen").removesuffix("_frozen")
        return f"stats.{kind}.{name}" if kind in NAMES["stats"] and not name.startswith("_") else ""
    return f"{chapter}.{name}" if name in NAMES.get(chapter, ()) else ""
