"""Stores: what keeps runs (`midstream.runtime.ports.storage`), in memory and in SQLite, and nothing else."""
