"""The process around the audit: the command, its connections to Kafka, its metrics and its log.

The audit itself is in `monitor.audit`, which imports nothing else of this project.
"""
