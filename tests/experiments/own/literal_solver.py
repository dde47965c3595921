"""A solver as AudioCraft's documentation shows it: `cfg` alone, keys without a model, its own optimiser steps."""

import omegaconf
import torch

from solfa.solvers import StandardSolver, optim


class LiteralSolver(StandardSolver):
    def __init__(self, cfg: omegaconf.DictConfig):
        super().__init__(cfg)
        self.criterion = torch.nn.L1Loss()

    def best_metric(self):
        return "loss"

    def build_model(self):
        self.model = torch.nn.Linear(self.cfg.net.dim, **self.cfg.net.options)
        self.optimizer = optim.build_optimizer(self.model.parameters(), self.cfg.optim)
        self.register_stateful("model", "optimizer")
        self.register_best("model")
        self.register_ema("model")

    def build_dataloaders(self):
        rows = torch.utils.data.TensorDataset(torch.ones(8, self.cfg.net["dim"]))
        self.dataloaders = {name: torch.utils.data.DataLoader(rows, batch_size=4) for name in ("train", "valid")}

    def run_step(self, idx, batch, metrics):
        loss = self.criterion(self.model(batch[0]), torch.full((4, 1), self.cfg.gain))
        if self.is_training:
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
        metrics["loss"] = loss
        return metrics

    def evaluate(self): ...

    def generate(self): ...
