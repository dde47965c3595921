"""What the rooms of a studio share: what was asked for on the command line, and the pages."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from solfa.studio.access import Access
from solfa.studio.datasets.shelf import Shelf
from solfa.studio.events import Leaving
from solfa.studio.job_queue import JobQueue
from solfa.studio.pages import Pages


@dataclass(frozen=True)
class Studio:
    """One running studio."""

    shelf: Shelf
    """Its datasets."""
    dora_dir: Path
    """Where experiments are kept, in its folder `xps`."""
    access: Access
    pages: Pages = field(default_factory=Pages)
    leaving: Leaving = field(default_factory=Leaving)

    @property
    def xps_dir(self) -> Path:
        """The folder that holds the experiments' folders."""
        return self.dora_dir / "xps"

    @property
    def own_dir(self) -> Path:
        """The folder for what the studio itself makes: clips, listening tests, datasets."""
        return self.dora_dir / "studio"

    @cached_property
    def jobs(self) -> JobQueue:
        """What takes longer than a page, from all rooms, one after another."""
        return JobQueue(self.leaving)
