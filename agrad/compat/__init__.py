"""Interfaces of other libraries over agrad, for programs that were written for them."""
