#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Converts PyTorch models and blocks to Core ML packages with coremltools, for tools/coreml_check.py: small, random weights
from a fixed seed, no downloads. coreml_zoo.py FOLDER [NAME...] writes for each

    FOLDER/NAME.mlpackage     the converted program
    FOLDER/NAME/IN.npy        its inputs, by the program's names; states start as zeros
    FOLDER/NAME/OUT.npy       PyTorch's results in fp32, by the program's names
    FOLDER/NAME/zoo.json      names, steps of stateful models, and the error that PyTorch has in fp16 (largest difference
                              over largest value, per output)

Exits with 77 if PyTorch or coremltools cannot be imported."""
import json
import os
import sys
import warnings

os.environ.setdefault("TQDM_DISABLE", "1")
warnings.filterwarnings("ignore")
try:
    import logging

    logging.disable(logging.WARNING)
    import coremltools as ct
    import numpy as np
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
except ImportError as e:
    print(f"PyTorch or coremltools is not here: {e}")
    sys.exit(77)

ZOO = {}


def zoo(function):
    ZOO[function.__name__] = function
    return function


class Case:
    """A model, its inputs by name, and how to convert it."""

    def __init__(self, model, inputs, target="iOS17", states=None, steps=1, after=None, script=False, halves=True,
                 flexible=None, built=None, wanted=None, unstable=False):
        self.model, self.inputs, self.target, self.states = model, inputs, target, states
        self.steps, self.after, self.script, self.halves, self.flexible = steps, after, script, halves, flexible
        self.built, self.wanted = built, wanted
        self.unstable = unstable  # rounding decides which elements are picked, so fp16 is run but not compared


def image(channels=3, size=64):
    return torch.randn(1, channels, size, size)


# ---- vision -----------------------------------------------------------------------------------------------------------------


def conv_bn(i, o, k=3, s=1, g=1, act=True):
    layers = [nn.Conv2d(i, o, k, s, k // 2, groups=g, bias=False), nn.BatchNorm2d(o)]
    return nn.Sequential(*layers, *([nn.ReLU()] if act else []))


class Residual(nn.Module):
    def __init__(self, i, o, s):
        super().__init__()
        self.body = nn.Sequential(conv_bn(i, o, 1), conv_bn(o, o, 3, s), conv_bn(o, 2 * o, 1, act=False))
        self.skip = nn.Identity() if i == 2 * o and s == 1 else conv_bn(i, 2 * o, 1, s, act=False)

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x))


@zoo
def resnet():
    m = nn.Sequential(conv_bn(3, 16, 7, 2), nn.MaxPool2d(3, 2, 1), Residual(16, 16, 1), Residual(32, 16, 1),
                      Residual(32, 32, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    return Case(m, {"image": image()})


class Squeeze(nn.Module):
    def __init__(self, c, r, gate):
        super().__init__()
        self.down, self.up, self.gate = nn.Conv2d(c, r, 1), nn.Conv2d(r, c, 1), gate

    def forward(self, x):
        return x * self.gate(self.up(F.relu(self.down(F.adaptive_avg_pool2d(x, 1)))))


class Inverted(nn.Module):
    def __init__(self, i, mid, o, k, s, act, gate):
        super().__init__()
        self.add = i == o and s == 1
        self.body = nn.Sequential(nn.Conv2d(i, mid, 1, bias=False), nn.BatchNorm2d(mid), act(),
                                  nn.Conv2d(mid, mid, k, s, k // 2, groups=mid, bias=False), nn.BatchNorm2d(mid), act(),
                                  Squeeze(mid, max(4, mid // 4), gate), nn.Conv2d(mid, o, 1, bias=False),
                                  nn.BatchNorm2d(o))

    def forward(self, x):
        y = self.body(x)
        return x + y if self.add else y


@zoo
def mobilenetv3():
    a, g = nn.Hardswish, nn.Hardsigmoid()
    m = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), a(), Inverted(16, 32, 16, 3, 1, a, g),
                      Inverted(16, 48, 24, 5, 2, nn.ReLU, g), Inverted(24, 72, 24, 5, 1, a, g),
                      nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 64), a(), nn.Linear(64, 10))
    return Case(m, {"image": image()})


@zoo
def efficientnet():
    a, g = nn.SiLU, nn.Sigmoid()
    m = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), a(), Inverted(16, 16, 16, 3, 1, a, g),
                      Inverted(16, 96, 24, 3, 2, a, g), Inverted(24, 144, 24, 5, 1, a, g), nn.AdaptiveAvgPool2d(1),
                      nn.Flatten(), nn.Linear(24, 10))
    return Case(m, {"image": image()})


class LayerNorm2d(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNextBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.dw, self.norm = nn.Conv2d(c, c, 7, padding=3, groups=c), nn.LayerNorm(c, eps=1e-6)
        self.up, self.down, self.scale = nn.Linear(c, 4 * c), nn.Linear(4 * c, c), nn.Parameter(torch.rand(c))

    def forward(self, x):
        y = self.norm(self.dw(x).permute(0, 2, 3, 1))
        return x + (self.scale * self.down(F.gelu(self.up(y)))).permute(0, 3, 1, 2)


@zoo
def convnext():
    m = nn.Sequential(nn.Conv2d(3, 24, 4, 4), LayerNorm2d(24), ConvNextBlock(24), ConvNextBlock(24), LayerNorm2d(24),
                      nn.Conv2d(24, 48, 2, 2), ConvNextBlock(48), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                      nn.LayerNorm(48), nn.Linear(48, 10))
    return Case(m, {"image": image()})


class Attention(nn.Module):
    def __init__(self, d, h, causal=False, fused=False):
        super().__init__()
        self.qkv, self.out, self.h, self.causal, self.fused = nn.Linear(d, 3 * d), nn.Linear(d, d), h, causal, fused
        self.d, self.e = d, d // h

    def forward(self, x, mask=None):
        q, k, v = (t.view(1, -1, self.h, self.e).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        if self.fused:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        else:
            w = q @ k.transpose(-2, -1) / self.e ** 0.5
            if self.causal:
                places = torch.arange(x.shape[1])
                w = w.masked_fill(places[None, :] > places[:, None], float("-inf"))
            if mask is not None:
                w = w + (1.0 - mask[:, None, None, :]) * -1e4
            y = w.softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(1, -1, self.d))


class Block(nn.Module):
    def __init__(self, d, h, act=F.gelu, causal=False, fused=False, post=False):
        super().__init__()
        self.a, self.n1, self.n2 = Attention(d, h, causal, fused), nn.LayerNorm(d), nn.LayerNorm(d)
        self.up, self.down, self.act, self.post = nn.Linear(d, 4 * d), nn.Linear(4 * d, d), act, post

    def forward(self, x, mask=None):
        if self.post:
            x = self.n1(x + self.a(x, mask))
            return self.n2(x + self.down(self.act(self.up(x))))
        x = x + self.a(self.n1(x), mask)
        return x + self.down(self.act(self.up(self.n2(x))))


class ViT(nn.Module):
    def __init__(self, fused=False):
        super().__init__()
        self.patch, self.cls = nn.Conv2d(3, 64, 16, 16), nn.Parameter(torch.randn(1, 1, 64))
        self.pos = nn.Parameter(torch.randn(1, 17, 64))
        self.blocks = nn.Sequential(Block(64, 4, fused=fused), Block(64, 4, fused=fused))
        self.norm, self.head = nn.LayerNorm(64), nn.Linear(64, 10)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls, x], 1) + self.pos
        return self.head(self.norm(self.blocks(x))[:, 0])


@zoo
def vit():
    return Case(ViT(), {"image": image()})


@zoo
def vit_fused_attention():
    return Case(ViT(True), {"image": image()}, target="iOS18")


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = conv_bn(3, 8), conv_bn(8, 16), conv_bn(16, 32)
        self.up = nn.ConvTranspose2d(32, 16, 2, 2)
        self.d, self.e, self.out = conv_bn(32, 16), conv_bn(24, 8), nn.Conv2d(8, 2, 1)

    def forward(self, x):
        a = self.a(x)
        b = self.b(F.max_pool2d(a, 2))
        y = self.d(torch.cat([self.up(self.c(F.max_pool2d(b, 2))), b], 1))
        y = F.interpolate(y, scale_factor=2, mode="bilinear", align_corners=False)
        return self.out(self.e(torch.cat([y, a], 1)))


@zoo
def unet():
    return Case(UNet(), {"image": image()})


class SuperResolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(1, 16, 5, padding=2), nn.Conv2d(16, 16, 3, padding=1), nn.Conv2d(16, 9, 3, padding=1)
        self.p = nn.PReLU(16)

    def forward(self, x):
        up = F.interpolate(x, scale_factor=3, mode="nearest")
        return up + F.pixel_shuffle(self.c(torch.tanh(self.b(self.p(self.a(x))))), 3)


@zoo
def super_resolution():
    return Case(SuperResolution(), {"luma": image(1, 32)})


@zoo
def inception_pools():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = conv_bn(3, 8, 1), conv_bn(3, 8, 3), nn.Conv2d(3, 8, 3, padding=2, dilation=2)

        def forward(self, x):
            y = torch.cat([self.a(x), self.b(x), self.c(x), F.avg_pool2d(x, 3, 1, 1)], 1)
            return F.max_pool2d(F.leaky_relu(y, 0.1), 2, ceil_mode=True)

    return Case(M(), {"image": image(3, 33)})


@zoo
def conv3d():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.c, self.d, self.b = nn.Conv3d(2, 8, 3, padding=1), nn.Conv3d(8, 4, (1, 3, 3), (1, 2, 2)), nn.BatchNorm3d(8)

        def forward(self, x):
            return self.d(F.max_pool3d(F.elu(self.b(self.c(x))), (1, 2, 2)))

    return Case(M(), {"clip": torch.randn(1, 2, 4, 12, 12)})


@zoo
def group_norm():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.c, self.g, self.i = nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(4, 8), nn.InstanceNorm2d(8, affine=True)

        def forward(self, x):
            return F.mish(self.i(F.elu(self.g(self.c(x)))))

    return Case(M(), {"image": image(3, 16)})


# ---- audio ------------------------------------------------------------------------------------------------------------------


class Conformer(nn.Module):
    def __init__(self, d=48):
        super().__init__()
        self.ff1, self.ff2 = (nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.SiLU(), nn.Linear(4 * d, d)) for _ in range(2))
        self.na, self.a, self.nc, self.no = nn.LayerNorm(d), Attention(d, 4), nn.LayerNorm(d), nn.LayerNorm(d)
        self.p1, self.dw = nn.Conv1d(d, 2 * d, 1), nn.Conv1d(d, d, 15, padding=7, groups=d)
        self.bn, self.p2 = nn.BatchNorm1d(d), nn.Conv1d(d, d, 1)

    def forward(self, x):
        x = x + 0.5 * self.ff1(x)
        x = x + self.a(self.na(x))
        y = F.glu(self.p1(self.nc(x).transpose(1, 2)), 1)
        x = x + self.p2(F.silu(self.bn(self.dw(y)))).transpose(1, 2)
        return self.no(x + 0.5 * self.ff2(x))


@zoo
def conformer():
    return Case(nn.Sequential(Conformer(), Conformer()), {"frames": torch.randn(1, 40, 48)})


class Whisper(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1, self.c2 = nn.Conv1d(20, 48, 3, padding=1), nn.Conv1d(48, 48, 3, 2, 1)
        self.pos, self.blocks, self.norm = nn.Parameter(torch.randn(30, 48)), nn.Sequential(Block(48, 4), Block(48, 4)), nn.LayerNorm(48)

    def forward(self, mel):
        x = F.gelu(self.c2(F.gelu(self.c1(mel)))).permute(0, 2, 1)
        return self.norm(self.blocks(x + self.pos))


@zoo
def whisper_encoder():
    return Case(Whisper(), {"mel": torch.randn(1, 20, 60)})


class Recurrent(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.r = kind(12, 16, batch_first=True, **options)
        self.out = nn.Linear(32 if options.get("bidirectional") else 16, 5)

    def forward(self, x):
        return self.out(self.r(x)[0])


@zoo
def lstm():
    return Case(Recurrent(nn.LSTM, num_layers=2), {"x": torch.randn(1, 9, 12)})


@zoo
def lstm_bidirectional():
    return Case(Recurrent(nn.LSTM, bidirectional=True), {"x": torch.randn(1, 9, 12)})


@zoo
def gru():
    return Case(Recurrent(nn.GRU), {"x": torch.randn(1, 9, 12)})


# ---- text -------------------------------------------------------------------------------------------------------------------


class Bert(nn.Module):
    def __init__(self, d=48, vocab=100):
        super().__init__()
        self.words, self.places, self.norm = nn.Embedding(vocab, d), nn.Embedding(64, d), nn.LayerNorm(d)
        self.b1, self.b2, self.pool = Block(d, 4, post=True), Block(d, 4, post=True), nn.Linear(d, d)

    def forward(self, ids, mask):
        x = self.norm(self.words(ids) + self.places(torch.arange(ids.shape[1])))
        x = self.b2(self.b1(x, mask), mask)
        return x, torch.tanh(self.pool(x[:, 0]))


@zoo
def bert():
    mask = torch.ones(1, 24)
    mask[:, 20:] = 0
    return Case(Bert(), {"ids": torch.randint(0, 100, (1, 24), dtype=torch.int32), "mask": mask})


class ChannelFirstNorm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.rand(d)), nn.Parameter(torch.randn(d))

    def forward(self, x):
        zero = x - x.mean(1, keepdim=True)
        y = zero * (zero.pow(2).mean(1, keepdim=True) + 1e-5).rsqrt()
        return (y + self.bias.view(1, -1, 1, 1)) * self.weight.view(1, -1, 1, 1)


class ChannelFirstBlock(nn.Module):
    """Channel-first, with 1x1 convolutions for linear layers and attention head by head: the form designed for the Neural
    Engine."""

    def __init__(self, d=48, h=4):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Conv2d(d, d, 1) for _ in range(4))
        self.up, self.down, self.n1, self.n2, self.h = nn.Conv2d(d, 4 * d, 1), nn.Conv2d(4 * d, d, 1), ChannelFirstNorm(d), ChannelFirstNorm(d), h

    def forward(self, x, mask):
        size = x.shape[1] // self.h
        q, k, v = self.q(x).split(size, 1), self.k(x).transpose(1, 3).split(size, 3), self.v(x).split(size, 1)
        w = [torch.einsum("bchq,bkhc->bkhq", a, b) * size ** -0.5 + mask for a, b in zip(q, k)]
        y = torch.cat([torch.einsum("bkhq,bchk->bchq", a.softmax(1), b) for a, b in zip(w, v)], 1)
        x = self.n1(x + self.o(y))
        return self.n2(x + self.down(F.gelu(self.up(x))))


class ChannelFirstBert(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.a, self.b = nn.Embedding(100, 48), ChannelFirstBlock(), ChannelFirstBlock()

    def forward(self, ids, mask):
        x = self.words(ids).transpose(1, 2).unsqueeze(2)
        bias = ((1.0 - mask) * -1e4).view(1, -1, 1, 1)
        return self.b(self.a(x, bias), bias)


@zoo
def distilbert_ane():
    mask = torch.ones(1, 24)
    mask[:, 18:] = 0
    return Case(ChannelFirstBert(), {"ids": torch.randint(0, 100, (1, 24), dtype=torch.int32), "mask": mask})


class Gpt2(nn.Module):
    def __init__(self, d=48):
        super().__init__()
        self.words, self.places = nn.Embedding(100, d), nn.Parameter(torch.randn(32, d))
        act = lambda x: F.gelu(x, approximate="tanh")
        self.blocks, self.norm = nn.Sequential(Block(d, 4, act, True), Block(d, 4, act, True)), nn.LayerNorm(d)

    def forward(self, ids):
        x = self.norm(self.blocks(self.words(ids) + self.places[torch.arange(ids.shape[1])]))
        return x @ self.words.weight.t()


@zoo
def gpt2():
    return Case(Gpt2(), {"ids": torch.randint(0, 100, (1, 20), dtype=torch.int32)})


@zoo
def gpt2_flexible():
    c = gpt2()
    c.flexible = {"ids": (1, ct.RangeDim(1, 32, default=20))}
    return c


class Rms(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.w = nn.Parameter(torch.rand(d) + 0.5)

    def forward(self, x):
        return x * (x.pow(2).mean(-1, keepdim=True) + 1e-5).rsqrt() * self.w


class Llama(nn.Module):
    """One token per call; keys and values are in two states of [layers, heads, positions, size]."""

    def __init__(self, d=48, h=4, kv=2, layers=2, room=16):
        super().__init__()
        self.d, self.h, self.kv, self.n, self.room, self.e = d, h, kv, layers, room, d // h
        self.words, self.norm = nn.Embedding(100, d), Rms(d)
        make = lambda o, i=d: nn.ModuleList(nn.Linear(i, o, bias=False) for _ in range(layers))
        self.q, self.k, self.v, self.o = make(d), make(kv * self.e), make(kv * self.e), make(d)
        self.gate, self.up, self.down = make(4 * d), make(4 * d), make(d, 4 * d)
        self.n1, self.n2 = (nn.ModuleList(Rms(d) for _ in range(layers)) for _ in range(2))
        self.register_buffer("k_cache", torch.zeros(layers, kv, room, self.e))
        self.register_buffer("v_cache", torch.zeros(layers, kv, room, self.e))
        angle = torch.arange(room)[:, None] * (10000.0 ** (-torch.arange(0, self.e, 2) / self.e))[None]
        self.register_buffer("cos", torch.cat([angle.cos()] * 2, -1), persistent=False)
        self.register_buffer("sin", torch.cat([angle.sin()] * 2, -1), persistent=False)

    def turn(self, x, at):
        half = torch.cat([-x[..., self.e // 2:], x[..., : self.e // 2]], -1)
        return x * self.cos[at] + half * self.sin[at]

    def forward(self, ids, place, write, mask):
        x = self.words(ids)  # [1, 1, d]
        for i in range(self.n):
            y = self.n1[i](x)
            q = self.turn(self.q[i](y).view(1, self.h, 1, self.e), place)
            k = self.turn(self.k[i](y).view(1, self.kv, 1, self.e), place)
            v = self.v[i](y).view(1, self.kv, 1, self.e)
            keys = self.k_cache[i: i + 1] * (1 - write) + k * write
            values = self.v_cache[i: i + 1] * (1 - write) + v * write
            self.k_cache[i: i + 1] = keys
            self.v_cache[i: i + 1] = values
            keys, values = (t.repeat_interleave(self.h // self.kv, 1) for t in (keys, values))
            w = (q @ keys.transpose(-2, -1) / self.e ** 0.5 + mask).softmax(-1)
            x = x + self.o[i]((w @ values).reshape(1, 1, self.d))
            y = self.n2[i](x)
            x = x + self.down[i](F.silu(self.gate[i](y)) * self.up[i](y))
        return self.norm(x) @ self.words.weight.t()


@zoo
def llama_states():
    steps = []
    for t in range(3):
        write, mask = torch.zeros(1, 1, 16, 1), torch.full((1, 1, 1, 16), -1e4)
        write[:, :, t], mask[..., : t + 1] = 1, 0
        steps.append({"ids": torch.tensor([[7 + 3 * t]], dtype=torch.int32), "place": torch.tensor([t], dtype=torch.int32),
                      "write": write, "mask": mask})
    return Case(Llama(), steps, target="iOS18", states=["k_cache", "v_cache"], steps=3)


# ---- detection, control flow ------------------------------------------------------------------------------------------------


class Detect(nn.Module):
    """Detection: boxes from anchors, classes, the best hundred scores, suppression by overlap."""

    def __init__(self):
        super().__init__()
        self.body, self.box, self.cls = nn.Sequential(conv_bn(3, 16, 3, 2), conv_bn(16, 24, 3, 2)), nn.Conv2d(24, 4, 1), nn.Conv2d(24, 5, 1)

    def forward(self, x):
        f = self.body(x)
        box = self.box(f).flatten(2).transpose(1, 2).sigmoid()
        score, label = self.cls(f).flatten(2).transpose(1, 2).softmax(-1).max(-1)
        best, at = score.topk(20, 1)
        picked = torch.gather(box, 1, at.unsqueeze(-1).expand(-1, -1, 4))
        x1, y1 = picked[..., 0] - picked[..., 2] / 2, picked[..., 1] - picked[..., 3] / 2
        x2, y2 = picked[..., 0] + picked[..., 2] / 2, picked[..., 1] + picked[..., 3] / 2
        w = (torch.minimum(x2[:, :, None], x2[:, None]) - torch.maximum(x1[:, :, None], x1[:, None])).clamp(min=0)
        h = (torch.minimum(y2[:, :, None], y2[:, None]) - torch.maximum(y1[:, :, None], y1[:, None])).clamp(min=0)
        area = (x2 - x1) * (y2 - y1)
        overlap = w * h / (area[:, :, None] + area[:, None] - w * h + 1e-6)
        return picked, best, overlap.triu(1).amax(1)


@zoo
def detection():
    return Case(Detect(), {"image": image()}, halves=False, unstable=True)


def suppress(boxes, scores, count, least, overlap):
    """Computes non_maximum_suppression of iOS 17 for one class: centre-size boxes, best first."""
    order = [i for i in torch.argsort(scores, descending=True, stable=True).tolist() if scores[i] > least]
    corner = torch.cat([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2], 1)
    area, kept = boxes[:, 2] * boxes[:, 3], []
    for i in order:
        clear = True
        for k in kept:
            side = (torch.minimum(corner[i, 2:], corner[k, 2:]) - torch.maximum(corner[i, :2], corner[k, :2])).clamp(min=0)
            both = (side[0] * side[1]).item()
            clear = clear and both / (area[i] + area[k] - both).item() <= overlap
        if clear and len(kept) < count:
            kept.append(i)
    return kept


@zoo
def detection_nms():
    """Built operation by operation, because coremltools generates non_maximum_suppression only from torchvision's nms."""
    from coremltools.converters.mil import Builder as mb

    boxes = torch.cat([torch.rand(40, 2) * 50, 5 + torch.rand(40, 2) * 20], 1).half().float()
    scores = (torch.randperm(40) / 40).half().float()
    kept = suppress(boxes, scores, 10, -1, 0.4)
    filled = kept + [-1] * (10 - len(kept))
    pick = lambda t: torch.stack([t[i] if i >= 0 else torch.zeros_like(t[0]) for i in filled])
    out = [pick(boxes).T[None].contiguous(), torch.tensor([[[scores[i].item() if i >= 0 else 0.0 for i in filled]]])]

    def build(precision):
        @mb.program(input_specs=[mb.TensorSpec(shape=(1, 4, 40)), mb.TensorSpec(shape=(1, 1, 40))], opset_version=ct.target.iOS17)
        def program(boxes, scores):
            b, s, i = mb.non_maximum_suppression(boxes=boxes, scores=scores, iou_threshold=np.float32(0.4), max_boxes=10, per_class_suppression=False)
            return mb.identity(x=b, name="kept_boxes"), mb.identity(x=s, name="kept_scores")

        return ct.convert(program, convert_to="mlprogram", skip_model_load=True, minimum_deployment_target=ct.target.iOS17, compute_precision=precision)

    return Case(None, {"boxes": boxes.T[None].contiguous(), "scores": scores[None, None]}, built=build, wanted=out, halves=False)


@zoo
def control_cond():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x):
            if bool(x.sum() > 0):
                y = torch.relu(self.a(x))
            else:
                y = torch.tanh(self.b(x)) * 2
            return y + x

    return Case(M(), {"x": torch.randn(1, 8)}, script=True)


@zoo
def control_while():
    from coremltools.converters.mil import Builder as mb

    x, w = torch.randn(1, 8).half().float(), torch.randn(8, 8).half().float()
    y = x
    while y.abs().max() < 40:
        y = y @ w + x

    def build(precision):
        @mb.program(input_specs=[mb.TensorSpec(shape=(1, 8))], opset_version=ct.target.iOS15)
        def program(x):
            small = lambda y: mb.less(x=mb.reduce_max(x=mb.abs(x=y)), y=np.float32(40))
            return mb.while_loop(_cond=small, _body=lambda y: mb.add(x=mb.matmul(x=y, y=w.numpy()), y=x), loop_vars=(x,))

        return ct.convert(program, convert_to="mlprogram", skip_model_load=True, minimum_deployment_target=ct.target.iOS15, compute_precision=precision)

    return Case(None, {"x": x}, built=build, wanted=[y], halves=False)


@zoo
def indexing():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("rows", torch.tensor([3, 1, 0]))

        def forward(self, x, at):
            y = torch.index_select(x, 0, self.rows) + torch.gather(x[:3], 1, at.long())
            z = F.pad(y, (1, 2), value=0.5).cumsum(1)
            order = torch.argsort(z[:, :4], 1, descending=True)
            return z, order, torch.where(z > 0, z.clamp(max=2), z.abs().sqrt()), F.one_hot(order, 6).float().mean(1)

    return Case(M(), {"x": torch.randn(4, 6), "at": torch.randint(0, 6, (3, 6), dtype=torch.int32)}, halves=False)


# ---- compressed weights -----------------------------------------------------------------------------------------------------


def compressed(config, target="iOS18"):
    def after(model):
        return config(model)

    c = resnet()
    c.model = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(4),
                            nn.Flatten(), nn.Linear(1024, 32), nn.ReLU(), nn.Linear(32, 10))
    c.after, c.target, c.halves = after, target, False
    return c


def with_op(config, **options):
    import coremltools.optimize.coreml as cto

    of = getattr(cto, options.pop("of"))
    return lambda model: getattr(cto, config)(model, cto.OptimizationConfig(global_config=of(weight_threshold=64, **options)))


@zoo
def palettised():
    return compressed(with_op("palettize_weights", of="OpPalettizerConfig", mode="uniform", nbits=4))


@zoo
def palettised_ios16():
    return compressed(with_op("palettize_weights", of="OpPalettizerConfig", mode="uniform", nbits=6), "iOS16")


@zoo
def palettised_grouped():
    return compressed(with_op("palettize_weights", of="OpPalettizerConfig", mode="uniform", nbits=4, granularity="per_grouped_channel", group_size=8))


@zoo
def int8_weights():
    return compressed(with_op("linear_quantize_weights", of="OpLinearQuantizerConfig", mode="linear_symmetric"), "iOS16")


@zoo
def int4_blockwise():
    return compressed(with_op("linear_quantize_weights", of="OpLinearQuantizerConfig", mode="linear_symmetric", dtype="int4", granularity="per_block", block_size=16))


@zoo
def sparse():
    return compressed(with_op("prune_weights", of="OpThresholdPrunerConfig", threshold=0.02, minimum_sparsity_percentile=0.1), "iOS16")


@zoo
def sparse_ios18():
    return compressed(with_op("prune_weights", of="OpThresholdPrunerConfig", threshold=0.02, minimum_sparsity_percentile=0.1))


# ---- making -----------------------------------------------------------------------------------------------------------------


def randomise(model):
    """Sets running statistics as after training, so that batch norms have an effect."""
    for m in model.modules():
        if isinstance(m, nn.modules.batchnorm._BatchNorm):
            m.running_mean.normal_(0, 0.2)
            m.running_var.uniform_(0.5, 1.5)
            m.weight.data.uniform_(0.5, 1.5)
            m.bias.data.normal_(0, 0.2)


def tuple_of(y):
    return y if isinstance(y, tuple) else (y,)


def run_steps(case, dtype):
    import copy

    model = copy.deepcopy(case.model).to(dtype)
    steps = case.inputs if isinstance(case.inputs, list) else [case.inputs]
    out = []
    for s in steps:
        given = [v.to(dtype) if v.is_floating_point() else v for v in s.values()]
        out.append([y.float() for y in tuple_of(model(*given))])
    return steps, out


def error(a, b):
    scale = b.abs().max().item()
    return (a - b).abs().max().item() / (scale if scale > 0 else 1)


def types_of(case, steps):
    out = []
    for name, value in steps[0].items():
        shape = (case.flexible or {}).get(name, tuple(value.shape))
        out.append(ct.TensorType(name=name, shape=shape, dtype=np.int32 if value.dtype == torch.int32 else np.float32))
    return out


def rounded(case):
    """Rounds weights and inputs to values that fp16 represents exactly, so that conversion to fp16 changes only the
    arithmetic."""
    for t in [*case.model.parameters(), *case.model.buffers()]:
        if t.is_floating_point():
            t.data = t.data.half().float()
    for step in case.inputs if isinstance(case.inputs, list) else [case.inputs]:
        for key, value in step.items():
            if value.is_floating_point():
                step[key] = value.half().float()


def convert(case, steps, program, precision):
    options = {}
    if case.states:
        options["states"] = [ct.StateType(wrapped_type=ct.TensorType(shape=getattr(case.model, s).shape, dtype=np.float16), name=s) for s in case.states]
        for s in case.states:
            getattr(case.model, s).zero_()
    model = ct.convert(program, inputs=types_of(case, steps), convert_to="mlprogram", skip_model_load=True, compute_precision=precision,
                       minimum_deployment_target=getattr(ct.target, case.target), **options)
    return case.after(model) if case.after else model


def take_weights(case, model):
    """Copies the weights of a compressed package into the PyTorch model."""
    import coremltools.optimize.coreml as cto

    plain = cto.decompress_weights(model)
    layers = [m for m in case.model.modules() if isinstance(m, (nn.Conv2d, nn.Linear))]
    ops = [op for op in plain._mil_program.functions["main"].operations if op.op_type in ("conv", "linear")]
    assert len(layers) == len(ops)
    for layer, op in zip(layers, ops):
        layer.weight.data = torch.from_numpy(np.array(op.weight.val, dtype=np.float32)).reshape(layer.weight.shape)


def save(model, path):
    import shutil

    shutil.rmtree(path, ignore_errors=True)
    model.save(path)


def make(name, folder):
    torch.manual_seed(sum(name.encode()))
    case = ZOO[name]()
    where = os.path.join(folder, name)
    os.makedirs(where, exist_ok=True)
    halves = None
    with torch.no_grad():
        if case.built:
            steps, wanted = [case.inputs], [case.wanted]
            model, wide = case.built(ct.precision.FLOAT16), case.built(ct.precision.FLOAT32)
        else:
            case.model.eval()
            randomise(case.model)
            rounded(case)
            steps, wanted = run_steps(case, torch.float32)
            program = torch.jit.script(case.model) if case.script else torch.jit.trace(case.model, tuple(steps[0].values()), check_trace=False)
            model = convert(case, steps, program, ct.precision.FLOAT16)
            wide = None if case.states else convert(case, steps, program, ct.precision.FLOAT32)
            if case.after:
                take_weights(case, wide)
                wanted = run_steps(case, torch.float32)[1]
            halves = run_steps(case, torch.float16)[1] if case.halves else None
    save(model, where + ".mlpackage")
    if wide:
        save(wide, where + ".fp32.mlpackage")
    names = [o.name for o in model.get_spec().description.output]
    wide_names = [o.name for o in wide.get_spec().description.output] if wide else names
    note = {"flexible": bool(case.flexible), "unstable": case.unstable, "inputs": list(steps[0]), "outputs": names, "outputs_fp32": wide_names, "states": case.states or [], "steps": len(steps), "target": case.target, "compressed": case.after is not None,
            "fp16_error": [max(error(h[i], w[i]) for h, w in zip(halves, wanted)) for i in range(len(names))] if halves else None}
    for t, (given, out) in enumerate(zip(steps, wanted)):
        tail = f".{t}" if len(steps) > 1 else ""
        for key, value in given.items():
            np.save(os.path.join(where, key + tail + ".npy"), value.numpy())
        for key, value in zip(names, out):
            np.save(os.path.join(where, key + tail + ".npy"), value.numpy())
    with open(os.path.join(where, "zoo.json"), "w") as f:
        json.dump(note, f, indent=1)


def main():
    if len(sys.argv) < 2:
        print(__doc__)
        return 2
    folder, names = sys.argv[1], sys.argv[2:] or list(ZOO)
    failed = 0
    os.makedirs(folder, exist_ok=True)
    for name in names:
        try:
            make(name, folder)
            print(f"made    {name}", flush=True)
        except ModuleNotFoundError as e:
            print(f"skipped {name}: {e}", flush=True)
        except Exception as e:  # the next one may work
            failed += 1
            print(f"FAILED  {name}: {type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}", flush=True)
    print(f"{len(names) - failed} models in {folder}, {failed} could not be made")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
