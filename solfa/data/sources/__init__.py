"""Which clips a stage uses: what a person writes in `dset/*.yaml`, opened, filtered, held out and mixed."""
