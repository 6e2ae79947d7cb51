#!/usr/bin/env python3
"""Adds to golden inputs what PyTorch computes from them.

usage: with_pytorch.py INPUTS.safetensors RESULT.safetensors

Trains the setting's model for its steps in float64 and in float32, on the CPU, with the file's own
weights, batches and dropout masks, and Adam written out in Keras's form (that of PyTorch scales
epsilon otherwise).
"""

import sys

import numpy as np
import torch
from safetensors.numpy import save_file
from torch.nn import functional

import files


def logits(setting, weights, samples, kept):
    """(batch, classes) of the model; `kept` has (batch, elements) factors per dropout layer."""
    x = samples
    if setting.model == "cifar10_cnn":
        x = x.permute(0, 3, 1, 2)  # To (batch, channels, height, width).
        for number, name in enumerate(setting.layers("conv"), start=1):
            kernel = weights[name + ".w"].permute(3, 2, 0, 1)
            x = functional.conv2d(x, kernel, weights[name + ".bias"], padding=1)
            if number in (2, 4):
                x = functional.max_pool2d(x, 2)
        x = x.permute(0, 2, 3, 1).flatten(1) * kept[0]  # Flattened as (height, width, channels).
        x = torch.relu(x @ weights["dense1.w"] + weights["dense1.bias"])
        return x @ weights["dense2.w"] + weights["dense2.bias"]
    x = x.flatten(1)
    *hidden, last = setting.layers("dense")
    for name, factors in zip(hidden, kept, strict=True):
        x = torch.relu(x @ weights[name + ".w"] + weights[name + ".bias"]) * factors
    return x @ weights[last + ".w"] + weights[last + ".bias"]


def train(setting, start, dtype):
    """Mean losses of the steps, and the gradients of the first step by name, as NumPy arrays."""
    weights = {name: torch.tensor(value, dtype=dtype, requires_grad=True)
               for name, value in start.items()}
    first = {name: torch.zeros_like(value) for name, value in weights.items()}
    second = {name: torch.zeros_like(value) for name, value in weights.items()}
    samples = torch.tensor(setting.samples, dtype=dtype) / 255
    labels = torch.tensor(setting.labels, dtype=torch.int64)
    losses, gradients = [], {}
    for step in range(setting.steps):
        chosen = slice(step * setting.batch, (step + 1) * setting.batch)
        kept = [torch.tensor(mask[step], dtype=dtype) / (1 - rate)
                for mask, rate in zip(setting.kept, setting.rates, strict=True)]
        loss = functional.cross_entropy(logits(setting, weights, samples[chosen], kept),
                                        labels[chosen])
        losses.append(loss.item())
        found = torch.autograd.grad(loss, list(weights.values()))
        t = step + 1
        rate = files.LEARNING_RATE * (1 - files.BETA2**t) ** 0.5 / (1 - files.BETA1**t)
        with torch.no_grad():
            for (name, weight), gradient in zip(weights.items(), found, strict=True):
                if step == 0:
                    gradients[name] = gradient.numpy().copy()
                first[name].mul_(files.BETA1).add_(gradient, alpha=1 - files.BETA1)
                second[name].mul_(files.BETA2).addcmul_(gradient, gradient, value=1 - files.BETA2)
                weight.sub_(rate * first[name] / (second[name].sqrt() + files.EPSILON))
    return np.array(losses), gradients


def spread(setting, epsilon, losses, gradients):
    """How far rounding of the weights by `epsilon`, relative, leads: (steps,) of the losses, and
    the most of any gradient of step 1."""
    loss_spread, gradient_spread = np.zeros(setting.steps), 0.0
    for seed in (1, 2, 3):
        other, found = train(setting, files.perturbed(setting.weights, epsilon, seed), torch.float64)
        loss_spread = np.maximum(loss_spread, np.abs(other - losses))
        gradient_spread = max([gradient_spread] +
                              [np.abs(found[name] - gradients[name]).max() for name in gradients])
    return loss_spread, np.array([gradient_spread])


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    torch.set_num_threads(1)
    torch.backends.mkldnn.enabled = False  # Plain kernels: no reduced precision, no surprise.
    setting, tensors = files.read(sys.argv[1])
    tensors["loss.float64"], gradients = train(setting, setting.weights, torch.float64)
    tensors["loss.float32"], _ = train(setting, setting.weights, torch.float32)
    for name, value in gradients.items():
        tensors["gradient." + name] = value.astype(np.float32)
    for precision, epsilon in (("fp32", 2.0**-23), ("bf16", 2.0**-8)):
        tensors[f"loss_spread.{precision}"], tensors[f"gradient_spread.{precision}"] = spread(
            setting, epsilon, tensors["loss.float64"], gradients)
    save_file(tensors, sys.argv[2], {"model": setting.model})
    print(f"PyTorch {torch.__version__}: losses {tensors['loss.float64'][0]:.6f} .. "
          f"{tensors['loss.float64'][-1]:.6f}, float32 differs by up to "
          f"{np.abs(tensors['loss.float32'] - tensors['loss.float64']).max():.1e}")


if __name__ == "__main__":
    main()
