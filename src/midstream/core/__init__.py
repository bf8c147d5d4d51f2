"""The heart: what a run is, what an input makes true, how facts fold, what is owed. Pure."""
