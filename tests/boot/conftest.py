"""Boots for the tests: the tool's machine layer starts them, its decoder reads them, nothing else is trusted."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import booting  # noqa: E402  (this folder is no package)


def pytest_configure(config):
    config.addinivalue_line('markers', 'long: takes many minutes; runs with HAYLOFT_LONG=1 only')


def pytest_collection_modifyitems(config, items):
    """Long tests are left out of a short run, not skipped: nobody asked for them."""
    if os.environ.get('HAYLOFT_LONG') == '1':
        return
    left_out = [item for item in items if item.get_closest_marker('long')]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker('long')]


@pytest.fixture
def boot(tmp_path):
    """boot(args, …): one boot in a folder of its own. See booting.boot for what it takes."""
    count = 0

    def one(args='', **options):
        nonlocal count
        count += 1
        folder = tmp_path / f'boot{count}'
        folder.mkdir()
        return booting.boot(folder, args, **options)

    return one
