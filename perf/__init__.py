"""Experiments, their reports, and races with peers: `python -m perf` lists the races."""
