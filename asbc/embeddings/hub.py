"""Files of models on the Hugging Face hub: put there by hand, in the hub's own cache, or downloaded."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from asbc.embeddings.cache import cache_folder
from asbc.embeddings.download import Wanted, reachable
from asbc.embeddings.missing import all_missing

WEIGHTS = ("model.safetensors", "pytorch_model.bin")  # the first of them that a repository has
INSTEAD = (
    "embedding.path=<file> names weights that lie elsewhere, embedding.source=lightly has weights of lightly's "
    "benchmark (simclr, mocov2, byol, barlow, vicreg, dino, dino_vits16), embedding.source=checkpoint reads a "
    "checkpoint of yours, and embedding=clinc100 needs no file at all."
)


def hub_wanted(repository: str, file: str, cache: str | os.PathLike | None = None) -> Wanted:
    """A file of a repository, its address, and the place where it is looked for before the hub is asked.

    Parameters
    ----------
    repository : str
        ``user/name``, or ``user/name@revision``.
    file : str
        Its name there.
    cache : path, optional
        The cache folder, see `asbc.embeddings.cache.cache_folder`.
    """
    from huggingface_hub import constants

    name, _, revision = repository.partition("@")
    address = f"{constants.ENDPOINT}/{name}/{{}}/{revision or 'main'}/{file}"
    target = cache_folder(cache) / "hub" / repository / file
    return Wanted(address.format("resolve"), target, page=address.format("blob"))


def model_files(model: str | None, path: object = None, cache: str | os.PathLike | None = None) -> list[Wanted]:
    """Files of the hub that a timm model needs and that are not here, as far as its name tells.

    Parameters
    ----------
    model : str, optional
        ``hf-hub:user/name``, or ``name.tag``, whose weights timm keeps under ``timm/``. Others need none.
    path : optional
        Weights of another file, if not None; then none are needed from the hub.
    cache : path, optional
        The cache folder.
    """
    kind, _, repository = (model or "").partition(":")
    names: list[tuple[str, ...]] = [] if path is not None else [WEIGHTS]
    if kind in ("hf-hub", "hf_hub"):
        names.insert(0, ("config.json",))
    elif "." in kind and not repository:
        repository = f"timm/{kind}"
    else:
        return []
    return [hub_wanted(repository, each[0], cache) for each in names if _here(repository, each, cache) is None]


def hub_file(
    repository: str, names: tuple[str, ...], model: str, cache: str | os.PathLike | None = None, download: bool = True
) -> Path:
    """The first of some files that a repository has, from the hub only where it is not here.

    Parameters
    ----------
    repository : str
        ``user/name``, or ``user/name@revision``.
    names : tuple of str
        Files, the best first.
    model : str
        What they are for, in an error.
    cache : path, optional
        The cache folder.
    download : bool, default=True
        Whether the hub may be asked.
    """
    from huggingface_hub import constants

    here = _here(repository, names, cache)
    if here is not None:
        return here
    wanted = hub_wanted(repository, names[0], cache)
    if not download:
        reason: str | None = "download=false"
    else:
        reason = "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else reachable(wanted.url)
    if reason:
        raise all_missing(f"model={model!r}", [wanted], INSTEAD, reason)
    for name in names:
        try:
            found = _ask(repository, name)
        except Exception as error:  # the hub's library raises a great many kinds
            raise all_missing(f"model={model!r}", [wanted], INSTEAD, str(error)) from error
        if found:
            return found
    raise ValueError(f"model={model!r}: {repository} has none of the files {', '.join(names)}")


def _here(repository: str, names: tuple[str, ...], cache: str | os.PathLike | None) -> Path | None:
    """The first of the files that lies in our place or in the hub's cache."""
    for name in names:
        target = hub_wanted(repository, name, cache).target
        found = target if target.is_file() else _ask(repository, name, local_files_only=True)
        if found:
            return found
    return None


def _ask(repository: str, file: str, **how: Any) -> Path | None:
    """The hub's library for a file; None if the repository, or the cache, has none of that name."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.utils import EntryNotFoundError, HFValidationError

    name, _, revision = repository.partition("@")
    try:
        return Path(hf_hub_download(name, file, revision=revision or None, **how))
    except EntryNotFoundError:
        return None
    except HFValidationError as error:
        raise ValueError(f"model: {repository!r} is no name of a repository on the hub ({error})") from error
