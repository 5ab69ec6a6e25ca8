"""The functions of the namespace, in the standard's chapters: each with its signature, documentation and derivative."""
