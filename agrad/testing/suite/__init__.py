"""The conformance kit: does an array library, through its plugin, do everything that agrad needs?

It is installed with agrad and tests any registered backend (it needs pytest, and agrad-numpy, whose kernels compute the
expected values)::

    python -m agrad conformance mine --quick

runs the basics first, and the rest in a separate process, where a crash counts as the failure of one test. With pytest
itself::

    pytest --pyargs agrad.testing.suite --agrad-backend=mine

A plugin without an entry point is named by a module, or a file, and the plugin object in it::

    pytest --pyargs agrad.testing.suite --agrad-backend=mine --agrad-plugin=tests/my_backend.py:MyPlugin

``--agrad-backend`` may also name a device, as ``cupy:1``. ``-n 4`` (pytest-xdist) and ``-k`` work as usual;
``--agrad-quick`` runs one sample per operation, in the better precision only where a lazy backend takes long;
``--agrad-every`` also runs every sample in the longer tests, which otherwise take a few for elementwise operations. A
backend whose library cannot be used here (no GPU) passes the tests of its registration, and the others are skipped with
its reason.

There is a file per topic: `test_basics` (which all others depend on), `test_registration`, `test_namespace`,
`test_rules` (every rule of ``ag.rules`` in every mode and dtype), `test_programs` (captured and replayed),
`test_inference`, `test_in_place`, `test_creation`, `test_indexing`, `test_transfers`, `test_random`, `test_laziness`,
`test_memory`, `test_missing`, `test_threads`, `test_errors`, `test_pickling`.

**In a plugin's own tests.** Import the classes, and name the backend in the ini file, so that plain ``pytest`` runs
them; subclass one to change or add something:

.. code-block:: python

    # pyproject.toml: [tool.pytest.ini_options] agrad_backend = "mine"
    from agrad.testing.suite import *  # every class
    from agrad.testing.suite import Conformance, TestRandom as Random, requires


    class TestRandom(Random):
        xfails = {"test_same_key_same_numbers": "the library has no seeds"}


    class TestMine(Conformance):
        @requires("float64")
        def test_something(self):
            x = self.tensor([1.0, 2.0], requires_grad=True)
            (g,) = self.grad(lambda x: x * x, x)
            self.close(g, [2.0, 4.0])

**A backend declares what it cannot do.** ``Backend.capabilities`` holds the requirements of tests (``"float64"``,
``"complex"``, ``"boolean indexing"``, ``"data-dependent shapes"``): False skips them. ``Backend.lacks`` names
operations
with the reason: using one must raise `UnsupportedOp`, its tests are expected to fail, and one that works counts as a
failure. Everything else goes into a file of expected failures, ``--agrad-xfails=FILE``, with lines such as
``test_rules.py::TestRules::test_reverse[linalg.qr-float32]  # why``. All of this is strict: unexpected passes, and
names of tests that do not exist, are failures.

**A report** for users of the plugin: ``--agrad-report=FILE`` writes the outcome of every operation in every mode and
dtype, as ``.html`` and ``.txt`` for reading, or ``.json``. ``python -m agrad.testing.report a.json b.json`` prints
several as one table in Markdown.

**For lazy and chunked arrays** a plugin returns an `agrad.testing.Harness` by the hook ``agrad_harness``: its
`specimen` creates the arrays to test with (in several chunks), and `computing_nothing` is the context in which nothing
may compute.
"""

from __future__ import annotations

from agrad.testing.suite.base import Conformance, requires
from agrad.testing.suite.test_basics import TestBasics
from agrad.testing.suite.test_creation import TestCreation
from agrad.testing.suite.test_errors import TestErrors
from agrad.testing.suite.test_in_place import TestInPlace
from agrad.testing.suite.test_indexing import TestIndexing
from agrad.testing.suite.test_inference import TestInference
from agrad.testing.suite.test_laziness import TestLaziness
from agrad.testing.suite.test_memory import TestMemory, TestPlaces
from agrad.testing.suite.test_missing import TestMissing
from agrad.testing.suite.test_namespace import TestNamespace
from agrad.testing.suite.test_pickling import TestPickling
from agrad.testing.suite.test_programs import TestPrograms
from agrad.testing.suite.test_random import TestRandom
from agrad.testing.suite.test_registration import TestAvailability, TestRegistration
from agrad.testing.suite.test_rules import TestRules
from agrad.testing.suite.test_sparsity import TestSparsity
from agrad.testing.suite.test_threads import TestThreads
from agrad.testing.suite.test_transfers import TestTransfers

__all__ = [
    "Conformance",
    "TestAvailability",
    "TestBasics",
    "TestCreation",
    "TestErrors",
    "TestInPlace",
    "TestIndexing",
    "TestInference",
    "TestLaziness",
    "TestMemory",
    "TestMissing",
    "TestNamespace",
    "TestPickling",
    "TestPlaces",
    "TestPrograms",
    "TestRandom",
    "TestRegistration",
    "TestRules",
    "TestSparsity",
    "TestThreads",
    "TestTransfers",
    "requires",
]
