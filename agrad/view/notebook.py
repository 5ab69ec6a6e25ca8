"""HTML output for notebooks: tables and text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return rows as a table, with the first column left-aligned and the others right-aligned.

    Parameters
    ----------
    head : sequence of str
        The names of the columns; of length 0 for none.
    rows : iterable of sequences
        The cells, as text.

    Returns
    -------
    str
        HTML.
    """
    from html import escape  # noqa: PLC0415 (for notebooks only)

    def line(cells: Sequence[object], tag: str) -> str:
        sides = ("left", *["right"] * (len(cells) - 1))
        return "".join(
            f'<{tag} style="text-align:{side}">{escape(str(cell))}</{tag}>'
            for side, cell in zip(sides, cells, strict=True)
        )

    top = f"<thead><tr>{line(head, 'th')}</tr></thead>" if head else ""
    body = "".join(f"<tr>{line(row, 'td')}</tr>" for row in rows)
    return f"<table>{top}<tbody>{body}</tbody></table>"


def text(shown: str) -> str:
    """Return text with its line breaks, which scrolls where it is long."""
    from html import escape  # noqa: PLC0415 (for notebooks only)

    return f'<pre style="overflow:auto;max-height:80vh;line-height:1.3">{escape(shown)}</pre>'
