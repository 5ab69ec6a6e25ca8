"""Functions compiled by instrumented capture: anything that the capture cannot observe is not compiled."""
