"""Kind `dwell`: the number of visits at designated times and their mean length."""
