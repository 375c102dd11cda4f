"""Experiments, their records, and the reports made from them."""
