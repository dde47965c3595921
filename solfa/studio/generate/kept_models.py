"""Models that were loaded once and are kept for the next request; a model that trains on is loaded again."""

from collections import OrderedDict
from pathlib import Path

from solfa.generate.model import Model, load_trained
from solfa.generate.trained_folder import read_trained, weights_path

MOST_KEPT = 2

Key = tuple[Path, int | None, int, int]


class KeptModels:
    """The models asked most recently, for one thread; those that were not asked for longest are let go."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._most = most
        self._models: OrderedDict[Key, Model] = OrderedDict()

    def __len__(self) -> int:
        return len(self._models)

    def get(self, folder: Path, epoch: int | None) -> Model:
        """Return a model as its folder is now, loaded as `solfa generate` would."""
        status = weights_path(folder, epoch).stat()
        key = (folder, epoch, status.st_mtime_ns, status.st_size)
        if key not in self._models:
            while len(self._models) >= self._most:  # before the next is loaded, so that there is room for it
                self._models.popitem(last=False)
            trained = read_trained(folder, epoch=epoch)
            self._models[key] = load_trained(trained, device="auto", codec=None, weights=None, trust_code=False)
        self._models.move_to_end(key)
        return self._models[key]
