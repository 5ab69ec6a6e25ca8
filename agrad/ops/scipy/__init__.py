"""Ops that `agrad.scipy` is written in: what needs a kernel of the library's. They are declared when it is imported."""
