"""Where arrays lie: what the kit finds of NumPy's, beside what NumPy says, and of others that tell less."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from agrad.testing.places import MemoryRange, place_of

X = np.arange(24.0).reshape(4, 6)

ARRAYS = {
    "whole": X,
    "rows": X[1:3],
    "last row": X[3:],
    "column": X[:, 1],
    "turned": X.T,
    "backwards": X[::-1, ::-2],
    "number": X[2, 3, ...],
    "spread": np.broadcast_to(X[0, 0], (5, 5)),
    "other": X + 1.0,
    "bytes": np.arange(3, dtype=np.int8),
    "truths": np.ones((2, 3), bool),
    "complex": np.ones((2, 3), complex)[:, 1:],
}


@pytest.mark.parametrize(("one", "other"), [*itertools.combinations_with_replacement(ARRAYS, 2)])
def test_places_meet_where_numpy_says_so(one, other):
    a, b = place_of(ARRAYS[one]), place_of(ARRAYS[other])
    assert a.meets(b) == b.meets(a) == np.may_share_memory(ARRAYS[one], ARRAYS[other])


@pytest.mark.parametrize("name", ARRAYS)
def test_a_place_is_from_the_first_byte_to_the_last(name):
    bounds = np.lib.array_utils.byte_bounds(ARRAYS[name])
    assert place_of(ARRAYS[name]) == MemoryRange((1, 0), *bounds)


def test_some_do_not_say_where_they_lie():
    class Refuses:
        def __dlpack__(self, **_):
            raise BufferError

    assert place_of(Refuses()) is None
    assert place_of(1.0) is None
    assert place_of(np.ones((3, 0))) is None


def test_libraries_of_older_versions_of_dlpack_say_so_too():
    class Old:
        def __dlpack__(self, stream=None):
            return X.__dlpack__()

    assert place_of(Old()) == place_of(X)
