"""Optimisers and learning-rate schedules, with PyTorch's names, arguments and results, and SciPy's minimisers.

They are loaded at first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from agrad.core.names import MissingName as _MissingName
from agrad.core.names import explain_made as _explain_made

if TYPE_CHECKING:
    from agrad.optim import lr_scheduler as lr_scheduler
    from agrad.optim.adadelta import Adadelta as Adadelta
    from agrad.optim.adagrad import Adagrad as Adagrad
    from agrad.optim.adam import Adam as Adam
    from agrad.optim.adam import AdamW as AdamW
    from agrad.optim.lbfgs import LBFGS as LBFGS
    from agrad.optim.minimizing import minimize as minimize
    from agrad.optim.optimizer import Optimizer as Optimizer
    from agrad.optim.rmsprop import RMSprop as RMSprop
    from agrad.optim.sgd import SGD as SGD

#: Public names by the module that defines them.
_HOME_OF = {
    "SGD": "sgd",
    "Adadelta": "adadelta",
    "Adagrad": "adagrad",
    "Adam": "adam",
    "AdamW": "adam",
    "LBFGS": "lbfgs",
    "RMSprop": "rmsprop",
    "Optimizer": "optimizer",
    "lr_scheduler": "lr_scheduler",
    "minimize": "minimizing",
}

__all__ = sorted(_HOME_OF)  # noqa: PLE0605 (a list, if a computed one)


if not TYPE_CHECKING:  # type checkers read the imports above, and should report missing names

    def __getattr__(name: str) -> object:
        home = _HOME_OF.get(name, name)
        if home not in _HOME_OF.values():
            raise _MissingName("agrad.optim", name)
        module = importlib.import_module(f"agrad.optim.{home}")
        value = globals()[name] = module if name == home else _explain_made(getattr(module, name))
        return value

    def __dir__() -> list[str]:
        return __all__
