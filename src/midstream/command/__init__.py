"""midstream: the command room."""
