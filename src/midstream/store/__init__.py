"""midstream: the store room."""
