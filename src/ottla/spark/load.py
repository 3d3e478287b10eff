"""Loads a log's new records into a table, on Spark."""

from ottla.loading.load import LoadOptions as LoadOptions
from ottla.loading.load import LoadReport as LoadReport
from ottla.loading.load import Progress as Progress
from ottla.loading.load import Step as Step
from ottla.loading.load import load as load
