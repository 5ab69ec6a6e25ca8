"""Samples of the utility functions."""

from __future__ import annotations

from agrad.testing.samples.data import add, cplx, real

for _draw in (real, cplx):
    add("diff", _draw(4))
    add("diff", _draw(2, 3), axis=0)
    add("diff", _draw(2, 5, 2), axis=-2, n=2)
add("diff", real(4), n=0)
add("diff", real(3), n=3)
add("diff", real(2, 3), n=5)
add("diff", real(2, 0))
add("diff", real(0, 3))
