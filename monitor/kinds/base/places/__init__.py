"""What the kinds that watch listed places share: keys and their conditions."""
