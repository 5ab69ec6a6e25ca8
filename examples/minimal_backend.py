"""A whole backend: here for array-api-strict, the standard's reference library.

A library that follows the standard needs a name, its namespace, and the claim on its array type. An installed plugin
has the two hooks as functions of a module named by an entry point in the group "agrad"; then nothing has to call
`register`.
"""

import array_api_strict
import pluggy

import agrad as ag

hookimpl = pluggy.HookimplMarker("agrad")


class MyBackend(ag.Backend):
    name = "mine"
    contract = 2

    def namespace(self):
        return array_api_strict


class MyPlugin:
    backend = MyBackend()

    @hookimpl
    def agrad_backends(self):
        return [self.backend]

    @hookimpl
    def agrad_backend_of(self, array_type):
        return "mine" if array_type.__module__.startswith("array_api_strict") else None


ag.register(MyPlugin())

if __name__ == "__main__":
    x = ag.asarray(array_api_strict.asarray([[1.0, 2.0], [3.0, 4.0]]), requires_grad=True)
    loss = (x @ x * 0.5).sum()
    loss.backward()
    print(x.device, loss.item(), type(x.grad._raw), x.grad, sep="\n")
