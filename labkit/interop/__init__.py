"""Hugging Face in and out: models of transformers as specs and weights, and runs as folders that transformers loads."""

from labkit.interop.exported import Exported as Exported
from labkit.interop.exported import export_model as export_model
from labkit.interop.exported import export_run as export_run
from labkit.interop.imported import as_python as as_python
from labkit.interop.imported import import_folder as import_folder
from labkit.interop.imported import load as load
from labkit.interop.registry import ARCHITECTURES as ARCHITECTURES
