"""Samples of the functions beyond the standard."""

from __future__ import annotations
