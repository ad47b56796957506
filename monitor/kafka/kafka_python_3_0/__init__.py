"""Every use of private parts of kafka-python 3.0, one module each, with the reason.

The modules are checked with 3.0.12, which `pyproject.toml` requires exactly: an installation with another version could
fail in any of them. `tests/kafka/test_kafka_python.py` fails if a later version changes a part that one of them
replaces or calls. Then read the change, and delete the module if its reason is gone.

kafka-python ships no types, so its objects are `Any` here.
"""
