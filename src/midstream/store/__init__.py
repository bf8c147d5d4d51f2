"""Stores: what keeps runs (`midstream.storage`), in memory and in SQLite, and nothing else."""
