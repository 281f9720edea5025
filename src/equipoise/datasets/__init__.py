"""Datasets: readers that give plain columns, and count what they dropped and why."""

from equipoise.datasets._celeba import celeba
from equipoise.datasets._coco import coco2017
from equipoise.datasets._dataset import Dataset
from equipoise.datasets._facet import facet, write_crops
from equipoise.datasets._fairface import fairface
from equipoise.datasets._fiftyone import fiftyone
from equipoise.datasets._flickr30k import flickr30k
from equipoise.datasets._one_person import one_person_images
from equipoise.datasets._table import PATH_COLUMNS, folder, table
from equipoise.datasets._utkface import utkface
from equipoise.datasets._waterbirds import waterbirds

__all__ = [
    "PATH_COLUMNS",
    "Dataset",
    "celeba",
    "coco2017",
    "facet",
    "fairface",
    "fiftyone",
    "flickr30k",
    "folder",
    "one_person_images",
    "table",
    "utkface",
    "waterbirds",
    "write_crops",
]
