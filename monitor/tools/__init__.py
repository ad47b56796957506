"""Programs around the service: check, audit, planner, replay, demo and embedded servers. The service does not use them."""
