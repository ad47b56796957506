"""What the kinds with designated times share: keys, parameters, charges."""
