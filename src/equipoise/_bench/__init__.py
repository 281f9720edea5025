"""Benchmarks: always as ratios to a floor and to a rival, measured in one run."""
