"""Who we are to an object store: what the usual variables and profiles of the AWS tools say. Nothing is kept."""

import configparser
from collections.abc import Mapping
from pathlib import Path

_OF_PROFILE = {
    "aws_access_key_id": "access_key_id",
    "aws_secret_access_key": "secret_access_key",
    "aws_session_token": "session_token",
    "region": "region",
    "endpoint_url": "endpoint",
}
"""What a profile may say, and what obstore calls it."""


def s3_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Find what obstore does not read from the environment by itself: profiles, and the endpoint."""
    settings: dict[str, str] = {}
    profile = environment.get("AWS_PROFILE") or environment.get("AWS_DEFAULT_PROFILE")
    if profile or not environment.get("AWS_ACCESS_KEY_ID"):
        settings = _profile(environment, profile or "default")
    if profile is None or not settings.get("secret_access_key"):
        # As the AWS tools do: what a variable says wins over the default profile.
        settings = {name: value for name, value in settings.items() if not environment.get(f"AWS_{name.upper()}")}
    endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
    if endpoint:
        settings["endpoint"] = endpoint
    return settings


def _profile(environment: Mapping[str, str], name: str) -> dict[str, str]:
    home = Path(environment.get("HOME") or Path.home())
    files = {
        environment.get("AWS_CONFIG_FILE") or str(home / ".aws" / "config"): f"profile {name}",
        environment.get("AWS_SHARED_CREDENTIALS_FILE") or str(home / ".aws" / "credentials"): name,
    }
    found: dict[str, str] = {}
    for file, section in files.items():
        parser = configparser.RawConfigParser()
        try:
            parser.read(Path(file).expanduser(), encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError):
            continue  # the store then says that there are no credentials
        for title in (section, name):
            if parser.has_section(title):
                found |= {ours: value for theirs, ours in _OF_PROFILE.items() if (value := parser[title].get(theirs))}
    return found
