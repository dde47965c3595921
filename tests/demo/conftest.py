"""Nothing that the demo makes here has to survive a power cut."""

from tests.disks import no_waiting_for_disks  # noqa: F401
