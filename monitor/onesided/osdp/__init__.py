"""One-sided differential privacy (Doudalis et al. [OSDP]; docs/references.md): only some records are sensitive."""
