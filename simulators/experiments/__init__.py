"""The figures of "Asymmetric Differential Privacy" (Takagi, Cao, Yoshikawa), reproduced next to the paper's values."""
