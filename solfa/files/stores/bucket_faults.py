"""What goes wrong with object stores, in one sentence each, without the pages of detail and without credentials."""

import re
from collections.abc import Mapping
from typing import Any

from solfa.errors import StoreError

_CODE = re.compile(r"<Code>\s*(\w{1,60})\s*</Code>")
_STATUS = re.compile(r"status code: (\d{3})")
_HOST = re.compile(r"Error performing \w+ (https?)://(?:[^/@\s]*@)?([^/\s]+)")
_NO_CREDENTIALS = ("169.254.169.254", "169.254.170.2", "metadata.google.internal", "metadata.goog")
"""Where cloud machines keep their credentials: whoever asks there has none in the environment."""

_SECRETS = re.compile("SECRET|TOKEN|PASSWORD|ACCESS_KEY|ACCOUNT_KEY|SAS", re.IGNORECASE)


_AWAY = ("error sending request", "error decoding response body", "connection closed", "Connect", "timed out")
"""What obstore says when a server goes away, before or while it answers."""


class StoreAwayError(StoreError):
    """The store does not answer, or says that it is not well: it may come back."""


def bucket_fault(url: str, error: BaseException, environment: Mapping[str, str]) -> StoreError:
    """Say in one sentence what an error of obstore means for the store at `url`."""
    text = str(error)
    is_away = _is_unreachable(text) or _first(_STATUS, text) in ("500", "502", "503", "504")
    kind = StoreAwayError if is_away else StoreError
    return kind(f"{url}: {without_secrets(_sentence(url, text), environment)}")


def _is_unreachable(text: str) -> bool:
    has_answered = _CODE.search(text) or _STATUS.search(text)
    return not has_answered and any(mark in text for mark in _AWAY)


def _sentence(url: str, text: str) -> str:
    bucket = "/".join(url.split("/")[:3])
    code, status = _first(_CODE, text), _first(_STATUS, text)
    host = _HOST.search(text)
    where = f"{host[1]}://{host[2]}" if host else "the server"
    if code == "NoSuchBucket" or "ContainerNotFound" in text:
        return f"there is no {bucket} at {where}; create the bucket, or correct its name"
    if any(address in text for address in _NO_CREDENTIALS):
        return (
            "found no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
            if url.startswith("s3")
            else "found no credentials in the environment"
        )
    if code in ("ExpiredToken", "TokenRefreshRequired", "RequestExpired"):
        return f"{where} says that the credentials have expired ({code}); renew them and run the same command again"
    if status in ("401", "403"):
        return f"{where} refuses these credentials ({code or status}); check them, and what they may do in {bucket}"
    if "MissingAccount" in text or "Account must be specified" in text:
        return "Azure needs the name of an account; set AZURE_STORAGE_ACCOUNT_NAME"
    if _is_unreachable(text):
        found = next((found for mark, found in _CONNECTIONS.items() if mark in text), "the connection failed")
        return f"{where} cannot be reached ({found}); check the network and AWS_ENDPOINT_URL, then run it again"
    reason = f"{status} {code}".strip() if status or code else text.partition("\n")[0][:200]
    return f"{where} answered: {reason}"


_CONNECTIONS = {
    "dns error": "its name is not known",
    "Connection refused": "nobody answers there",
    "ConnectionRefused": "nobody answers there",
    "TimedOut": "no answer in time",
    "timed out": "no answer in time",
    "Timeout": "no answer in time",
    "certificate": "its certificate is not trusted",
}


def _first(pattern: re.Pattern[str], text: str) -> str:
    found: Any = pattern.search(text)
    return found[1] if found else ""


def without_secrets(text: str, environment: Mapping[str, str]) -> str:
    """Replace whatever the environment calls a key, a token or a password."""
    for name, value in environment.items():
        if _SECRETS.search(name) and len(value) >= 4:
            text = text.replace(value, f"[{name}]")
    return text
