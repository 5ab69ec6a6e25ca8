"""A failure of the kit as a program to copy: its sample on NumPy first, then on the backend; otherwise the test itself."""

from __future__ import annotations

import ast
import inspect
import json
import math
import sys
import textwrap
from collections import defaultdict
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import agrad as ag
from agrad.testing.calls import SINGLE, SampleCall
from agrad.testing.samples import Data, Like

__all__ = ["program_of", "test_as_program"]

#: The action of a test on a call, by the test's name: `{call}` is the call on the operands, which `{leaves}` lists.
GRADIENTS = """\
    results = {results}
    print(device, results, ag.autograd.grad(results, [{leaves}], [ag.ones_like(r) for r in results]))
"""
WAYS = {
    "values": """\
    print(device, {call})
""",
    "reverse": GRADIENTS,
    "single_operands": GRADIENTS,
    "composition": GRADIENTS,
    "forward_mode": """\
    print(device, ag.func.jvp(lambda {leaves}: {call}, ({leaves},), ({ones},)))
""",
    "second_order": """\
    results = {results}
    gradients = ag.autograd.grad(results, [{leaves}], [ag.ones_like(r) for r in results], create_graph=True)
    recorded = [g for g in gradients if g.requires_grad]
    print(device, gradients)
    print(ag.autograd.grad(recorded, [{leaves}], [ag.ones_like(g) for g in recorded], allow_unused=True))
""",
    "batches": """\
    print(device, ag.func.vmap(lambda {leaves}: {call})({stacks}))
    results = {results}
    cotangents = [ag.ones((2, *r.shape), dtype=r.dtype, device=device) for r in results]
    print(ag.autograd.grad(results, [{leaves}], cotangents, is_grads_batched=True))
""",
}


def program_of(call: SampleCall, dtype: str, test: str, device: str, plugins: Sequence[str] = ()) -> str | None:
    """Return a program that applies a test of the kit to a sample, None if no short one exists.

    Parameters
    ----------
    call : SampleCall
        A sample's.
    dtype : str
        The precision of the test, for inexact operands.
    test : str
        The test's name, without ``test_``.
    device : str
        The backend or device under test.
    plugins : sequence of str
        The arguments of ``--agrad-plugin``.
    """
    way, made, sample = WAYS.get(test), _Arguments(call, dtype in SINGLE.values()), call.sample
    arguments = [made.text(v) for v in sample.args] + [f"{k}={made.text(v)}" for k, v in sample.kwargs.items()]
    if way is None or made.specs or (not made.leaves and way is not WAYS["values"]):
        return None
    imports, function = _function(sample.op)
    text = f"{function}({', '.join(arguments)})"
    imports, calls = _registering(plugins, imports)
    lines = [
        *imports,
        *calls,
        "",
        f'for device in ("numpy", "{device}"):',
        *made.lines,
        way.format(
            call=text,
            results=f"[{text}]" if call.op.rule.outputs is None else f"list({text})",
            leaves=", ".join(made.leaves),
            ones=", ".join(f"ag.ones_like({leaf})" for leaf in made.leaves),
            stacks=", ".join(f"ag.stack([{leaf}, {leaf}])" for leaf in made.leaves),
        ),
    ]
    return "\n".join(lines)


def test_as_program(
    kind: type,
    test: str,
    parameters: Mapping[str, Any],
    device: str,
    plugins: Sequence[str] = (),
    *,
    quick: bool = False,
) -> str:
    """Return a program that consists of a test of the kit, and calls it.

    Parameters
    ----------
    kind : type
        The class of the test, one of `agrad.testing.suite`.
    test : str
        The test's name.
    parameters : mapping of str to object
        The arguments that the test gets: texts and numbers.
    device : str
        The backend or device under test.
    plugins : sequence of str
        The arguments of ``--agrad-plugin``.
    quick : bool, optional
        Whether one sample per operation is run.
    """
    function = inspect.unwrap(getattr(kind, test))
    text = textwrap.dedent(inspect.getsource(function))
    written = ast.parse(text).body[0]
    assert isinstance(written, ast.FunctionDef)
    imports, calls = _registering(plugins)
    options = ", quick=True" if quick else ""
    given = [
        f'{kind.__name__}.on("{device}"{options})',
        *(f"{name}={_written(value)}" for name, value in parameters.items()),
    ]
    needed = {
        node.id for part in (written.args, *written.body) for node in ast.walk(part) if isinstance(node, ast.Name)
    }
    lines = [
        *imports,
        *_imports({name: value for name, value in vars(sys.modules[kind.__module__]).items() if name in needed}, kind),
        *calls,
        "",
        "",
        *text.splitlines()[written.lineno - 1 :],
        "",
        "",
        f"{test}({', '.join(given)})",
    ]
    return "\n".join(lines)


def _imports(values: Mapping[str, Any], kind: type) -> list[str]:
    """Return the lines that import the names used by a test of a class, and the class."""
    found, of = [], defaultdict(list)
    for name, value in {**values, kind.__name__: kind}.items():
        if isinstance(value, ModuleType):
            package, _, module = value.__name__.rpartition(".")
            found += [] if name == "ag" else [f"from {package} import {module}" if package else f"import {name}"]
        else:
            home = getattr(value, "__module__", "")
            known = getattr(sys.modules.get(home), name, None) is value
            of[home if known else kind.__module__].append(name)
    return sorted(found) + [f"from {home} import {', '.join(sorted(names))}" for home, names in sorted(of.items())]


def _registering(plugins: Sequence[str], imports: Sequence[str] = ()) -> tuple[list[str], list[str]]:
    """Return the lines with which a program imports agrad and registers the plugins of ``--agrad-plugin``."""
    imports = ["import agrad as ag", *imports, *(["from agrad.testing.kit import load_plugin"] if plugins else [])]
    calls = [f"ag.register(load_plugin({json.dumps(text)}))" for text in plugins]
    return imports, ["", *calls] if calls else []


def _function(name: str) -> tuple[list[str], str]:
    """Return the imports that an operation needs, and its name then."""
    found: Any = ag
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is not None:
        return [], f"ag.{name}"
    return ["from agrad.core.op import OPS"], f'OPS["{name}"].entry'


class _Arguments:
    """The text of a sample's arguments, and the lines that create its arrays."""

    def __init__(self, call: SampleCall, single: bool) -> None:
        self.call = call
        self.single = single
        self.lines: list[str] = []
        self.leaves: list[str] = []
        self.specs = False

    def text(self, value: Any) -> str:
        """Return the text of an argument."""
        if isinstance(value, Data):
            return self._array(value)
        if isinstance(value, tuple | list):
            parts = ", ".join(map(self.text, value))
            if isinstance(value, list):
                return f"[{parts}]"
            return f"({parts},)" if len(value) == 1 else f"({parts})"
        self.specs = self.specs or isinstance(value, Like)
        return "..." if value is Ellipsis else _number(value)

    def _array(self, data: Data) -> str:
        leaf = id(data) in self.call.places
        name = f"{'x' if leaf else 'a'}{len(self.lines) + 1}"
        dtype = SINGLE.get(data.dtype, data.dtype) if self.single else data.dtype
        made = f"zeros({data.shape}" if 0 in data.shape else f"asarray({_nested(data)}"
        more = ", requires_grad=True" if leaf else ""
        self.lines.append(f'    {name} = ag.{made}, dtype="{dtype}", device=device{more})')
        if leaf:
            self.leaves.append(name)
        return name


def _nested(data: Data) -> str:
    """Return the numbers of an array as nested lists, to six digits."""
    texts = [_number(v) for v in data.values]
    for size in reversed(data.shape):
        texts = [f"[{', '.join(texts[i : i + size])}]" for i in range(0, len(texts), size)]
    return texts[0]


def _written(value: Any) -> str:
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _number(value: Any) -> str:
    if isinstance(value, complex):
        return repr(complex(float(f"{value.real:.6g}"), float(f"{value.imag:.6g}")))
    if isinstance(value, float):
        return repr(float(f"{value:.6g}")) if math.isfinite(value) else f'float("{value}")'
    return repr(value)
