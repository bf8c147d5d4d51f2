"""midstream: the core room."""
