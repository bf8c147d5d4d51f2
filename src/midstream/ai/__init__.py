"""midstream: the ai room."""
