"""Upload a folder of weights to the Hugging Face Hub, given a token."""

import shlex
from pathlib import Path

from solfa.errors import ConfigError


def push_folder(folder: Path, repo_id: str, *, private: bool = True) -> str:
    """Upload a folder as a model repository, creating it if needed; return its URL."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    require_token(repo_id)
    api = HfApi()
    try:
        url = api.create_repo(repo_id, private=private, exist_ok=True)
        api.upload_folder(folder_path=folder, repo_id=repo_id)
    except HFValidationError as error:
        raise ConfigError(f"`push`: expected a name such as user/model, found {repo_id!r} ({error})") from None
    except (HfHubHTTPError, OSError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(
            f"`push`: uploading to {repo_id} failed ({reason}); {folder} is complete, so you can push it later with "
            f"`hf upload {repo_id} {shlex.quote(str(folder))} . --private`"
        ) from None
    return str(url)


def require_token(repo_id: str) -> None:
    """Refuse to push without a token, before anything is written."""
    from huggingface_hub import get_token

    if get_token() is None:
        raise ConfigError(
            f"`push`: {repo_id} needs a Hugging Face token, found none; run `hf auth login`, or set HF_TOKEN"
        )
