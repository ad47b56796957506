"""How a running process is observed and tested: fields of log lines, places of errors, spans, failpoints."""
