"""midstream: the config room."""
