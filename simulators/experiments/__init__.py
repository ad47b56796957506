"""The figures of "Asymmetric Differential Privacy" (Takagi, Cao, Yoshikawa), made anew beside the paper's values."""
