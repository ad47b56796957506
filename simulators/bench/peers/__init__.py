"""Programs that do the same work with other libraries.

Each runs alone, in a Python that has the extra `peers`: it takes one JSON argument and prints one line of JSON.
"""
