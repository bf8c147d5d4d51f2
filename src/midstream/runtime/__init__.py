"""Workflows: the state machine around the core, agents, contexts, handlers and the loader."""
