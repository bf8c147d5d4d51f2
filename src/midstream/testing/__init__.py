"""Fakes, contracts and a scripted model server, shipped for tests of one's own."""
