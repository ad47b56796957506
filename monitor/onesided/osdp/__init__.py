"""One-sided differential privacy (Doudalis et al. [OSDP]; docs/literature.md): only some records are sensitive."""
