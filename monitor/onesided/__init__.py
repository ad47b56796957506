"""A library for asymmetric differential privacy: policies, mechanisms, composition, Algorithms 1 and 2, estimates.

`osdp` has one-sided differential privacy and DAWA. `add_remove` has one-sided noise for neighbours with one record more
or one record less. `bounded` has sums, counts and means of bounded values.

The service does not use the library.
"""
