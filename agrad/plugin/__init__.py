"""How backends are found and what they provide: hookspecs, the manager, the `Backend` contract and `Device`."""

from agrad.core.backend import Plugins, plugins
from agrad.plugin import manager


def _manager() -> Plugins:
    return manager


plugins.define(_manager)
