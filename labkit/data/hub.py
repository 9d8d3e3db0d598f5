"""What the Hugging Face hub has under a name right now, or had when it was last reached."""

import hashlib
import re

from labkit.data.cache import cache_root, remembered
from labkit.spec import Mistake
from labkit.tracking.atomic import write_json


def commit_of(name: str, revision: str) -> str:
    """The commit that a branch or tag of a dataset names; remembered for when the hub is away. Raises Mistake."""
    if re.fullmatch("[0-9a-f]{40}", revision):
        return revision
    memory = cache_root() / "hub" / f"{hashlib.sha256(f'{name}@{revision}'.encode()).hexdigest()[:32]}.json"
    try:
        commit = _asked(name, revision)
    except Exception as error:  # the libraries below have no common base
        known = remembered(memory).get("commit")
        if known is None or _is_gone(error):
            raise Mistake(
                f"data.corpus.path: {name!r} is no file or folder here, and the hub does not give it at {revision!r}: "
                f"{reason(error)}. Write a path relative to the experiment's file, mend the name, "
                "or run where the hub can be reached."
            ) from error
        return str(known)
    write_json(memory, {"version": 1, "name": name, "revision": revision, "commit": commit})
    return commit


def reason(error: Exception) -> str:
    """An error's message on one line, without its full stop."""
    return (" ".join(str(error).split())[:300] or type(error).__name__).rstrip(".")


def _asked(name: str, revision: str) -> str:
    from huggingface_hub import HfApi

    return str(HfApi().dataset_info(name, revision=revision, timeout=20).sha)


def _is_gone(error: Exception) -> bool:
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError, RevisionNotFoundError

    return isinstance(error, HFValidationError | RepositoryNotFoundError | RevisionNotFoundError)
