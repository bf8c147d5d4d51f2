"""The version, apart from the front door: whoever says it imports nothing else."""

__version__ = "0.1.0"
