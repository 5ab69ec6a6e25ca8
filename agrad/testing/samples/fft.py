"""Samples of the Fourier transforms."""

from __future__ import annotations
