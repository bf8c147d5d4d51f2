"""What Python imports is read off the syntax: names, relative imports."""

import pytest

from midstream.codemap.file_imports import name_modules, python_imports

KNOWN = {"shop", "shop.cart", "shop.prices", "shop.tax", "shop.tax.vat", "tool"}


def test_a_module_is_named_after_the_chain_of_packages_it_lies_in() -> None:
    paths = ["src/shop/__init__.py", "src/shop/cart.py", "src/other/lone.py", "README.md"]

    assert name_modules(paths) == {
        "src/shop/__init__.py": "shop",
        "src/shop/cart.py": "shop.cart",
        "src/other/lone.py": "lone",
    }


def test_of_two_files_with_one_name_the_first_has_it() -> None:
    assert name_modules(["b/run.py", "a/run.py"]) == {"a/run.py": "run"}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import shop.cart", {"shop.cart"}),
        ("import shop.cart.total", {"shop.cart"}),
        ("from shop import cart, nothing", {"shop.cart", "shop"}),
        ("from shop.prices import price", {"shop.prices"}),
        ("from . import vat", {"shop.tax.vat"}),
        ("from .. import cart", {"shop.cart"}),
        ("from ..prices import *", {"shop.prices"}),
        ("from ....far import away", set()),
        ("import os, json.decoder", set()),
        ("def f():\n    import tool", {"tool"}),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import tool", {"tool"}),
        ('import_ = "import tool"', set()),
    ],
)
def test_every_import_of_a_known_module_counts(source: str, found: set[str]) -> None:
    assert python_imports(source, module="shop.tax", is_package=True, known=KNOWN) == found


def test_a_plain_modules_dots_start_at_its_package() -> None:
    found = python_imports(
        "from . import cart", module="shop.prices", is_package=False, known=KNOWN
    )

    assert found == {"shop.cart"}


def test_an_odd_escape_in_the_source_warns_nobody() -> None:
    assert python_imports(r'x = "\d"', module="a", is_package=False, known=KNOWN) == set()
