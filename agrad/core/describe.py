"""The rule table: every op's derivative, as data to print, list and test from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from agrad.core.op import OPS
from agrad.core.rule import Rule


class _Rules(Mapping[str, Rule]):
    """Every op's rule by name; ``print(agrad.rules["multiply"])`` shows it as written.

    Examples
    --------
    >>> import agrad as ag
    >>> print(ag.rules["multiply"])
    multiply  (elementwise)
      by x1: lambda x2: x2
        saves x2
      by x2: lambda x1: x1
        saves x1
    """

    def __getitem__(self, name: str) -> Rule:
        return OPS[name].rule

    def __iter__(self) -> Iterator[str]:
        return iter(OPS)

    def __len__(self) -> int:
        return len(OPS)

    def __repr__(self) -> str:
        return f"<rules of {len(self)} ops>"

    def _repr_html_(self) -> str:
        from agrad.view import notebook  # noqa: PLC0415 (for notebooks only)

        lines = [(name, rule.kind, ", ".join(rule.vjp), rule.source) for name, rule in self.items()]
        return notebook.table(("operation", "kind", "differentiated by", "source"), lines)


rules: _Rules = _Rules()
