"""Speed measurements: `python -m perf` lists them, `python -m perf exrm` runs one."""
