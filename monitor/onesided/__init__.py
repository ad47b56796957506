"""A library for asymmetric differential privacy: policies, mechanisms, composition, Algorithms 1 and 2, estimates.

`osdp` has one-sided differential privacy and DAWA, `add_remove` one-sided noise for data from which records are only
removed or to which they are only added, `bounded` sums, counts and means of bounded values.

The service does not use the library.
"""
