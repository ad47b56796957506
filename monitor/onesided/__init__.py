"""The library of one-sided mechanisms: policies, composition, Algorithms 1 and 2. No part of the service uses it."""
