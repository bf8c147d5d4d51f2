"""midstream: the console room."""
