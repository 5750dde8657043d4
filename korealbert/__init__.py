"""Raw Korean text in, an evaluated language model in Hugging Face format out."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from korealbert.api import open_artifact, plan, read_documents, run, score

__all__ = ["open_artifact", "plan", "read_documents", "run", "score"]


def __getattr__(name: str) -> Any:
    """Import ``korealbert.api`` when one of its names is used, because every command imports this package."""
    if name not in __all__:
        raise AttributeError(f"module 'korealbert' has no attribute {name!r}")
    from korealbert import api  # noqa: PLC0415

    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
