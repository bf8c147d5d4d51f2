"""Models: every provider behind the port `Model`, and the offline model that is no LLM."""
