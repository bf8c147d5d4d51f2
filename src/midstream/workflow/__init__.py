"""midstream: the workflow room."""
