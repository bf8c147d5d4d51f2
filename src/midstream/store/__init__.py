"""Journals, and nothing else."""
