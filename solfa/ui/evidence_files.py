"""Write the page about what became of the weights that a run started from into the experiment's folder."""

import logging
from pathlib import Path

from solfa.files.whole_files import replace_atomically
from solfa.solvers.evidence.comparison import Evidence
from solfa.solvers.watchers.protocol import Watcher
from solfa.ui.html.evidence_page import render_evidence
from solfa.xp.layout import EVIDENCE_PAGE

logger = logging.getLogger(__name__)


class EvidenceWriter(Watcher):
    """Writes `evidence.html` when a run that started from weights has ended, and says in the log what it says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def changed(self, evidence: Evidence) -> None:
        page = self.folder / EVIDENCE_PAGE
        replace_atomically(page, render_evidence(evidence, self.folder.resolve().name).encode("utf-8"))
        logger.info("%s; open %s", evidence.verdict.sentence, page)
