"""Rehearsals: a run written down, played again against the workflow of today, without a model."""
