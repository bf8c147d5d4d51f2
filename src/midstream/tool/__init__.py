"""midstream: the tool room."""
