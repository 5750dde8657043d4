"""Facts about this machine and its packages that can change results; manifests and certificates record them."""

from __future__ import annotations

import ctypes
import os
import platform
import re
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

_BLAS_FILE = re.compile(r"lib(\w*openblas|mkl_rt|blis|blas)\w*[-.]")
_CORE_NAMES = (
    "scipy_openblas_get_corename64_",
    "scipy_openblas_get_corename",
    "openblas_get_corename64_",
    "openblas_get_corename",
)


def host_facts() -> dict[str, Any]:
    """Return version, interpreter, machine, and packages whose versions can change results."""
    corpus = ("pyarrow", "polars", "kiwipiepy", "rensa", "httpcore", "protego", "fastwarc", "lxml", "trafilatura")
    packages = (*corpus, "sentencepiece", "torch", "deepspeed", "transformers", "numpy")
    versions = {}
    for package in packages:
        with suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return {
        "korealbert": metadata.version("korealbert"),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "cpu": _cpu(),
        "blas": _blas(),
        "gpus": _gpus(),
        "packages": versions,
    }


def _cpu() -> str:
    """Return the processor's name as its maker gives it, if the system reports it."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            if line.lower().startswith(("model name", "cpu model")):
                return line.partition(":")[2].strip()
    return platform.processor()


def _gpus() -> list[str]:
    """Return the names of NVIDIA GPUs. The driver reports them without CUDA."""
    with suppress(OSError):
        files = sorted(Path("/proc/driver/nvidia/gpus").glob("*/information"))
        lines = (line for path in files for line in path.read_text("utf-8", "replace").splitlines())
        return [line.partition(":")[2].strip() for line in lines if line.startswith("Model:")]
    return []


def _blas() -> list[str]:
    """Return the BLAS libraries that this process has loaded, with OpenBLAS's choice of kernels: their sums differ."""
    found = []
    with suppress(OSError):
        mapped = {
            line.split()[-1] for line in Path("/proc/self/maps").read_text("utf-8", "replace").splitlines() if "/" in line
        }
        for path in sorted(each for each in mapped if _BLAS_FILE.match(Path(each).name)):
            library = ctypes.CDLL(path)
            names = [getattr(library, symbol) for symbol in _CORE_NAMES if hasattr(library, symbol)]
            for name in names[:1]:
                name.restype = ctypes.c_char_p
            found.append(" ".join([Path(path).name, *(name().decode() for name in names[:1])]))
    return found
