"""What is missing and cannot be downloaded: one message that says all of it."""

from __future__ import annotations

from collections.abc import Sequence

from asbc.embeddings.download import DownloadError, Wanted, fetch, reachable


def fetch_all(what: str, files: Sequence[Wanted], instead: str, *, download: bool = True) -> None:
    """Download the files that are not there yet; if one cannot be had, say in one message all that is missing.

    Parameters
    ----------
    what : str
        What the files are for.
    files : sequence of Wanted
        All that is needed, whether it is there or not.
    instead : str
        What else would do.
    download : bool, default=True
        False asks the network for nothing.
    """
    for file in files:
        if file.target.exists():
            continue
        try:
            if not download:
                raise DownloadError("download=false")
            fetch(file)
        except DownloadError as error:
            raise all_missing(what, files, instead, str(error).removeprefix(f"{file.url}: ")) from error


def fail_early(what: str, files: Sequence[Wanted], instead: str, *, download: bool = True) -> None:
    """Raise what `fetch_all` would raise if nobody answers where the first missing file is; download nothing.

    So that a command can tell before it imports torch, which takes seconds.

    Parameters
    ----------
    what, files, instead, download
        See `fetch_all`.
    """
    missing = next((file for file in files if not file.target.exists()), None)
    if missing is not None:
        reason = reachable(missing.url) if download else "download=false"
        if reason is not None:
            raise all_missing(what, files, instead, reason)


def all_missing(what: str, files: Sequence[Wanted], instead: str, reason: str) -> DownloadError:
    """The error that lists every file that is not there, with what else would do."""
    missing = [file for file in files if not file.target.exists()]
    count = "1 file is" if len(missing) == 1 else f"{len(missing)} files are"
    return DownloadError(
        f"{what}: {count} missing and could not be downloaded ({reason})\n"
        "Get what is missing on another machine:\n"
        + "\n".join(wanted.lines() for wanted in missing)
        + f"\nOr do without: {instead}"
    )
