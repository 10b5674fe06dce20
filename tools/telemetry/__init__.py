"""The host side of Hayloft: plans, boots, captures, analyses and reports experiments."""

import pathlib

__version__ = "0.1.0"

ROOT = pathlib.Path(__file__).resolve().parents[2]  # the checkout that this package belongs to
