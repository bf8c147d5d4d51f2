"""midstream."""
