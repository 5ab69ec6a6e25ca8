"""Functions compiled by instrumented capture: what is not seen is not compiled."""
