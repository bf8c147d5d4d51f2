"""Programs that benchmarks start in processes of their own.

Those in terminals are run by path; the durable loops as modules, in the environments of other libraries:
nothing they import from here may need more than the standard library.
"""
