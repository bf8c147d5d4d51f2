"""Where runs live."""
