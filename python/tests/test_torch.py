# SPDX-License-Identifier: MIT
"""A program as a torch module: values and gradients match those of the same layers in PyTorch."""
import pytest
from conftest import ADDER, mil, refused

import propane_ml as propane

torch = pytest.importorskip("torch")


def test_gradients_are_torchs():
    from propane_ml.torch import Module
    t = "tensor<fp32, [3, 3]>"
    layer = Module(propane.parse(mil(f'{t} a = matmul(x = x, y = w)[name = string("a")];\n'
                                     f'{t} y = tanh(x = a)[name = string("y")];', f"{t} x, {t} w", "y")))
    torch.manual_seed(1)
    x, w = torch.randn(3, 3, requires_grad=True), torch.randn(3, 3, requires_grad=True)
    target = torch.randn(3, 3)
    loss = ((layer(x, w=w) - target) ** 2).sum()
    loss.backward()
    mine, x.grad, mine_w, w.grad = x.grad, None, w.grad, None
    ((torch.tanh(x @ w) - target) ** 2).sum().backward()
    assert torch.allclose(mine, x.grad, atol=1e-5) and torch.allclose(mine_w, w.grad, atol=1e-5)
    assert torch.autograd.gradcheck(lambda v: layer(v.float(), w.detach()).double(), (x.detach().double().requires_grad_(),),
                                    eps=1e-2, atol=1e-2, rtol=1e-2)
    with torch.no_grad():
        assert not layer(x, w).requires_grad
    with refused("invalid", "missing: w"):
        layer(x)
    with refused("invalid", "states"):
        Module(propane.parse(ADDER))


def test_it_learns_inside_a_torch_model():
    from propane_ml.torch import Module
    t = "tensor<fp16, [8, 4]>"
    block = Module(propane.parse(mil(f'{t} y = relu(x = x)[name = string("y")];', f"{t} x", "y")))
    torch.manual_seed(2)
    net = torch.nn.Sequential(torch.nn.Linear(2, 4), block, torch.nn.Linear(4, 1))
    net[2].weight.data = net[2].weight.data.half().float()
    x = torch.randn(8, 2)
    y, step, losses = x.sum(1, keepdim=True).abs(), torch.optim.Adam(net.parameters(), 0.05), []
    for _ in range(60):
        step.zero_grad()
        hidden = block(net[0](x).half()).float()
        loss = ((net[2](hidden) - y) ** 2).mean()
        loss.backward()
        step.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 5
