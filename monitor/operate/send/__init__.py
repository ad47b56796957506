"""Send a file of visits to the input topic, after each visit was judged as the service will judge it."""
