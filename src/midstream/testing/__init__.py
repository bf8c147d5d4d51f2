"""midstream: the testing room."""
