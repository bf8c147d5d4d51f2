"""midstream: the views room."""
