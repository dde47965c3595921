"""Nothing that is encoded here has to survive a power cut."""

from tests.disks import no_waiting_for_disks  # noqa: F401
