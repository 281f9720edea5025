"""Datasets: readers that give paths, labels, sensitive features and captions as plain columns."""
