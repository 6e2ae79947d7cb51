"""What the makers of golden files share: the setting in a file, and the form of the results."""

import dataclasses

import numpy as np
from safetensors.numpy import load_file
from safetensors import safe_open

LEARNING_RATE, BETA1, BETA2, EPSILON = 1e-3, 0.9, 0.999, 1e-7


@dataclasses.dataclass
class Setting:
    """The inputs in a golden file: see data/golden/README.md for names and shapes."""

    model: str
    weights: dict  # Name -> float32 array, in the order of the model.
    kept: list     # One (steps, batch, elements) array of 0 and 1 per dropout layer.
    rates: list    # Their rates.
    samples: np.ndarray
    labels: np.ndarray

    @property
    def steps(self):
        return self.kept[0].shape[0]

    @property
    def batch(self):
        return self.kept[0].shape[1]

    def layers(self, kind):
        """Names of the layers that start with `kind`, in order: "conv1", "conv2", ..."""
        names = dict.fromkeys(name.split(".")[0] for name in self.weights)
        return sorted((name for name in names if name.startswith(kind)),
                      key=lambda name: int(name[len(kind):]))


def is_weight(name):
    return name.endswith((".w", ".bias")) and not name.startswith("gradient.")


def read(path):
    """The setting in a file of inputs or of results, and all its tensors."""
    tensors = load_file(path)
    with safe_open(path, framework="numpy") as file:
        model = file.metadata()["model"]
    dropouts = sorted(name for name in tensors if name.endswith(".kept"))
    return Setting(model=model,
                   weights={name: value for name, value in tensors.items() if is_weight(name)},
                   kept=[tensors[name] for name in dropouts],
                   rates=[float(tensors[name.replace(".kept", ".rate")][0]) for name in dropouts],
                   samples=tensors["samples"], labels=tensors["labels"]), tensors


def perturbed(weights, epsilon, seed):
    """Every weight times 1 + u * epsilon, u uniform in [-1, 1)."""
    generator = np.random.default_rng(seed)
    return {name: value.astype(np.float64) * (1 + epsilon * generator.uniform(-1, 1, value.shape))
            for name, value in weights.items()}
