"""The functions of the namespace, by the standard's chapters: each with its signature, documentation and derivative."""
