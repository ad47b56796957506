"""`location-monitor size`: the number of processes, partitions, shards and servers that a load needs."""
