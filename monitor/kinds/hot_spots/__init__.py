"""Kind `hot_spots`: the locations with the most people at designated times."""
