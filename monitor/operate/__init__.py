"""Programs around the service, such as check, audit, plan, replay, demo and the embedded servers.

The service imports none of them.
"""
