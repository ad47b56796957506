"""Programs around the service: check, audit, planner, replay, demo, embedded servers. The service uses none of them."""
