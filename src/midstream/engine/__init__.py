"""midstream: the engine room."""
