"""What a backend says it has not: defaults that follow, errors that say why, and the page that lists it."""

from __future__ import annotations

import re
import types
from pathlib import Path

import array_api_strict
import numpy as np
import pytest

import agrad as ag
from agrad.core.backend import BACKENDS
from agrad.core.requirements import REQUIREMENTS
from agrad.dtypes import name_of
from agrad.plugin.hookspecs import hookimpl

PAGE = Path(__file__).parents[2] / "docs" / "plugin.md"


class Narrow(ag.Backend):
    """array-api-strict with two devices, one of which has single precision alone, as a GPU may."""

    name = "narrow"
    device_capabilities = {"narrow:gpu": {"float64": "the chip counts in single precision"}}

    def namespace(self):
        return array_api_strict

    def native_devices(self):
        return {"narrow": array_api_strict.Device("CPU_DEVICE"), "narrow:gpu": array_api_strict.Device("device1")}

    def to_host(self, array):
        return np.asarray(array.to_device(self.native_device("narrow")))


class Plugin:
    """A backend, and the claim on array-api-strict's arrays."""

    def __init__(self, backend):
        self.backend = backend

    @hookimpl
    def agrad_backends(self):
        return [self.backend]

    @hookimpl
    def agrad_backend_of(self, array_type):
        return "narrow" if array_type.__module__ == "array_api_strict._array_object" else None


@pytest.fixture
def narrow(registered):
    BACKENDS.clear()
    return registered(Plugin(Narrow())).backend


def on(backend, **attributes):
    """Return a backend of that class with other attributes."""
    return type("Other", (type(backend),), attributes)()


MADE = {
    "zeros": lambda how: ag.zeros(2, **how),
    "ones": lambda how: ag.ones((2, 3), **how),
    "empty": lambda how: ag.empty(2, **how),
    "full": lambda how: ag.full(2, 1.5, **how),
    "arange": lambda how: ag.arange(0.0, 1.0, 0.25, **how),
    "linspace": lambda how: ag.linspace(0.0, 1.0, 3, **how),
    "eye": lambda how: ag.eye(2, **how),
    "a number": lambda how: ag.asarray(1.5, **how),
    "numbers": lambda how: ag.asarray([[1.5, 2]], **how),
    "tensor": lambda how: ag.tensor([1.5], **how),
    "rand": lambda how: ag.rand(2, **how),
    "randn": lambda how: ag.randn(2, **how),
    "fftfreq": lambda how: ag.fft.fftfreq(4, **how),
    "a parameter": lambda how: ag.nn.Linear(2, 1, **how).weight,
}


@pytest.mark.parametrize("name", MADE)
def test_numbers_have_a_dtype_that_the_device_has(name, narrow):
    for device, dtype in (("narrow:gpu", "float32"), ("narrow", "float64")):
        made = MADE[name]({"device": device})
        assert (name_of(made.dtype), made.device) == (dtype, device)
        assert "dtype=" not in repr(made.detach())


def test_floats_beside_integers(narrow):
    for device, dtype in (("narrow:gpu", "float32"), ("narrow", "float64")):
        spec = ag.asarray([1, 2], device=device)._spec
        assert name_of(narrow.scalar(0.5, spec).dtype) == dtype


def test_complex_numbers_have_a_dtype_that_the_device_has(narrow):
    for device, dtype in (("narrow:gpu", "complex64"), ("narrow", "complex128")):
        for made in (
            ag.full(2, 1j, device=device),
            ag.asarray([1j], device=device),
            ag.linspace(0, 1j, 3, device=device),
        ):
            assert name_of(made.dtype) == dtype


def test_the_users_choice_counts_where_it_can(narrow):
    ag.set_default_dtype(ag.float32)
    assert [name_of(ag.zeros(2, device=device).dtype) for device in ("narrow", "narrow:gpu")] == ["float32"] * 2
    assert name_of(ag.full(2, 1j, device="narrow").dtype) == "complex64"


def test_a_dtype_by_name_is_not_changed(narrow):
    made = ag.zeros(2, dtype="float64", device="narrow:gpu")  # this library has it, whatever is said
    assert name_of(made.dtype) == "float64"
    assert name_of(ag.zeros(2, dtype=ag.int64, device="narrow:gpu").dtype) == "int64"


def test_the_namespace_says_which(narrow):
    info = ag.namespace("narrow").__array_namespace_info__()
    names = lambda found: {
        kind: ag.namespace("narrow").finfo(dtype).bits for kind, dtype in found.items() if "fl" in kind
    }
    assert names(info.default_dtypes()) == {"real floating": 64, "complex floating": 64}
    assert names(info.default_dtypes(device="narrow:gpu")) == {"real floating": 32, "complex floating": 32}


def test_an_unknown_dtype_says_why(narrow):
    with pytest.raises(
        TypeError, match=r"narrow backend has no dtype bfloat16: it has no real numbers of the precision"
    ):
        narrow.dtype("bfloat16")
    said = on(narrow, capabilities={"float16": "the vendor left it out"})
    with pytest.raises(TypeError, match="has no dtype float16: the vendor left it out"):
        said.dtype("float16")


class Small(Narrow):
    """A library without transforms."""

    capabilities = {"fft": "the vendor sells them apart", "boolean indexing": False}

    def namespace(self):
        names = {name: getattr(array_api_strict, name) for name in array_api_strict.__all__}
        return types.SimpleNamespace(**{name: names[name] for name in names.keys() - {"fft", "complex128"}})


def test_an_operation_of_a_missing_chapter_says_why(registered):
    BACKENDS.clear()
    registered(Plugin(Small()))
    with pytest.raises(ag.UnsupportedOp, match="the vendor sells them apart"):
        ag.fft.fft(ag.zeros(4, device="narrow"))
    info = ag.namespace("narrow").__array_namespace_info__()
    assert info.capabilities()["boolean indexing"] is False
    assert info.capabilities()["data-dependent shapes"] is True


def test_without_complex_numbers_of_double_precision(registered):
    BACKENDS.clear()
    backend = registered(Plugin(on(Small(), capabilities={"complex128": "none"}))).backend
    assert name_of(ag.full(2, 1j, device="narrow").dtype) == "complex64"
    assert repr(ag.asarray([1.0, 2.0], device="narrow")) == "tensor([1., 2.], device='narrow')"
    found = ag.namespace("narrow").__array_namespace_info__().default_dtypes()
    assert backend.dtype_name(found["complex floating"]) == "complex64"


def test_without_complex_numbers(narrow):
    none = on(narrow, capabilities={"complex": False})
    assert [bool(none.cannot(name)) for name in ("complex64", "complex128", "complex linalg", "fft", "linalg")] == [
        *(True, True, True, True, False)
    ]


def test_what_is_needed_is_a_requirement():
    for each in REQUIREMENTS.values():
        assert set(each.needs) <= set(REQUIREMENTS) - {each.name}
        assert each.meaning
        assert each.leaves_out
        assert not each.meaning.endswith(".")


def test_the_page_lists_them():
    rows = re.findall(
        r"^\| `([^`]+)`([^|]*) \| ([^|]+) \| ([^|]*)\| (.+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )
    found = {
        name: (usual == "", meaning, needs.strip(), out)
        for name, usual, meaning, needs, out in rows
        if name in REQUIREMENTS
    }
    assert found == {
        each.name: (each.usual, each.meaning, ", ".join(f"`{name}`" for name in each.needs), each.leaves_out)
        for each in REQUIREMENTS.values()
    }
    assert list(found) == list(REQUIREMENTS)
