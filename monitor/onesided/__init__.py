"""A library for asymmetric differential privacy: policies, mechanisms, composition, Algorithms 1 and 2, estimates.

The service does not use it.
"""
