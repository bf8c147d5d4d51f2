"""midstream: the headless room."""
