"""midstream: multi-agent workflows that run in the background and can be talked to while they run."""

__version__ = "0.1.0"
