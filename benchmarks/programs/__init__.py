"""Programs that benchmarks start in terminals of their own. They are run by path."""
