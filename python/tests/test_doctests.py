"""The examples in the docstrings run as written."""

import doctest
import importlib
import pkgutil

import annblock
import pytest

MODULES = [
    m.name
    for m in pkgutil.walk_packages(annblock.__path__, "annblock.")
    if not m.name.startswith(("annblock._native", "annblock._convert"))
]


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name, doctest_namespace):
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        pytest.skip(f"{name} needs more: {error}")
    result = doctest.testmod(module, extraglobs=doctest_namespace, optionflags=doctest.ELLIPSIS)
    assert result.failed == 0
