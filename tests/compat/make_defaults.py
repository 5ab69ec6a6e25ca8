"""Write defaults.json and positions.json: the defaults of PyTorch's functions and classes that agrad has too, and their order.

Run by hand, where PyTorch is installed beside agrad; tests need it not.
"""

from __future__ import annotations

import importlib
import inspect
import json
from pathlib import Path

HERE = Path(__file__).parent

#: The modules, below ``torch`` and ``agrad``.
MODULES = (
    "", "autograd", "autograd.forward_ad", "autograd.functional", "autograd.graph", "distributions", "func", "nn",
    "nn.functional", "nn.init", "nn.utils", "optim", "optim.lr_scheduler", "utils.checkpoint", "utils.data",
)  # fmt: skip


def is_plain(value):
    return isinstance(value, bool | int | float | str | None) or (
        isinstance(value, tuple | list) and all(map(is_plain, value))
    )


def signatures(library):
    """Yield the module, the name and the parameters of each public function and class that is not written in C."""
    for path in MODULES:
        module = importlib.import_module(f"{library}.{path}" if path else library)
        for name in dir(module):
            function = getattr(module, name)
            if name.startswith("_") or not callable(function):
                continue
            try:
                parameters = inspect.signature(function).parameters.values()
            except (TypeError, ValueError):  # written in C
                continue
            yield path, name, parameters


def defaults(library):
    """Return the defaults that are numbers, text, None or tuples of those: by module, by function, by parameter."""
    found = {}
    for path, name, parameters in signatures(library):
        plain = {p.name: p.default for p in parameters if p.default is not p.empty and is_plain(p.default)}
        if plain:
            found.setdefault(path, {})[name] = plain
    return found


def positions(library):
    """Return the parameters that may be passed by position, in their order, as text: by module and function."""
    found = {}
    for path, name, parameters in signatures(library):
        found.setdefault(path, {})[name] = " ".join(
            p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        )
    return found


if __name__ == "__main__":
    ours, theirs = defaults("agrad"), defaults("torch")
    both = {
        path: {
            name: {key: value for key, value in plain.items() if key in ours[path][name]}
            for name, plain in names.items()
            if ours[path].get(name, {}).keys() & plain.keys()
        }
        for path, names in theirs.items()
    }
    (HERE / "defaults.json").write_text(json.dumps(both, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    ours, theirs = positions("agrad"), positions("torch")
    order = {
        path: {name: text for name, text in names.items() if text and ours[path].get(name)}
        for path, names in theirs.items()
    }
    (HERE / "positions.json").write_text(json.dumps(order, indent=1, sort_keys=True) + "\n", encoding="utf-8")
