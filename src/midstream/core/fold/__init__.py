"""The rooms of `apply`: how things stand after a fact, by what the fact is about."""
