"""Anomaly detection: find the operation whose derivative produces NaN."""

from __future__ import annotations

from types import TracebackType

from agrad.core.mode import ModeContext, current, push, replace
from agrad.ops.docs import complete as _complete


class detect_anomaly(ModeContext):  # noqa: N801 (PyTorch's name)
    """Raise where a backward pass produces NaN, and name the operation and its line in the forward pass.

    Use it around the backward pass, where every gradient is checked; other code pays nothing. (The line of the
    forward call is always known.) Lazy gradients are computed to be checked.

    Parameters
    ----------
    check_nan : bool, optional
        Whether to check for NaN. Infinity is not an anomaly.

    Raises
    ------
    RuntimeError
        From `backward` or `grad` inside, with PyTorch's message.

    Examples
    --------
    >>> import agrad as ag
    >>> x = ag.tensor([0.0, 1.0], requires_grad=True)
    >>> y = ag.sum(ag.sqrt(x) * ag.tensor([0.0, 1.0]))
    >>> with ag.autograd.detect_anomaly():
    ...     y.backward()
    Traceback (most recent call last):
        ...
    RuntimeError: Function 'SqrtBackward0' returned nan values in its 0th output.
      The operation is SqrtBackward0, recorded at ...
    """

    def __init__(self, check_nan: bool = True) -> None:
        self._check_nan = check_nan

    def __enter__(self) -> None:
        push(anomaly=self._check_nan, owner=self)


class set_detect_anomaly:  # noqa: N801 (PyTorch's name)
    """Turn anomaly detection on or off, immediately and until set again, or for a ``with`` block.

    Parameters
    ----------
    mode : bool
        On or off.
    check_nan : bool, optional
        As for `detect_anomaly`.

    Examples
    --------
    >>> import agrad as ag
    >>> with ag.autograd.set_detect_anomaly(True):
    ...     ag.autograd.is_anomaly_enabled()
    True
    >>> ag.autograd.is_anomaly_enabled()
    False
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = _anomaly()
        replace(anomaly=check_nan if mode else None)

    def __enter__(self) -> None:
        """Keep what the call has set; leaving undoes it."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        replace(anomaly=self._before)


def is_anomaly_enabled() -> bool:
    """Return whether anomaly detection is on.

    Returns: Whether it is.
    """
    return _anomaly() is not None


def is_anomaly_check_nan_enabled() -> bool:
    """Return whether anomaly detection checks for NaN.

    Returns: Whether it does.
    """
    return bool(_anomaly())


def _anomaly() -> bool | None:
    now = current()
    return None if now is None else now.anomaly


_complete(globals(), {})
