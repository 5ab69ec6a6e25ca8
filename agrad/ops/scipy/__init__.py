"""The ops that `agrad.scipy` needs beyond the namespace, each with a kernel of the library. They are declared when it is imported."""
