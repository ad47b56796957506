"""Upper bounds on the sizes of output records, in bytes. The output topic must accept records of these sizes.

Records repeat state: the record of a place contains all of its running marks, and a snapshot contains all noisy counts
of its shard. Each kind measures its own records in its `keys_and_parameters.py`.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.kinds.locations import Registry

LARGEST_SNAPSHOT: Final = 32 * 1024 * 1024
"""The maximum bytes of a snapshot or of a hot-spots record: half of the largest request."""

SNAPSHOT_OVERHEAD: Final = 1_024
TICK_BYTES: Final = 14
NOISY_COUNT_BYTES: Final = 20
TIME_BYTES: Final = 32
_LOCATION: Final = 60


def measure_locations(registry: Registry) -> NDArray[np.int64]:
    """Return the maximum bytes of each location with its noisy count in a record; shape (locations,)."""
    return registry.json_lengths.astype(np.int64) + _LOCATION
