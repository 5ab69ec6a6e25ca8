"""Samples of the special functions."""

from __future__ import annotations
