"""Datasets: readers that give paths, labels, sensitive features and captions as plain columns, and
count what they dropped and why.
"""

from equipoise.datasets.celeba import celeba
from equipoise.datasets.coco import coco2017
from equipoise.datasets.dataset import Dataset
from equipoise.datasets.facet import facet, write_crops
from equipoise.datasets.fairface import fairface
from equipoise.datasets.flickr30k import flickr30k
from equipoise.datasets.one_person import one_person_images
from equipoise.datasets.table import PATH_COLUMNS, folder, table
from equipoise.datasets.utkface import utkface
from equipoise.datasets.waterbirds import waterbirds

__all__ = [
    "PATH_COLUMNS",
    "Dataset",
    "celeba",
    "coco2017",
    "facet",
    "fairface",
    "flickr30k",
    "folder",
    "one_person_images",
    "table",
    "utkface",
    "waterbirds",
    "write_crops",
]
